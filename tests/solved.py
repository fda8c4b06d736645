"""Do the solved lessons give full points on each supported torch? A table of lessons and versions.

Run: ``make solved`` (``SOLVED="--torch 2.14.1 02_timing"`` for one). Each lesson is executed once from top to bottom in
the environment of that torch (`environments.py`), as `repeat.py` does it; what was found is kept under
``artifacts/solved``, so that one lesson on one torch can be run anew. The table goes to ``tests/solved.md``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from environments import ROOT, VERSIONS, installed, python_of

FOUND = ROOT / "artifacts" / "solved"
PROGRAM = """
import json, sys
from autograder.build import lesson_named
from tests.repeat import once
found = once(lesson_named(sys.argv[1]), 1)
print(json.dumps([found.verdicts, found.full, round(found.seconds), list(found.problems)]))
"""


def executed(python: Path, lesson: str) -> dict[str, Any]:
    """One solved lesson in that environment: ``verdicts``, how many were ``full``, ``seconds``, ``problems``, date."""
    with tempfile.TemporaryDirectory() as cache:
        own = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        own["TORCHINDUCTOR_CACHE_DIR"] = os.environ.get("TORCHINDUCTOR_CACHE_DIR", cache)
        command = [str(python), "-c", PROGRAM, lesson]
        ran = subprocess.run(command, cwd=ROOT, env=os.environ | own, capture_output=True, text=True)
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["no word"])[-1]
        return {"verdicts": 0, "full": 0, "seconds": 0, "problems": [last], "date": str(datetime.date.today())}
    verdicts, full, seconds, problems = json.loads(ran.stdout.splitlines()[-1])
    return {
        "verdicts": verdicts, "full": full, "seconds": seconds, "problems": problems, "date": str(datetime.date.today())
    }  # fmt: skip


def table(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """A row for each lesson, a column for each torch: verdicts with full points, and seconds."""
    versions, names = list(found), sorted({name for one in found.values() for name in one})
    lines = [
        "# Solved lessons on each torch",
        "",
        "Made by `make solved`: each solved notebook once, on a CPU; verdicts",
    ]
    lines += ["with full points, and seconds on a machine that was not idle.", ""]
    lines += [f"| lesson | {' | '.join(versions)} |", "|---" * (1 + len(versions)) + "|"]
    problems = []
    for name in names:
        cells = []
        for version in versions:
            one = found[version].get(name)
            cells.append(f"{one['full']} of {one['verdicts']}, {one['seconds']} s, {one['date']}" if one else "not run")
            problems += [f"- {name} on {version}: {said}" for said in (one or {}).get("problems", ())]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, *(["", *problems] if problems else [])]) + "\n"


def main() -> int:
    """Writes the table; 1 when a right answer was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="*", help="such as 02_timing; all when left out")
    parser.add_argument("--torch", nargs="+", default=VERSIONS, help="versions; all that are supported when left out")
    parser.add_argument("--python", nargs="+", type=Path, default=[], help="environments that are there already")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "tests" / "solved.md")
    args = parser.parse_args()
    ready = {installed(python): python for python in args.python}
    chosen = args.lessons or sorted(path.parent.name for path in ROOT.glob("solutions/*/*.ipynb"))
    FOUND.mkdir(parents=True, exist_ok=True)
    for version in ready or args.torch:
        kept = FOUND / f"{version}.json"
        for name in chosen:
            one = executed(ready.get(version) or python_of(version), name)
            before = json.loads(kept.read_text()) if kept.exists() else {}
            kept.write_text(json.dumps(before | {name: one}, indent=1, sort_keys=True))
            print(version, name, one, flush=True)
    found = {path.stem: json.loads(path.read_text()) for path in sorted(FOUND.glob("*.json"))}
    args.out.write_text(table(found), encoding="utf-8")
    return int(any(one["full"] != one["verdicts"] for of in found.values() for one in of.values()))


if __name__ == "__main__":
    sys.exit(main())
