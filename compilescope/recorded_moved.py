"""Which facts moved between two recordings of one recipe: ``python -m compilescope.recorded_moved OLD NEW``.

Times always move, and the date does; everything else is a fact of torch, Triton, the driver and the GPU, and a second
recording on the same four should give it again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMES = re.compile(r"(^|_)(seconds|s|ms|us|samples|ratios|interval|warmup|start|verdict|refusal|date|timed_calls)$")
CLOCKED = "timings", "speeds", "spans"
"""Parts of a recording's measurements that hold nothing but what a clock said."""
NAMES = "workload", "mode", "name", "id", "words"
LONG = 60


def is_time(path: tuple[str, ...]) -> bool:
    """Whether what stands at this path was read from a clock or a calendar, or won a race against one."""
    if any(part in CLOCKED for part in path) or path[-1:] == ("chosen",):
        return True
    if len(path) > 1 and path[-2] == "numbers":
        return "bytes" not in path[-1]
    return bool(TIMES.search(path[-1])) if path else False


def moved(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """A sentence for each fact of `old` that `new` gives otherwise, or that only one of them has."""
    if is_time(path):
        return
    if isinstance(old, list) and isinstance(new, list):
        old, new = _by_name(old), _by_name(new)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from moved(old.get(key), new.get(key), (*path, key))
    elif old != new:
        yield f"{' · '.join(path)}: {_short(old)} → {_short(new)}"


def _by_name(items: list[Any]) -> dict[str, Any]:
    """The items under their names, so that one more in the middle moves no other; else under their numbers."""
    named = [" ".join(str(one[key]) for key in NAMES if key in one) if isinstance(one, dict) else "" for one in items]
    unique = all(named) and len(set(named)) == len(named)
    return dict(zip(named if unique else map(str, range(len(items))), items, strict=True))


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def moved_in_folders(old: Path, new: Path) -> dict[str, list[str]]:
    """Name of each recording in both folders to the facts that moved. Raises ValueError if they share none."""
    both = sorted({path.name for path in old.glob("*.json")} & {path.name for path in new.glob("*.json")})
    if not both:
        raise ValueError(f"{old.name} and {new.name} hold no recording of the same name.")
    return {
        name: list(moved(*(json.loads((folder / name).read_text("utf-8")) for folder in (old, new)))) for name in both
    }


def main(arguments: list[str] | None = None) -> int:
    """Prints what moved, recording by recording; 1 if anything but times did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(arguments)
    try:
        found = moved_in_folders(options.old, options.new)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for name, facts in found.items():
        print(f"{name}: {'only times moved' if not facts else f'{len(facts)} facts moved'}")
        print(*(f"  {fact}" for fact in facts), sep="\n" if facts else "", end="\n" if facts else "")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
