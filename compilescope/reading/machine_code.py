"""Whether the C++ compiler ran for a compile, or its libraries were on the disk already."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from compilescope.facts import Compile, Phase

_FRAME, _LOAD, _COMPILER = "entire_frame_compile", "PyCodeCache.load_by_key_path", "compile_file"


def with_cpp_cache(compiles: Iterable[Compile], phases: tuple[Phase, ...]) -> tuple[Compile, ...]:
    """Each compile with ``caches["cpp"]``, ``hit`` or ``miss``, where it has C++ kernels.

    Leans on the phases of torch's trace: the compiler runs, in any thread, while a generated module is loaded (2.11 to
    2.15). What it probes of the machine before that is not counted.
    """
    seen: Counter[str] = Counter()
    found = []
    for compiled in compiles:
        torch_id = compiled.compile_id.split("#")[0]
        frames = [phase for phase in phases if phase.name == _FRAME and phase.compile_id == torch_id]
        here = frames[seen[torch_id]] if seen[torch_id] < len(frames) else None
        seen[torch_id] += 1
        cpp = any(kernel.language == "cpp" for code in compiled.code for kernel in code.kernels)
        if cpp and here is not None:
            state = "miss" if _compiler_ran(here, phases) else "hit"
            compiled = dataclasses.replace(compiled, caches={**compiled.caches, "cpp": state})
        found.append(compiled)
    return tuple(found)


def _compiler_ran(frame: Phase, phases: tuple[Phase, ...]) -> bool:
    loads = [one for one in phases if one.name == _LOAD and one.compile_id == frame.compile_id and _within(one, frame)]
    return any(_within(one, load) for one in phases if one.name == _COMPILER for load in loads)


def _within(inner: Phase, outer: Phase) -> bool:
    return outer.start <= inner.start <= outer.start + outer.seconds
