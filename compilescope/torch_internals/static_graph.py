"""A stand-in for a CUDA graph that needs no GPU: slow, but with the same rules.

It keeps what hurts: a first call that warms up, a second that records, static inputs and results. The next call ends
the results of a warm-up or a recording: reading them raises. Results of replays lie in the static memory, and show
whatever was written there last, without an error. Each call is a step of its own, unless steps are marked: then all
calls until the next mark are one, and each has memory of its own in it.

So does ``torch._inductor.cudagraph_trees`` (2.11 measured on an H200, 2.13 to 2.15 read). Leans on its ``MarkStepBox``,
on ``torch.utils._pytree`` and ``torch._C.DisableTorchFunctionSubclass`` (2.11 to 2.15).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

OVERWRITTEN = (
    "Error: accessing a result that a later call of the replayed code has overwritten. Clone what you keep, or use it "
    "before the next call."
)
_HARMLESS = {"shape", "dtype", "device", "ndim", "size", "dim", "layout", "requires_grad", "is_leaf", "grad_fn"}


@dataclass
class _Life:
    """How long some results may be read: until torch puts an error on their memory."""

    over: bool = False


@dataclass
class _Recording:
    """Static memory for one set of sizes."""

    inputs: list[torch.Tensor]
    results: list[torch.Tensor]
    structure: Any
    life: _Life = field(default_factory=_Life)


class StaticGraph:
    """Replays `fn`, a function of tensors that returns tensors, as CUDA graphs do; one recording for each set of sizes.

    `did` says of each call whether it ``warmed up``, ``recorded`` or ``replayed``; `kept_bytes` is what the static
    inputs and results of all recordings hold. After a later call, reading the result of a warm-up or a recording
    raises RuntimeError; the result of a replay silently shows the numbers of the last replay of its sizes.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.did: list[str] = []
        self._warm: set[tuple[Any, ...]] = set()
        self._recordings: dict[tuple[Any, ...], _Recording] = {}
        self._alive: list[_Life] = []
        self._marks = self._mark_before = _marks()
        self._place = 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of the static inputs and results of all recordings."""
        found = [one for made in self._recordings.values() for one in (*made.inputs, *made.results)]
        return sum(one.numel() * one.element_size() for one in found)

    def __call__(self, *args: torch.Tensor) -> Any:
        """What ``fn(*args)`` returns; from the second call of its sizes on in memory that later calls overwrite.

        Raises RuntimeError if an argument is a result whose memory this or an earlier call ended.
        """
        if begins := self._begins():
            self._end_results()
        plain = tuple(_plain(one) for one in args)
        sizes = tuple((one.shape, one.dtype) for one in plain)
        where = (self._place, sizes)  # results that live at the same time have memory of their own
        with torch.no_grad():
            if sizes not in self._warm or (not begins and self.did[-1] == "warmed up"):
                self._warm.add(sizes)
                found, what, life = self.fn(*plain), "warmed up", _Life()
            elif where not in self._recordings:
                found, what, life = self._record(where, plain), "recorded", _Life()
            else:
                made = self._recordings[where]
                found, what, life = self._replay(made, plain), "replayed", made.life
        if begins and what != "warmed up":  # results of a replay end with those of a warm-up that follows it
            self._alive = []
        self._alive.append(life)
        self.did.append(what)
        return pytree.tree_map(self._handed_out, found)

    def _begins(self) -> bool:
        """Whether this call begins a step: each one does, unless steps are marked."""
        marks, self._marks = self._marks, _marks()
        begins = not self.did or self._marks == self._mark_before or marks != self._marks
        self._place = 0 if begins else self._place + 1
        return begins

    def _end_results(self) -> None:
        """What torch does as a step begins, unless the last call was a replay: that is the fast path."""
        if not self.did or self.did[-1] == "replayed":
            return
        for life in self._alive:
            life.over = True
        self._alive = []
        for made in self._recordings.values():
            made.life = _Life() if made.life.over else made.life

    def _record(self, where: tuple[Any, ...], args: tuple[torch.Tensor, ...]) -> Any:
        inputs = [one.clone() for one in args]
        results, structure = pytree.tree_flatten(self.fn(*inputs))
        self._recordings[where] = _Recording(inputs, [one.clone() for one in results], structure)
        return self._replay(self._recordings[where], args)

    def _replay(self, made: _Recording, args: tuple[torch.Tensor, ...]) -> Any:
        for static, given in zip(made.inputs, args, strict=True):
            static.copy_(given)
        for static, new in zip(made.results, pytree.tree_leaves(self.fn(*made.inputs)), strict=True):
            static.copy_(new)
        return pytree.tree_unflatten(made.results, made.structure)

    def _handed_out(self, result: torch.Tensor) -> torch.Tensor:
        handed = result.detach().as_subclass(_Result)
        handed._life = self._alive[-1]
        return handed


def _marks() -> int:
    """A number that ``torch.compiler.cudagraph_mark_step_begin`` changes; that function imports the module."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    return trees.MarkStepBox.mark_step_counter if trees else 0


class _Result(torch.Tensor):
    """What a call returned, or a view of it: every use of its numbers asks whether they may still be read."""

    _life: _Life

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        given = pytree.tree_map(lambda one: one if name in _HARMLESS else _plain(one), (args, kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*given[0], **given[1])
            if _to_cpu(name, args[1:], kwargs or {}):
                found = found.clone()  # from a GPU's memory that is a copy
        alive = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, _Result)]
        return pytree.tree_map(lambda one: _as_view_of(alive, one), found)


def _to_cpu(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    where = [one for one in (*args, kwargs.get("device")) if isinstance(one, str | torch.device)]
    return name == "cpu" or (name == "to" and any(torch.device(one).type == "cpu" for one in where))


def _as_view_of(results: list[_Result], value: Any) -> Any:
    """A tensor that shares memory with one of `results` ends with it."""
    if type(value) is torch.Tensor:
        for one in results:
            with torch._C.DisableTorchFunctionSubclass():
                shared = value.untyped_storage().data_ptr() == one.untyped_storage().data_ptr()
            if shared:
                view = value.as_subclass(_Result)
                view._life = one._life
                return view
    return value


def _plain(value: Any) -> Any:
    """`value` as an ordinary tensor, in the same memory. Raises RuntimeError if a later call ended it."""
    if not isinstance(value, _Result):
        return value
    if value._life.over:
        raise RuntimeError(OVERWRITTEN)
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(torch.Tensor)
