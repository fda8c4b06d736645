"""``python -m compilescope trace FOLDER``: a trace written elsewhere, as one page that needs no network."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from compilescope.explorer import save_html
from compilescope.facts import Run
from compilescope.trace import every_rank


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, or 1 with one sentence on stderr."""
    options = _parser().parse_args(arguments)
    try:
        runs = every_rank(options.folder)
        if options.rank is not None:
            runs = _of_rank(runs, options.rank)
        page = save_html(runs[0], options.output, others=runs[1:])
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for note in dict.fromkeys(note for run in runs for note in run.notes):
        print(f"Note: {note}", file=sys.stderr)
    print(page)
    if options.open:
        webbrowser.open(page.resolve().as_uri())
    return 0


def _of_rank(runs: tuple[Run, ...], rank: int) -> tuple[Run, ...]:
    chosen = tuple(run for run in runs if run.origin.rank == rank)
    if not chosen:
        known = ", ".join(str(run.origin.rank) for run in runs if run.origin.rank is not None)
        raise ValueError(f"There is no rank {rank} in this trace; its ranks: {known or 'none, one process wrote it'}.")
    return chosen


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compilescope", description="What torch.compile did, as a page.")
    commands = parser.add_subparsers(dest="command", required=True)
    trace = commands.add_parser(
        "trace",
        help="a folder written with TORCH_TRACE, as one HTML page that needs no network",
        description="Start the program with TORCH_TRACE=folder INDUCTOR_PROVENANCE=1, then give that folder here.",
    )
    trace.add_argument("folder", type=Path, help="what TORCH_TRACE named; also one file of it")
    trace.add_argument("-o", "--output", type=Path, default=Path("compile.html"), help="the page (%(default)s)")
    trace.add_argument("--rank", type=int, help="only this process of several")
    trace.add_argument("--open", action="store_true", help="open the page in the browser")
    return parser


if __name__ == "__main__":
    sys.exit(main())
