"""nbgrader reads this file when you run its commands in this folder."""

from pathlib import Path

from autograder.nbgrader_config import course_config

# nbgrader defines both names.
get_config().merge(course_config(Path(__file__).resolve().parent))  # type: ignore[name-defined]  # noqa: F821
