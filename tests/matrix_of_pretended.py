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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--facts-only", action="store_true", help="leave out the tests, which take minutes a version")
    parser.add_argument("--pip", action="append", default=[], help="VERSION:NAME=VALUE for pip's environment")
    options = parser.parse_args()
    pip = pip_settings(options.pip)
    pythons = {version: python_of(version, pip.get(version, {})) for version in options.versions}
    answers = {version: given(python) for version, python in pythons.items()}
    titles = [f"torch {one['torch']}, triton {one['triton']}" for one in answers.values()]
    facts = [one["given"] for one in answers.values()]
    names = dict.fromkeys(name for one in facts for name in one)
    rows = [[name, *(one.get(name, "–") for one in facts)] for name in names]
    for test in () if options.facts_only else TESTS:
        rows.append([f"`{test}`", *(tested(python, test) for python in pythons.values())])
    lines = [
        "# A pretended GPU on each version of torch",
        "",
        "Written by `python tests/matrix_of_pretended.py -o tests/gpu/versions.md`, without a GPU.",
        "",
        f"| fact | {' | '.join(titles)} |",
        "|---|" + "---|" * len(titles),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return int("**" in text)


if __name__ == "__main__":
    sys.exit(main())
