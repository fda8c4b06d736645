"""Would this call compile again? Dynamo's own guards are asked; the function is not called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compilescope.reading.cells import CellNames, cell_numbers
from compilescope.torch_internals import entries, functions
from compilescope.verdicts import Verdict
from compilescope.watching import globals_of, refusals_of


def would_recompile(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Verdict:
    """Which cached entry of the compiled function `fn` accepts these arguments, or which guard of each refuses.

    Nothing is called and nothing is compiled. The guards also look at what is global: grad mode, module variables.
    ValueError if `fn` is not compiled; TypeError, as Python says it, if the arguments do not fit its signature.
    """
    name = functions.readable_name(fn)
    if not functions.is_compiled(fn):
        raise ValueError(f"{name} is not compiled: ask about torch.compile({name}), after a call.")
    found = functions.code_and_locals(fn, args, kwargs)
    if found is None:
        raise ValueError(f"{name} has no Python code of its own, so there is no cache to ask.")
    code, values = found
    answers = entries.verdicts(code, values, functions.backend_of(fn))
    known = tuple(answer["compile_id"] for answer in answers)
    accepts = next((answer["compile_id"] for answer in answers if answer["accepts"]), None)
    if not known:
        return Verdict(name, "first compile")
    if accepts is not None:
        answers = answers[: known.index(accepts)]
    cells = CellNames(cell_numbers())
    refusals = refusals_of(answers, values, globals_of(fn), cells, code)
    if accepts is not None:
        return Verdict(name, "hit", known, accepts, refusals)
    full = len(known) >= functions.recompile_limit(fn)
    return Verdict(name, "give up" if full else "recompile", known, None, refusals)
