"""nbgrader reads this file when you run its commands in this folder."""

from autograder.nbgrader_config import course_config

get_config().merge(course_config())  # type: ignore[name-defined]  # noqa: F821 - nbgrader defines it
