"""modes_1: a mode is a name for options; the same options with one changed."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.judging import called, kind_of
from compilescope import mode_options

_CHANGES: tuple[tuple[str, Any], ...] = (
    ("triton.cudagraphs", False),
    ("triton.cudagraphs", True),
    ("max_autotune", True),
    ("max_autotune_gemm_backends", "TRITON"),
    ("epilogue_fusion", False),
    ("shape_padding", False),
    ("coordinate_descent_tuning", False),
)


def ask(draw: Draw) -> Values:
    """For every mode of this torch, changes of none, one or two options."""
    cases = []
    for mode in mode_options():
        changes = sorted(_CHANGES, key=lambda _: draw.number(0, 1))[: draw.size(1, 2)]
        cases.append({"mode": mode, "changes": dict(changes)})
    cases.append({"mode": "max-autotune", "changes": {}})
    cases.append({"mode": "max-autotune", "changes": {"triton.cudagraphs": False}})
    return {"cases": sorted(cases, key=lambda _: draw.number(0, 1))}


def probe(answer: Answer, asked: Values) -> Values:
    """The options for each case, and whether torch takes them."""
    found = []
    for case in asked["cases"]:
        label = f'as_options("{case["mode"]}", …)'
        options = called(label, answer.as_options, case["mode"], dict(case["changes"]))
        found.append({"options": options, "refused": _refused(options)})
    return {"found": found, "modes": mode_options()}


def _refused(options: Any) -> str:
    if not isinstance(options, dict):
        return ""
    try:
        torch.compile(_nothing, options=options)
    except Exception as error:
        return type(error).__name__
    return ""


def _nothing(x: torch.Tensor) -> torch.Tensor:
    return x


def judge(asked: Values, found: Values) -> str:
    """The options of the running torch, with the changes on top."""
    known = mode_options()
    if found["modes"] != known:
        raise NotYet("as_options(mode, changes)", "changed torch's own table", "leave it as it is", "Make a new dict.")
    for case, one in zip(asked["cases"], found["found"], strict=True):
        label = f'as_options("{case["mode"]}", {case["changes"]})'
        options = one["options"]
        if not isinstance(options, dict):
            raise NotYet(label, f"returned {kind_of(options)}", "a dict of options is wanted", "Look at the docstring.")
        want = known[case["mode"]] | case["changes"]
        wrong = [name for name in sorted({*want, *options}) if name not in want or options.get(name) != want[name]]
        if wrong:
            name = wrong[0]
            says = f"says {name}={options[name]!r}" if name in options else f"leaves out {name}"
            truth = f"{name}={want[name]!r}" if name in want else f"nothing of {name}"
            raise NotYet(label, says, f"{truth} is wanted", "Ask the running torch, then change.")
        if one["refused"]:
            raise NotYet(label, f"made torch.compile raise {one['refused']}", "options that it takes are wanted", "")
    return f"{len(asked['cases'])} cases, {len(known)} modes of torch {torch.__version__}"


_START = "import torch\nfrom compilescope import mode_options\n"

EXERCISE = Exercise(
    name="modes_1",
    lesson="05_modes",
    points=2,
    asks_for=("as_options",),
    check=Check(ask, probe, judge),
    hints=(
        "mode_options() gives each mode with the options that it sets, as this torch has them.",
        "A later dict wins: options of the mode first, your changes on top. Both must be in one dict.",
        "Return {**mode_options()[mode], **changes}.",
    ),
    known_mistakes=(
        KnownMistake(  # typed from a blog
            """
def as_options(mode, changes):
    table = {
        "reduce-overhead": {"triton.cudagraphs": True},
        "max-autotune": {"max_autotune": True, "triton.cudagraphs": True},
        "max-autotune-no-cudagraphs": {"max_autotune": True},
    }
    return {**table.get(mode, {}), **changes}
""",
            "leaves out",
        ),
        KnownMistake(  # the mode wins over the change
            _START + "def as_options(mode, changes):\n    return {**changes, **mode_options()[mode]}\n",
            "is wanted",
        ),
        KnownMistake(  # torch.compile takes a mode or options, never both
            _START + "def as_options(mode, changes):\n    return {'mode': mode, **changes}\n",
            "is wanted",
        ),
        KnownMistake(
            _START + "def as_options(mode, changes):\n    return mode_options()[mode]\n",
            "is wanted",
        ),
        KnownMistake(
            _START + "def as_options(mode, changes):\n    return mode_options()[mode].update(changes)\n",
            "returned None",
        ),
        KnownMistake(
            _START
            + "def as_options(mode, changes):\n    return torch.compile(lambda x: x, mode=mode, options=changes)\n",
            "RuntimeError",
        ),
    ),
    alternatives=(
        _START + "def as_options(mode, changes):\n    return mode_options()[mode] | changes\n",
        """
import torch._inductor

def as_options(mode, changes):
    options = dict(torch._inductor.list_mode_options(mode))
    options.update(changes)
    return options
""",
    ),
)
