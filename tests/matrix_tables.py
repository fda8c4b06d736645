"""Results of fact tests on several versions of torch → Markdown, for `matrix.py`."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAID = ROOT / "tests/claims/said.toml"
_CLAIM = re.compile(r"^test_claims_lesson_(?P<lesson>\d+)\w*: test_row_(?P<row>\d+)_(?P<test>.+)$")
_MARKS = {"passed": "yes", "failed": "**no**"}

Results = Mapping[str, Mapping[str, str]]
"""Version to test (``module: test[case]``) to ``passed``, ``failed``, or the sentence of its skip."""


def facts_table(facts: Results) -> list[str]:
    """The facts of one program, one column for each version."""
    names = dict.fromkeys(name for one in facts.values() for name in one)
    rows = [f"| {name} | {' | '.join(one.get(name, '–') for one in facts.values())} |" for name in names]
    return ["", "## facts of one program", "", *_head(["fact"], facts), *rows]


def tests_table(found: Results) -> list[str]:
    """A table for each module of tests: what must hold, one column for each version."""
    lines = []
    module_before = ""
    names = _names(found)
    modules = list(dict.fromkeys(name.partition(":")[0] for name in names))
    for name in sorted(names, key=lambda name: modules.index(name.partition(":")[0])):
        if _CLAIM.match(name):
            continue
        words, module = sentence(name)
        if module != module_before:
            title = module.removeprefix("test_").replace("_", " ")
            lines += ["", f"## {title}", "", *_head(["fact"], found)]
            module_before = module
        cells = [_MARKS.get(state := one.get(name, "–"), state) for one in found.values()]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return lines


def syllabus_table(found: Results, said: Mapping[str, Mapping[str, str]], differ: Iterable[str] = ()) -> list[str]:
    """A table for each lesson: row of the syllabus, what must hold, one column for each version.

    A claim that fails on a version names the sentence of the lesson that is false there. `differ`: tests that say
    themselves which version yields what; ``†`` marks them.
    """
    lines: list[str] = []
    lesson_before, differing = "", set(differ)
    for name in sorted((name for name in _names(found) if _CLAIM.match(name)), key=_lesson_and_row):
        claim = _CLAIM.match(name)
        assert claim is not None
        lesson, test = claim["lesson"], f"row_{claim['row']}_{claim['test']}".partition("[")[0]
        if lesson != lesson_before:
            lines += ["", f"## syllabus: lesson {int(lesson)}", "", *_head(["row", "claim"], found)]
            lesson_before = lesson
        false = said.get(lesson, {}).get(test)
        cells = [_claim_cell(one.get(name, "–"), false, lesson) for one in found.values()]
        words = sentence(name.replace(f"row_{claim['row']}_", ""))[0] + (" †" if f"test_{test}" in differing else "")
        lines.append(f"| {int(claim['row'])} | {words} | {' | '.join(cells)} |")
    return (
        [*lines, "", "† The versions differ, and the lesson says so: the test says which yields what."] if lines else []
    )


def _lesson_and_row(name: str) -> tuple[str, str, str]:
    claim = _CLAIM.match(name)
    return (claim["lesson"], claim["row"], claim["test"]) if claim else ("", "", name)


def _claim_cell(state: str, said: str | None, lesson: str) -> str:
    if state != "failed":
        return _MARKS.get(state, state)
    return f"**no**: lesson {int(lesson)} says: “{said}”" if said else f"**no**: lesson {int(lesson)}"


def commits_table(commits: Results) -> list[str]:
    """At which commit each module of tests ran, where runs were put together."""
    modules = _names(commits)
    rows = [
        f"| {module.removeprefix('test_').replace('_', ' ')} | "
        f"{' | '.join(one.get(module, '–') for one in commits.values())} |"
        for module in modules
    ]
    return ["", "## ran at commit", "", *_head(["tests"], commits), *rows] if modules else []


def sentence(name: str) -> tuple[str, str]:
    """What must hold, and the module, for ``test_breaks: test_what_must_hold[case]``."""
    module, _, test = name.partition(": ")
    test, _, case = test.partition("[")
    return f"{test.removeprefix('test_').replace('_', ' ')}{f' ({case[:-1]})' if case else ''}", module


def said_sentences() -> dict[str, dict[str, str]]:
    """Lesson (``01``) to claim (``row_01_…``) to the sentence of the lesson that is false where the test fails."""
    return tomllib.loads(SAID.read_text())


def tests_that_differ(paths: Iterable[Path]) -> list[str]:
    """Names of the tests in these files that ask for the version of torch."""
    functions = (
        node for path in paths for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
    )
    return [
        one.name
        for one in functions
        if any(isinstance(part, ast.Name) and part.id in ("VERSION", "TORCH") for part in ast.walk(one))
    ]


def _names(found: Results) -> list[str]:
    return list(dict.fromkeys(name for one in found.values() for name in one))


def _head(first: list[str], versions: Iterable[str]) -> list[str]:
    names = [*first, *versions]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
