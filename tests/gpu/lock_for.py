"""The lock as a node's Python reads it, on stdout: ``python3 tests/gpu/lock_for.py VERSION [NAME...]``.

VERSION is 3.12, or 3.12.3 for no older one; packages that are named are left out. pip itself would read the lock's
conditions as the Python that runs it, which gathers for another one.
"""

import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

LOCK = Path(__file__).parents[2] / "requirements" / "test.lock"


def lock_for(version: str, lock: Iterable[str], left_out: Collection[str] = ()) -> Iterator[str]:
    """Lines without conditions, after one that names the version."""
    full = [*version.split("."), "0"][:3]
    node = {"python_version": ".".join(full[:2]), "python_full_version": ".".join(full)}
    yield f"# for Python {version}"
    for line in lock:
        if not line.strip() or line.startswith("#"):
            continue
        wanted = Requirement(line.strip())
        if wanted.name not in left_out and (wanted.marker is None or wanted.marker.evaluate(node)):
            yield f"{wanted.name}{wanted.specifier}"


if __name__ == "__main__":
    print(*lock_for(sys.argv[1], LOCK.read_text(encoding="utf-8").splitlines(), sys.argv[2:]), sep="\n")
