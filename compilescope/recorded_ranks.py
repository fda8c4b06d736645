"""What two GPUs said about placements, kept as JSON."""

from __future__ import annotations

from pathlib import Path

from compilescope.facts_ranks import PlacementTable

RECORDED = Path(__file__).parents[1] / "assets" / "recorded" / "ranks" / "placements.json"


def recorded_placements(path: Path = RECORDED) -> PlacementTable:
    """The recorded table of placements. ValueError, with what to do, if there is none."""
    if not path.is_file():
        raise ValueError(f"There is no recording {path.name}: benchmarks/placements.py writes it on two GPUs.")
    return PlacementTable.from_json(path.read_text(encoding="utf-8"))
