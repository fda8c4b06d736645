"""The grader's processes import neither a grammar that no notebook needs nor, in workers, nbgrader."""

import subprocess
import sys

HEAVY = "[name for name in ('rfc3987_syntax', 'lark', 'nbgrader', 'torch') if name in sys.modules]"


def imported(module, then="pass"):
    """Which of the heavy modules are there after that import."""
    code = f"import sys; import {module}; {then}; print({HEAVY})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_command_imports_none_of_them():
    assert imported("autograder.grading.command") == "[]"


def test_notebooks_are_checked_as_before():
    wrong = "notebook = nbformat.v4.new_notebook(); notebook.metadata = 1; nbformat.validate(notebook)"
    code = f"import autograder.grading, nbformat\ntry:\n    {wrong}\nexcept nbformat.ValidationError:\n    print('no')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "no\n"


def test_a_worker_imports_torch_only():
    assert imported("autograder.grading.examiner") == "['torch']"


def test_the_grammar_is_left_out_for_one_import_only():
    code = "import sys, autograder.grading; print('rfc3987_syntax' in sys.modules, 'jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False True\n"
