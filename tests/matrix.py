"""Facts, symptoms and the lessons' claims on each torch: ``python tests/matrix.py [VERSION…] [-o tests/matrix.md]``.

Environments are made as `environments` says, and removed again with ``--remove``. Settings of pip that an index needs
are passed on from the caller's environment; those of one version stand in ``--pip VERSION:NAME=VALUE``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import environments
import matrix_tables as tables

ROOT = environments.ROOT
FACTS = (
    "tests/symptoms/test_*.py",
    "tests/unit/test_trace.py",
    "tests/unit/test_observe*.py",
    "tests/unit/test_asking.py",
    "tests/unit/test_bytecode.py",
    "tests/unit/test_gpu_facts.py",
    "tests/unit/test_torch_internals.py",
)
CLAIMS = "tests/claims/test_claims_lesson_*.py"


def given(python: Path) -> dict[str, str]:
    """Fact to ``yes``, or to the reason why this torch or this machine cannot give it."""
    command = [python, ROOT / "tests" / "facts_given.py"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {"observe": "**no**"}
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return answer["given"] | {name: f"None: {reason}" for name, reason in answer["missing"].items()}


def files_of(patterns: list[str]) -> list[Path]:
    """The test files of these patterns; a notebook's front end has no facts."""
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern) if "notebook" not in path.name)


def results(python: Path, path: Path) -> dict[str, str]:
    """Test to ``passed``, ``failed`` or the sentence of its skip: of one file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = ["-p", "no:logging", "--show-capture=no", f"--junitxml={report}"]
        settings = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [python, "-m", "pytest", *options, path]
        subprocess.run(command, cwd=ROOT, env=settings, stdout=subprocess.DEVNULL, check=False)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    found = {f"{path.stem}: {case.get('name', '')}": _state(case) for case in cases}
    return found or {f"{path.stem}: test_runs_to_its_end": "failed"}


def _state(case: ElementTree.Element) -> str:
    skip = case.find("skipped")
    if skip is not None:
        return skip.get("message") or "skipped"
    return "failed" if case.find("failure") is not None or case.find("error") is not None else "passed"


def merged(kept: Path | None, version: str, now: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """What was found now, beside what earlier runs left in the folder `kept`; leaves both there."""
    if kept is None:
        return now
    kept.mkdir(parents=True, exist_ok=True)
    file = kept / f"{version}.json"
    before = json.loads(file.read_text()) if file.exists() else {"facts": {}, "tests": {}}
    modules = {name.partition(":")[0] for name in now["tests"]}
    ran = modules | ({"facts_given"} if now["facts"] else set())
    commits = before.get("commits", {}) | dict.fromkeys(ran, commit())
    older = {name: state for name, state in before["tests"].items() if name.partition(":")[0] not in modules}
    both = {"facts": now["facts"] or before["facts"], "tests": older | now["tests"], "commits": commits}
    file.write_text(json.dumps(both, indent=1))
    return both


def commit() -> str:
    """The commit that is checked out, in short."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def kept(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Version to what runs left in the folder."""
    files = {version: folder / f"{version}.json" for version in environments.VERSIONS}
    return {version: json.loads(file.read_text()) for version, file in files.items() if file.exists()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=environments.VERSIONS)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--pip", action="append", default=[], help="VERSION:NAME=VALUE for pip's environment")
    parser.add_argument("--only", action="append", help="a pattern of test files, 'tests/claims/*_01.py'")
    parser.add_argument("--keep", type=Path, help="a folder: results of several runs make one table")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of what --keep holds")
    parser.add_argument("--remove", action="store_true", help="remove each environment made here after its run")
    options = parser.parse_args()
    pip = environments.pip_settings(options.pip)
    files = files_of(options.only or [*FACTS, CLAIMS])
    answers: dict[str, dict[str, dict[str, str]]] = {}
    for version in () if options.table else options.versions:
        python = environments.python_of(version, pip.get(version, {}))
        now = {"facts": {} if options.only else given(python), "tests": {}}
        for path in files:
            now["tests"] |= results(python, path)
            answers[version] = merged(options.keep, version, now)  # a run that is ended keeps what it has
        counts = {state: list(now["tests"].values()).count(state) for state in ("passed", "failed")}
        print(f"torch {version}: {counts['passed']} passed, {counts['failed']} failed", flush=True)
        if options.remove:
            environments.remove(version)
    if options.keep:
        answers = kept(options.keep)
    facts = {version: one["facts"] for version, one in answers.items()}
    found = {version: one["tests"] for version, one in answers.items()}
    commits = {version: one.get("commits", {}) for version, one in answers.items()}
    text = "\n".join([*_page(facts, found), *tables.commits_table(commits)]) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        print(text)
    states = [state for one in (*found.values(), *facts.values()) for state in one.values()]
    return int(any(state in ("failed", "**no**") for state in states))


def _page(facts: dict[str, dict[str, str]], found: dict[str, dict[str, str]]) -> list[str]:
    differ = tables.tests_that_differ(ROOT.glob(CLAIMS))
    claims = tables.syllabus_table(found, tables.said_sentences(), differ)
    head = ["# Facts on each version of torch", "", "Written by `make matrix`."]
    return [*head, *tables.facts_table(facts), *claims, *tables.tests_table(found)]


if __name__ == "__main__":
    sys.exit(main())
