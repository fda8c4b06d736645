"""Fact tests and symptoms on each supported torch: ``python tests/matrix.py [VERSION…] [-o tests/matrix.md]``.

Each version has an environment of its own, ``.venv-VERSION``, made on first use (a CUDA build, about 5 GB) and removed
again with ``--remove``. Settings of pip that an index needs are passed on from the caller's environment; those of one
version stand in ``--pip VERSION:NAME=VALUE``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("2.11.0", "2.13.0", "2.14.1", "2.15.0")
NEEDED = ("cattrs", "numpy", "graphlay", "pygments", "pyyaml", "depyf", "pytest", "pytest-timeout", "setuptools")
TESTS = ("tests/symptoms", "tests/unit/test_trace.py", "tests/unit/test_observe*.py")
SPACE = 8 * 2**30


def python_of(version: str, pip: dict[str, str]) -> Path:
    """The Python of an environment with that torch; makes the environment if there is none."""
    course = ROOT / ".venv/bin/python"
    if course.exists() and installed(course) == version:
        return course
    python = ROOT / f".venv-{version}/bin/python"
    if python.exists() and installed(python) == version:
        return python
    free = shutil.disk_usage(ROOT).free
    if free < SPACE:
        sys.exit(f"torch {version} needs {SPACE >> 30} GB of disk, and {free >> 30} GB are free.")
    subprocess.run([sys.executable, "-m", "venv", ROOT / f".venv-{version}"], check=True)
    command = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", f"torch=={version}", *NEEDED]
    subprocess.run(command, env=os.environ | pip, check=True)
    return python


def installed(python: Path) -> str:
    """Version of torch in that environment, ``2.13.0``; empty if there is none."""
    ask = "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.strip()


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


def results(version: str, python: Path) -> dict[str, str]:
    """Test to ``passed``, ``failed`` or the sentence of its skip."""
    report = Path(tempfile.mkdtemp(), "report.xml")
    tests = sorted(path for pattern in TESTS for path in ROOT.glob(pattern) if "notebook" not in path.name)
    command = [
        python,
        "-m",
        "pytest",
        "-p",
        "no:logging",
        "--show-capture=no",
        "--continue-on-collection-errors",
        f"--junitxml={report}",
        *tests,
    ]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}: {case.get('name', '')}"
        skip = case.find("skipped")
        if skip is not None:
            found[name] = skip.get("message") or "skipped"
        else:
            found[name] = "failed" if case.find("failure") is not None or case.find("error") is not None else "passed"
    shutil.rmtree(report.parent)
    return found


def facts_table(facts: dict[str, dict[str, str]]) -> list[str]:
    """Markdown: the facts of one program, one column for each version."""
    names = dict.fromkeys(name for one in facts.values() for name in one)
    rows = [f"| {name} | {' | '.join(one.get(name, '–') for one in facts.values())} |" for name in names]
    return ["", "## facts of one program", "", f"| fact | {' | '.join(facts)} |", "|---|" + "---|" * len(facts), *rows]


def sentence(name: str) -> tuple[str, str]:
    """What must hold, and the module, for ``test_breaks: test_what_must_hold[case]``."""
    module, _, test = name.partition(": ")
    test, _, case = test.partition("[")
    return f"{test.removeprefix('test_').replace('_', ' ')}{f' ({case[:-1]})' if case else ''}", module


def table(found: dict[str, dict[str, str]]) -> list[str]:
    """Markdown: one line for each fact, one column for each version."""
    marks = {"passed": "yes", "failed": "**no**"}
    lines = []
    module_before = ""
    for name in dict.fromkeys(name for one in found.values() for name in one):
        words, module = sentence(name)
        if module != module_before:
            title = module.removeprefix("test_").replace("_", " ")
            lines += ["", f"## {title}", "", f"| fact | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
            module_before = module
        cells = [marks.get(state := one.get(name, "–"), state) for one in found.values()]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return lines


def pip_settings(given: Iterable[str]) -> dict[str, dict[str, str]]:
    settings: dict[str, dict[str, str]] = {}
    for one in given:
        version, _, rest = one.partition(":")
        name, _, value = rest.partition("=")
        settings.setdefault(version, {})[name] = value
    return settings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--pip", action="append", default=[], help="VERSION:NAME=VALUE for pip's environment")
    parser.add_argument("--remove", action="store_true", help="remove each environment made here after its run")
    options = parser.parse_args()
    pip = pip_settings(options.pip)
    found: dict[str, dict[str, str]] = {}
    facts: dict[str, dict[str, str]] = {}
    for version in options.versions:
        python = python_of(version, pip.get(version, {}))
        facts[version] = given(python)
        found[version] = results(version, python)
        counts = {state: list(found[version].values()).count(state) for state in ("passed", "failed")}
        print(f"torch {version}: {counts['passed']} passed, {counts['failed']} failed", flush=True)
        if options.remove:
            shutil.rmtree(ROOT / f".venv-{version}", ignore_errors=True)
    text = (
        "\n".join(
            ["# Facts on each version of torch", "", "Written by `make matrix`.", *facts_table(facts), *table(found)]
        )
        + "\n"
    )
    if options.output:
        options.output.write_text(text)
    else:
        print(text)
    return int(
        any(state in ("failed", "**no**") for one in (*found.values(), *facts.values()) for state in one.values())
    )


if __name__ == "__main__":
    sys.exit(main())
