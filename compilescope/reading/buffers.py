"""Sizes of the buffers of a generated wrapper, in bytes."""

from __future__ import annotations

import ast
import math

_ITEM = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "complex32": 4, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip


def item_bytes(dtype: str) -> int | None:
    """Bytes of one element of a dtype such as ``float32``; None for an unknown one."""
    return _ITEM.get(dtype)


class Buffers:
    """What is known of each name in the wrapper: bytes of one item, and shape and stride, in the order assigned."""

    def __init__(self, tree: ast.Module) -> None:
        self.known: dict[str, tuple[int | None, tuple[int, ...] | None, tuple[int, ...] | None]] = {}
        self.alias: dict[str, str] = {}
        self.asserts: dict[str, tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = {}
        for part in ast.walk(tree):
            match part:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="rand_strided")) as call):
                    self._allocate(name, call)
                # the second name is that of 2.14 and 2.15, for what a library call gives
                case ast.Call(
                    func=ast.Name(id="assert_size_stride" | "assert_tensor_metadata"),
                    args=[ast.Name(id=name), shape, stride, *_],
                ):
                    self.asserts[name] = (_numbers(shape), _numbers(stride))
        for name, (shape_there, _) in self.asserts.items():
            if shape_there is None and name in self.known:  # rand_strided has the sizes of the first call only
                self.known[name] = (self.known[name][0], None, None)

    def assign(self, targets: list[str], value: ast.expr) -> None:
        """Take note of ``buf0 = empty_strided_cpu(…)``, ``buf1 = buf0`` and ``buf2 = reinterpret_tensor(…)``."""
        if len(targets) != 1:
            return
        name = targets[0]
        match value:
            case ast.Call(func=ast.Name(id=function)) if function.startswith("empty_strided"):
                self._allocate(name, value)
            case ast.Name(id=other):
                self._view(name, other)
            case ast.Call(func=function, args=[ast.Name(id=other), shape, stride, *_]) if "reinterpret_tensor" in (
                ast.unparse(function)
            ):
                item = self._of(other)[0]
                self.known[name] = (item, _numbers(shape), _numbers(stride))
                self.alias[name] = self.alias.get(other, other)

    def size(self, argument: ast.expr, item: int | None = None) -> tuple[str, int | None]:
        """Name and bytes of the buffer that `argument` hands over; an empty name if it hands over none.

        `item`: bytes of one element, where the wrapper does not tell the dtype.
        """
        match argument:
            case ast.Name(id=name):
                if name not in self.known and name not in self.asserts and name not in self.alias:
                    return (name, None) if name.startswith(("buf", "arg", "primals", "tangents")) else ("", 0)
                return self.alias.get(name, name), _bytes(*self._of(name, item))
            case ast.Call(func=function, args=[ast.Name(id=name), shape, stride, *_]) if "reinterpret_tensor" in (
                ast.unparse(function)
            ):
                return self.alias.get(name, name), _bytes(self._of(name, item)[0], _numbers(shape), _numbers(stride))
            case _:
                return "", 0

    def asserted(self, targets: list[str]) -> int | None:
        """Bytes of an output that a library call allocates: float32 is not assumed, so None unless known."""
        if len(targets) != 1 or targets[0] not in self.known:
            return None
        return _bytes(*self._of(targets[0]))

    def _allocate(self, name: str, call: ast.Call) -> None:
        dtype = next(
            (
                ast.unparse(part)
                for part in [*call.args[2:], *(k.value for k in call.keywords)]
                if ast.unparse(part).startswith("torch.")
            ),
            "",
        )
        self.known[name] = (item_bytes(dtype.removeprefix("torch.")), _numbers(call.args[0]), _numbers(call.args[1]))
        self.alias.pop(name, None)

    def _view(self, name: str, other: str) -> None:
        if other in self.known or other in self.asserts:
            if other in self.known:
                self.known[name] = self.known[other]
            else:
                self.asserts[name] = self.asserts[other]
            self.alias[name] = self.alias.get(other, other)

    def _of(
        self, name: str, item: int | None = None
    ) -> tuple[int | None, tuple[int, ...] | None, tuple[int, ...] | None]:
        return self.known.get(name, (item, *self.asserts.get(name, (None, None))))


def _numbers(expression: ast.expr) -> tuple[int, ...] | None:
    """The tuple of integers written there; None if one is a symbol."""
    try:
        value = ast.literal_eval(expression)
    except ValueError:
        return None
    return value if isinstance(value, tuple) else None


def _bytes(item: int | None, shape: tuple[int, ...] | None, stride: tuple[int, ...] | None) -> int | None:
    """Distinct bytes: a dimension of stride 0 is stored once."""
    if item is None or shape is None:
        return None
    strides = stride or (1,) * len(shape)
    return item * math.prod(size for size, step in zip(shape, strides, strict=False) if step != 0)
