"""What depyf makes of Dynamo's bytecode: ``python tests/bytecode_pairs.py --python python3.12 … [-o FILE]``.

One column for each pair of Python (the one that runs this, and those of ``--python``) and torch. Environments are made
as `environments` says, and removed again with ``--remove``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import environments

ROOT = environments.ROOT
HEAD = (
    "# Bytecode through depyf",
    "",
    "Written by `make bytecode`. **yes**: depyf writes Python, and this Python, run in place of the bytecode, computes",
    "the same numbers. Where depyf fails, `compilescope.bytecode()` shows a marked disassembly instead.",
    "",
)
WORDS = {
    "depyf: import": "depyf can be imported",
    "depyf: prepare_debug": "`depyf.prepare_debug` gets through a compile with a break",
    "before": "before Dynamo",
    "after": "as Dynamo wrote it",
    "resumed": "the functions that go on after a break",
    "bytecode()": "`compilescope.bytecode()` marks the graph, and where it goes on",
}


def given(python: Path) -> dict[str, str]:
    """Fact to ``yes``, ``no: …`` or ``wrong: …`` on that pair."""
    settings = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [python, ROOT / "tests" / "bytecode_given.py"]
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return {"depyf: import": f"**the program failed**: {last[:80]}"}
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return {f"{program}: {part}": state for program, parts in answer.items() for part, state in parts.items()}


def table(pairs: dict[str, dict[str, str]]) -> list[str]:
    """Markdown: programs and their parts, one column for each pair."""
    lines = [f"| | {' | '.join(pairs)} |", "|---|" + "---|" * len(pairs)]
    program_before = "depyf"
    for name in dict.fromkeys(name for one in pairs.values() for name in one):
        program, _, part = name.partition(": ")
        if program != program_before:
            lines.append(f"| **{program.replace('_', ' ')}** |" + " |" * len(pairs))
            program_before = program
        cells = [one.get(name, "–") for one in pairs.values()]
        lines.append(f"| {WORDS.get(name) or WORDS[part]} | {' | '.join(cells)} |")
    return lines


def sums(pairs: dict[str, dict[str, str]]) -> list[str]:
    """Markdown: of how many pieces of bytecode depyf makes right Python, for each pair."""
    lines = ["| pair | depyf makes right Python of | wrong Python of | fails at |", "|---|---|---|---|"]
    for pair, facts in pairs.items():
        states = [state for name, state in facts.items() if name.partition(": ")[2] in ("before", "after", "resumed")]
        right, wrong = states.count("yes"), sum(state.startswith("wrong") for state in states)
        why = sorted({state.partition(": ")[2] for state in states if state.startswith("no")})
        lines.append(f"| {pair} | {right} of {len(states)} | {wrong} | {', '.join(why) or 'nothing'} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=environments.VERSIONS)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--python", action="append", default=[], help="a Python besides this one")
    parser.add_argument("--pip", action="append", default=[], help="VERSION:NAME=VALUE for pip's environment")
    parser.add_argument("--remove", action="store_true", help="remove each environment made here after its use")
    options = parser.parse_args()
    pip = environments.pip_settings(options.pip)
    pairs: dict[str, dict[str, str]] = {}
    for python in (sys.executable, *options.python):
        for version in options.versions:
            pair = f"Python {environments.release(python)}, torch {version}"
            pairs[pair] = given(environments.python_of(version, pip.get(version), python))
            print(pair, list(pairs[pair].values()).count("yes"), "yes", flush=True)
            if options.remove:
                environments.remove(version, python)
    text = [*HEAD, *sums(pairs), "", "## Program by program", "", *table(pairs)]
    if options.output:
        options.output.write_text("\n".join(text) + "\n")
    else:
        print("\n".join(text))
    return int(any("**" in state for facts in pairs.values() for state in facts.values()))


if __name__ == "__main__":
    sys.exit(main())
