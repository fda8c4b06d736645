"""What is wrong with a hand-written kernel, in words and with the learner's line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import torch

from compilescope.facts import Source
from compilescope.interpret import error as relative_error
from compilescope.torch_internals.interpret_source import KernelSource

Kind = Literal[
    "does not compile", "out-of-bounds read", "out-of-bounds write", "race", "missing elements", "wrong numbers",
    "crash", "not run",
]  # fmt: skip
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, in words, with the learner's line."""

    kind: Kind
    sentence: str
    source: Source | None = None


_REMEDIES = (
    ("Boolean value of Tensor", "A block has many values at once: let tl.where choose for each."),
    ("power of 2", "Take the next larger power of 2, and mask what is too much."),
    ("must be of type tl.constexpr", "Write BLOCK: tl.constexpr in the parameters."),
    ("Loop-carried variable", "Begin with the type that the loop gives it: 0.0, or tl.zeros."),
    ("Cannot access global variable", "Make it NAME = tl.constexpr(value)."),
    ("multiple comparison", "Compare twice and join with &."),
    ("_semantic", "A pointer has no [ ]: tl.load and tl.store take pointer + offsets."),
)
"""Words of Triton's compiler, and what to do. Without a match its words stand alone."""


def compile_finding(told: dict[str, Any], source: KernelSource) -> Finding:
    """From what Triton's compiler said when it refused the kernel."""
    returned = source.returned_line()
    if returned and not told["line"]:
        where = _source(returned, source)
        return Finding("does not compile", f"A kernel returns nothing: write with tl.store ({_at(where)}).", where)
    where = _source(told["line"], source)
    said = re.sub(r"^\w+\(['\"](.*?)['\"]?\)?$", r"\1", told["text"])
    said = re.sub(r"( of type object)? at 0x[0-9a-f]+", "", said)
    remedy = next((f" {remedy}" for words, remedy in _REMEDIES if words in said), "")
    said = re.split(r"[.!] ", said)[0].rstrip(".")
    return Finding("does not compile", f"Triton's compiler refuses it ({_at(where)}): {said}.{remedy}", where)


def memory_findings(result: dict[str, Any], source: KernelSource) -> tuple[Finding, ...]:
    """From what the interpreter saw of addresses, and from an exception that ended it."""
    findings = [_memory_finding(one, source) for one in result["findings"]]
    if result["error"]:
        where = _source(result["error"]["line"], source)
        findings.append(Finding("crash", f"The kernel stopped at {_at(where)}: {result['error']['text']}", where))
    return tuple(findings)


def _memory_finding(told: dict[str, Any], source: KernelSource) -> Finding:
    where = _source(told["line"], source)
    element = f"{told['argument']}[{told['index']}]"
    program = f"program {_program(told['program'])}"
    if told["kind"] == "race":
        sentence = f"Race on {element}: {_RACES[told['how']].format(me=program, other=_program(told['other'] or []))}"
        return Finding("race", f"{sentence} ({_at(where)}).", where)
    reads = told["kind"] == "out-of-bounds read"
    verb, what = ("reads", "read") if reads else ("writes", "write")
    times = f", {told['count']} such {what}s in all" if told["count"] > 1 else ""
    return Finding(
        told["kind"],
        f"{program.capitalize()} {verb} {element}, outside the tensor{times} ({_at(where)}). Does the mask fit?",
        where,
    )


_RACES = {
    "two writes": "program {other} and {me} write different values, and which one stays is chance",
    "two lanes of one store": "two lanes of one store in {me} write different values, and which one stays is chance",
    "read after write": "{me} reads what program {other} writes, and programs have no order",
    "write after read": "{me} writes what program {other} reads, and programs have no order",
}


def _program(place: list[int]) -> str:
    while len(place) > 1 and place[-1] == 0:
        place = place[:-1]
    return str(place[0]) if len(place) == 1 else str(tuple(place))


def _source(line: int, source: KernelSource) -> Source | None:
    return Source(*source.origin(line)) if line else None


def _at(where: Source | None) -> str:
    return f"line {where.line}, {where.code}" if where is not None else "a line that is not known"


def number_findings(
    outputs: dict[str, torch.Tensor], wanted: tuple[Any, ...], told: dict[str, Any], tolerance: float | None
) -> tuple[tuple[Finding, ...], float | None]:
    """From the tensors that the kernel wrote beside those it should have written; and the largest relative error."""
    if len(outputs) != len(wanted):
        names = ", ".join(outputs) or "nothing"
        return (
            Finding("wrong numbers", f"The kernel writes {names}; the reference gives {len(wanted)} tensor(s)."),
        ), None
    findings: list[Finding] = []
    largest = 0.0
    for (name, got), want in zip(outputs.items(), wanted, strict=True):
        want = torch.as_tensor(want).detach().cpu()
        if want.numel() == got.numel() and want.shape != got.shape:
            want = want.reshape(got.shape)
        found = relative_error(got, want)
        largest = max(largest, found)
        allowed = tolerance if tolerance is not None else _TOLERANCE.get(got.dtype, 0.0)
        if found > allowed:
            findings.append(_wrong(name, got, want, told[name], allowed))
    return tuple(findings), largest


def _wrong(name: str, got: torch.Tensor, want: torch.Tensor, told: dict[str, Any], allowed: float) -> Finding:
    if got.shape != want.shape:
        return Finding("wrong numbers", f"{name} has shape {tuple(got.shape)}, the reference {tuple(want.shape)}.")
    near = torch.isclose(got.double(), want.double(), rtol=allowed, atol=allowed * _scale(want), equal_nan=True)
    first = int((~near.reshape(-1)).nonzero()[0]) if not near.all() else 0
    if told["missing"] and not near.all():
        return Finding(
            "missing elements",
            f"{told['missing']} of {got.numel()} elements of {name} are never written, the first is "
            f"{name}[{told['first_missing']}]. Do grid and mask cover the tensor?",
        )
    a, b = got.reshape(-1)[first].item(), want.reshape(-1)[first].item()
    return Finding(
        "wrong numbers",
        f"{int((~near).sum())} of {got.numel()} elements of {name} are wrong: {name}[{first}] is {a:.6g}, not {b:.6g}.",
    )


def _scale(want: torch.Tensor) -> float:
    finite = want.double()[want.double().isfinite()]
    return float(finite.abs().max()) if finite.numel() else 1.0
