"""The targets of one explorer: the run, GPUs that it pretends, and the same code observed or recorded elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from compilescope.explorer.story import headline
from compilescope.facts import Origin, Run, Source
from compilescope.text import describe

Others = Run | Sequence[Run] | Mapping[str, Run]
"""Runs of the same code elsewhere; a mapping names them itself."""


def targets(run: Run, others: Others = ()) -> dict[str, Run]:
    """Name of each target to its run, `run` first, each followed by what it pretends. TypeError for what is no run."""
    others = (others,) if isinstance(others, Run) else others
    if isinstance(others, str) or not isinstance(others, Sequence | Mapping):
        raise TypeError(f"others wants runs, but got {type(others).__name__}: show(run, others=[recorded(name)]).")
    given = others.items() if isinstance(others, Mapping) else [("", one) for one in others]
    found: dict[str, Run] = {}
    for name, one in [("", run), *given]:
        if not isinstance(one, Run):
            raise TypeError(f"others wants runs, but one is {type(one).__name__}: show(run, others=[recorded(name)]).")
        found[_unused(name or target_name(one.origin), found)] = one
        for pretended in one.pretended:
            found[_unused(target_name(pretended.origin), found)] = pretended
    return found


def _unused(name: str, taken: Mapping[str, Run]) -> str:
    number = 2
    while (tried := name if number == 2 else f"{name} ({number - 1})") in taken:
        number += 1
    return tried


def target_name(origin: Origin) -> str:
    """Name of a target's tab: ``this CPU``, ``NVIDIA H100 (pretended)``, ``NVIDIA H200, recorded``."""
    match origin.kind:
        case "live":
            return f"this {origin.device}"
        case "recorded":
            return f"{origin.device}, recorded"
        case "trace":
            return f"{origin.device}, from a trace" + ("" if origin.rank is None else f", rank {origin.rank}")
        case _:
            return origin.device if "pretended" in origin.device else f"{origin.device} (pretended)"


def describe_targets(found: Mapping[str, Run]) -> str:
    """The text twin: the first run, then what the others do differently, each under the name of its tab."""
    first, *rest = found.items()
    if not rest:
        return describe(first[1])
    names = f"Targets: {' · '.join(found)}."
    said = first[1].notes
    own = ((name, replace(run, notes=tuple(note for note in run.notes if note not in said))) for name, run in rest)
    return "\n\n".join([describe(first[1]), names, *(f"{name}: {describe(run)}" for name, run in own)])


def summary(name: str, run: Run) -> str:
    """One line for a target that is not drawn: ``NVIDIA H100 (pretended): 1 graph, 1 kernel: triton_poi_fused…``."""
    kernels = ", ".join(kernel.name for kernel in run.kernels[:3])
    more = f" and {len(run.kernels) - 3} more" if len(run.kernels) > 3 else ""
    return f"{name}: {headline(run).rpartition(': ')[2]}" + (f": {kernels}{more}" if kernels else "")


class Learner:
    """The learner's lines: where a line of another target is found in the files of the first one."""

    def __init__(self, run: Run) -> None:
        self._files = run.sources
        lines = [
            (line.strip(), Source(file, number, "", line))
            for file, text in run.sources.items()
            for number, line in enumerate(text.split("\n"), 1)
        ]
        seen = Counter(text for text, _ in lines)
        self._once = {text: source for text, source in lines if text and seen[text] == 1}

    def line(self, source: Source | None) -> Source | None:
        """`source` itself if its file is the learner's; else the one line with the same text; else `source`."""
        if source is None or source.file in self._files:
            return source
        return self._once.get(source.code.strip(), source)

    def lines(self, sources: Iterable[Source]) -> Iterable[Source]:
        """Each of `sources` as `line` finds it."""
        return (found for source in sources if (found := self.line(source)))
