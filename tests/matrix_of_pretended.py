"""What each supported torch gives for a pretended GPU: ``python tests/matrix_of_pretended.py [VERSION…]``.

Uses the environments of ``tests/environments.py`` (``.venv-VERSION``), and makes those that are not there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from environments import ROOT, VERSIONS, pip_settings, python_of

TESTS = (
    "tests/unit/test_pretend.py",
    "tests/unit/test_interpret.py",
    "tests/gpu/test_kernels_of_learners.py",
)


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "gpu")])}


def given(python: Path) -> dict[str, object]:
    """What `pretended_given.py` says under that Python."""
    command = [python, "-W", "ignore", ROOT / "tests/gpu/pretended_given.py"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{python} cannot run pretended_given.py:\n{done.stderr[-2000:]}")
    answer: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def tested(python: Path, test: str) -> str:
    """``93 passed``, or what pytest's last line says instead."""
    command = [python, "-m", "pytest", "-p", "no:logging", "--show-capture=no", "-m", "not gpu", ROOT / test]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    counts = re.findall(r"\d+ (?:failed|passed|skipped|errors?)", last)
    said = ", ".join(counts) or last[:100]
    return f"**{said}**" if done.returncode else said


def answer_of(version: str, pip: dict[str, str], facts_only: bool) -> dict[str, object]:
    python = python_of(version, pip)
    tests = () if facts_only else TESTS
    return given(python) | {"tests": {f"`{test}`": tested(python, test) for test in tests}}


def page(answers: list[dict[str, dict[str, str]]]) -> str:
    """The facts of each version beside each other."""
    titles = [f"torch {one['torch']}, triton {one['triton']}" for one in answers]
    columns = [one["given"] | one["tests"] for one in answers]
    names = dict.fromkeys(name for one in columns for name in one)
    rows = [f"| {name} | {' | '.join(one.get(name, '–') for one in columns)} |" for name in names]
    head = [
        "# A pretended GPU on each version of torch",
        "",
        "Written by `python tests/matrix_of_pretended.py -o tests/gpu/versions.md`, without a GPU.",
        "",
    ]
    return "\n".join([*head, f"| fact | {' | '.join(titles)} |", "|---|" + "---|" * len(titles), *rows]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder: results of several runs make one table")
    parser.add_argument("--facts-only", action="store_true", help="leave out the tests, which take minutes a version")
    parser.add_argument("--pip", action="append", default=[], help="VERSION:NAME=VALUE for pip's environment")
    options = parser.parse_args()
    pip = pip_settings(options.pip)
    answers = {version: answer_of(version, pip.get(version, {}), options.facts_only) for version in options.versions}
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        for version, answer in answers.items():
            (options.keep / f"{version}.json").write_text(json.dumps(answer), encoding="utf-8")
        kept = [options.keep / f"{version}.json" for version in VERSIONS]
        answers = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in kept if path.exists()}
    text = page(list(answers.values()))
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return int("**" in text)


if __name__ == "__main__":
    sys.exit(main())
