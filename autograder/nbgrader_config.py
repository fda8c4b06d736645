"""nbgrader on this course: solutions/ is the source, notebooks/ the release, work/ holds everything of a class.

nbgrader reads `nbgrader_config.py` from the working folder only, so the file of that name in the course's root loads
this one. The builder reads the same settings: `nbgrader generate_assignment` and `build` write one text.
"""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.errors import CourseError
from autograder.exercise import STUB

ROOT = Path(__file__).parents[1]

KEPT = ".original"
"""Ending of a submission's file as it came in, where a mended one stands in its place."""


def course_config(root: Path = ROOT) -> Config:
    """The settings for the course in `root`."""
    with contextlib.suppress(OSError):  # nbgrader cannot make the folder of its database
        (root / "work").mkdir(exist_ok=True)
    c = Config()
    c.CourseDirectory.course_id = "inside-torch-compile"
    c.CourseDirectory.root = str(root)
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "notebooks"
    c.CourseDirectory.submitted_directory = "work/submitted"
    c.CourseDirectory.autograded_directory = "work/autograded"
    c.CourseDirectory.feedback_directory = "work/feedback"
    c.CourseDirectory.solution_directory = "work/solution"
    c.CourseDirectory.db_url = f"sqlite:///{root}/work/gradebook.db"
    # Every other file of the source folder is copied into the release: the .py there is the solution.
    c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "*.py", f"*{KEPT}"]
    c.ZipCollectApp.downloaded_directory = "work/downloaded"
    # As Canvas and Moodle name what was handed in: ann_77_1234_basic_compile-1.ipynb, or ann_77_assignsubmission_file/…
    c.FileNameCollectorPlugin.named_regexp = (
        r".*/(?P<student_id>[^/_]+)(?:_LATE)?_\d+_(?:\d+_|assignsubmission_file_?/)(?P<file_id>\w+?)(?:-\d+)?\.ipynb"
    )
    c.ClearSolutions.code_stub = {"python": f'raise NotImplementedError("{STUB}")'}
    # The first Inductor compile of a cold machine takes 10 s and more; nbgrader's default is 30 s a cell.
    c.ExecutePreprocessor.timeout = 300
    c.ExecutePreprocessor.startup_timeout = 300
    # A warning of torch on stderr must not cost a right answer its points.
    c.IgnorePattern.enabled = True
    c.IgnorePattern.pattern = r"(?s).*"
    c.GenerateAssignment.pre_convert_hook = "autograder.preflight.before_release"
    # nbgrader's own steps, and three of ours that let one broken submission stop nobody (strings: nothing is imported).
    c.Autograde.pre_convert_hook = "autograder.preflight.before_autograde"
    sanitize = "ClearOutput MendCells DeduplicateIds OverwriteKernelspec OverwriteCells CheckCellMetadata"
    c.Autograde.sanitize_preprocessors = [_step(name) for name in sanitize.split()]
    grade = "RunToTheEnd IgnorePattern LimitOutput SaveAutoGrades AssignLatePenalties CheckCellMetadata"
    c.Autograde.autograde_preprocessors = [_step(name) for name in grade.split()]
    _make_pages_safe(c, root)
    return c


def config_as_read(root: Path) -> Config:
    """As nbgrader reads it in `root`: from `nbgrader_config.py` there, with what an instructor added to it.

    Without that file the course's own settings. Raises CourseError where the file cannot be read.
    """
    file = root / "nbgrader_config.py"
    if not file.exists():
        return course_config(root)
    try:
        return PyFileConfigLoader(file.name, path=str(root)).load_config()
    except Exception as error:  # whatever an instructor wrote
        raise CourseError(f"nbgrader_config.py cannot be read: {type(error).__name__}: {error}. Mend it.") from error


def _make_pages_safe(c: Config, root: Path) -> None:
    """Feedback and formgrader without scripts of a submission, and feedback without a network."""
    ours, nbgrader = "autograder.grading.feedback", importlib.util.find_spec("nbgrader")
    c.HTMLExporter.filters = {"markdown2html": f"{ours}.safe_markdown"}
    c.HTMLExporter.preprocessors = [f"{ours}.SafeOutputs"]
    steps = ["nbgrader.preprocessors.GetGrades", "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor"]
    c.GenerateFeedback.preprocessors = [*steps, f"{ours}.AddPictures"]
    c.GenerateFeedback.post_convert_hook = f"{ours}.after_feedback"
    c.AddPictures.graded = str(root / "work" / "grading")
    if nbgrader is not None and nbgrader.origin:  # ours come first: the same pages without MathJax from elsewhere
        theirs = Path(nbgrader.origin).parent / "server_extensions" / "formgrader" / "templates"
        c.HTMLExporter.extra_template_basedirs = [str(Path(__file__).parent / "grading" / "templates"), str(theirs)]


def _step(name: str) -> str:
    ours = name in ("MendCells", "RunToTheEnd")
    return f"autograder.grading_steps.{name}" if ours else f"nbgrader.preprocessors.{name}"
