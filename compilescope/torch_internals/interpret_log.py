"""Each address that an interpreted Triton kernel reads or writes, checked against its arguments and other programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_NOBODY = -1


@dataclass
class Buffer:
    """One tensor argument, and which program touched each element of it last."""

    name: str
    start: int
    end: int
    item: int

    def __post_init__(self) -> None:
        count = (self.end - self.start) // self.item
        self.writer = np.full(count, _NOBODY, dtype=np.int64)
        self.atomic = np.zeros(count, dtype=bool)
        self.first_reader = np.full(count, _NOBODY, dtype=np.int64)
        self.last_reader = np.full(count, _NOBODY, dtype=np.int64)
        self.value = np.zeros(count, dtype=np.uint64)


class AccessLog:
    """Watches loads, stores and atomics. `findings` holds the first of each kind and line, with how often it came."""

    def __init__(self, buffers: list[Buffer], file: str, poison: bool = False) -> None:
        self.buffers = sorted(buffers, key=lambda one: one.start)
        self.file = file
        self.poison = poison
        self.bare_masks = False
        self.program = (0, 0, 0)
        self.dims = (1, 1, 1)
        self.found: dict[tuple[str, int, str], dict[str, Any]] = {}

    @property
    def findings(self) -> list[dict[str, Any]]:
        """In the order they happened."""
        return list(self.found.values())

    def load(self, addresses: Array, mask: Array) -> Array:
        """Note a read; gives the lanes that may be read."""
        return self._access("read", addresses, mask, None, atomic=False)

    def store(self, addresses: Array, mask: Array, values: Array, atomic: bool = False) -> Array:
        """Note a write; gives the lanes that may be written."""
        return self._access("write", addresses, mask, values, atomic)

    def _access(self, kind: str, addresses: Array, mask: Array, values: Array | None, atomic: bool) -> Array:
        shape = addresses.shape
        flat = addresses.astype(np.int64).reshape(-1)
        active = np.broadcast_to(mask, shape).astype(bool).reshape(-1)
        inside = np.zeros(flat.shape, dtype=bool)
        bits = None if values is None else _bits(np.broadcast_to(values, shape).reshape(-1))
        for buffer in self.buffers:
            here = active & (flat >= buffer.start) & (flat < buffer.end)
            if here.any():
                inside |= here
                index = (flat[here] - buffer.start) // buffer.item
                if bits is None:
                    self._read(buffer, index)
                else:
                    self._write(buffer, index, bits[here], atomic)
        outside = active & ~inside
        if outside.any():
            self._outside(kind, flat[outside])
        return inside.reshape(shape)

    def _read(self, buffer: Buffer, index: Array) -> None:
        me = self._me()
        foreign = (buffer.writer[index] != _NOBODY) & (buffer.writer[index] != me) & ~buffer.atomic[index]
        if foreign.any():
            at = index[foreign][0]
            self._note(
                "race", buffer.name, int(at), int(foreign.sum()), other=int(buffer.writer[at]), how="read after write"
            )
        nobody = buffer.first_reader[index] == _NOBODY
        buffer.first_reader[index[nobody]] = me
        buffer.last_reader[index] = me

    def _write(self, buffer: Buffer, index: Array, bits: Array, atomic: bool) -> None:
        me = self._me()
        if not atomic:
            self._same_store(buffer, index, bits)
            writer = buffer.writer[index]
            foreign = (writer != _NOBODY) & (writer != me) & ((buffer.value[index] != bits) | buffer.atomic[index])
            if foreign.any():
                at = index[foreign][0]
                self._note(
                    "race", buffer.name, int(at), int(foreign.sum()), other=int(buffer.writer[at]), how="two writes"
                )
            for reader in (buffer.first_reader[index], buffer.last_reader[index]):
                early = (reader != _NOBODY) & (reader != me)
                if early.any():
                    at = int(index[early][0])
                    self._note(
                        "race", buffer.name, at, int(early.sum()), other=int(reader[early][0]), how="write after read"
                    )
        buffer.writer[index] = me
        buffer.atomic[index] = atomic
        buffer.value[index] = bits

    def _same_store(self, buffer: Buffer, index: Array, bits: Array) -> None:
        order = np.argsort(index, kind="stable")
        ordered, values = index[order], bits[order]
        twice = (ordered[1:] == ordered[:-1]) & (values[1:] != values[:-1])
        if twice.any():
            at = int(ordered[1:][twice][0])
            self._note("race", buffer.name, at, int(twice.sum()), other=self._me(), how="two lanes of one store")

    def _outside(self, kind: str, addresses: Array) -> None:
        address = int(addresses[0])
        distance = [max(one.start - address, address - one.end + 1, 0) for one in self.buffers]
        nearest = self.buffers[int(np.argmin(distance))] if self.buffers else None
        name = nearest.name if nearest else ""
        at = (address - nearest.start) // nearest.item if nearest else 0
        self._note(f"out-of-bounds {kind}", name, int(at), len(addresses))

    def _note(self, kind: str, name: str, at: int, count: int, other: int | None = None, how: str = "") -> None:
        line = self._line()
        known = self.found.get((kind, line, name))
        if known is not None:
            known["count"] += count
            return
        self.found[(kind, line, name)] = {
            "kind": kind, "argument": name, "index": at, "count": count, "line": line, "how": how,
            "program": list(self.program), "other": None if other is None else self._place(other),
        }  # fmt: skip

    def _me(self) -> int:
        x, y, z = self.program
        return (x * self.dims[1] + y) * self.dims[2] + z

    def _place(self, number: int) -> list[int]:
        rest, z = divmod(number, self.dims[2])
        x, y = divmod(rest, self.dims[1])
        return [x, y, z]

    def _line(self) -> int:
        frame: Any = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                return int(frame.f_lineno)
            frame = frame.f_back
        return 0


def _bits(values: Array) -> Array:
    values = np.ascontiguousarray(values)
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)


def watch(log: AccessLog) -> None:
    """Send each memory access of the interpreter through `log`; for a child process, there is no way back.

    Leans on the methods ``create_masked_load``, ``create_masked_store``, ``create_atomic_rmw``, ``create_atomic_cas``
    and ``set_grid_idx`` of ``triton.runtime.interpreter.InterpreterBuilder`` (3.6 to 3.9).
    """
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype

    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    rmw, cas = InterpreterBuilder.create_atomic_rmw, InterpreterBuilder.create_atomic_cas
    move = InterpreterBuilder.set_grid_idx

    def handle(mask: Array, like: Any) -> Any:
        return TensorHandle(mask, like.dtype)

    def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any) -> Any:
        if other is None and not mask.data.all():
            log.bare_masks = True
            dtype = ptrs.get_element_ty()
            if log.poison and dtype.is_floating():
                other = TensorHandle(_poisoned(ptrs.data.shape, _get_np_dtype(dtype)), dtype)
        return load(self, ptrs, handle(log.load(ptrs.data, mask.data), mask), other, *rest)

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        return store(self, ptrs, value, handle(log.store(ptrs.data, mask.data, value.data), mask), *rest)

    def atomic_rmw(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        inside = log.store(ptr.data, mask.data, val.data, atomic=True)
        return rmw(self, operation, ptr, val, handle(inside, mask), *rest)

    def atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, *rest: Any) -> Any:
        log.store(ptr.data, np.ones_like(ptr.data, dtype=bool), val.data, atomic=True)
        return cas(self, ptr, cmp, val, *rest)

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        log.program = (x, y, z)
        move(self, x, y, z)

    InterpreterBuilder.create_masked_load = masked_load
    InterpreterBuilder.create_masked_store = masked_store
    InterpreterBuilder.create_atomic_rmw = atomic_rmw
    InterpreterBuilder.create_atomic_cas = atomic_cas
    InterpreterBuilder.set_grid_idx = set_grid_idx


def _poisoned(shape: tuple[int, ...], dtype: Any) -> Array:
    if np.issubdtype(dtype, np.floating):
        return np.full(shape, np.nan, dtype=dtype)
    return np.full(shape, 0x7FC0, dtype=dtype)  # bfloat16 travels as 16 bits: its nan
