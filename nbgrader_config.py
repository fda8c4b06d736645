"""nbgrader reads this file when you run its commands in this folder."""

import os
import sys
from pathlib import Path

from autograder.nbgrader_config import course_config

# nbgrader starts `alembic` by name: it must be found also where nobody has activated the environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
# nbgrader defines get_config.
get_config().merge(course_config(Path(__file__).resolve().parent))  # type: ignore[name-defined]  # noqa: F821
