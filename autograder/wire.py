"""Values between the grader and the process of an answer: JSON and raw tensor bytes; nothing is ever unpickled.

What may cross is `autograder.exercise.Values`. `plain` brings values into the form in which they come out of the wire,
without bytes: a check in a notebook uses it, so that a judge sees the same there and in grading. In short: a tuple
becomes a list, a subclass its base (also of Tensor), a Run loses its `result`, and what cannot cross becomes
`Opaque`, which knows only the name of its type.

A message is: 4 bytes of magic, the length of its head (8 bytes, little endian), the head, then the bytes of all
tensors one after the other. The head is JSON: ``{"value": tree, "tensors": [{dtype, shape, grad, device, size}]}``.
In the tree a dict is ``{"dict": …}``, a tensor ``{"tensor": its number}``, a Run ``{"run": its facts}``, an Opaque
``{"opaque": its type's name}``; everything else stands for itself. NaN and infinities stay what they are.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compilescope.facts import Run

MAGIC = b"ITC1"
_HEAD = struct.Struct("<4sQ")

_NAMES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 "
    "complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
DTYPES: dict[str, torch.dtype] = {
    name: found for name in _NAMES.split() if isinstance(found := getattr(torch, name, None), torch.dtype)
}
"""The dtypes that cross, as PyTorch spells them, without ``torch.``."""


class WireError(ValueError):
    """A value that cannot cross, or bytes that are no message; one sentence."""


@dataclass(frozen=True)
class Limits:
    """How much one message may hold: bytes in all, values in its tree, values inside each other."""

    size: int = 256_000_000
    values: int = 500_000
    depth: int = 40


DEFAULT = Limits()


@dataclass(frozen=True)
class Opaque:
    """Something that an answer returned and that cannot cross; `kind` is the name of its type."""

    kind: str


def plain(values: Any, *, strict: bool = False) -> Any:
    """`values` as they come out of the wire, with the same tensors where they already are plain ones.

    With `strict` a WireError names the first value that cannot cross, and where; else it becomes Opaque.
    """
    return _Plain(strict).of(values, "", 0)


def encode(values: Any, *, strict: bool = False, limits: Limits = DEFAULT) -> bytes:
    """The message. With `strict` a WireError names the first value that cannot cross; else it becomes Opaque."""
    tensors: list[torch.Tensor] = []
    tree = _tree(plain(values, strict=strict), tensors)
    bodies = [_raw(tensor) for tensor in tensors]
    said = [_described(tensor, len(body)) for tensor, body in zip(tensors, bodies, strict=True)]
    head = json.dumps({"value": tree, "tensors": said}, separators=(",", ":")).encode("utf-8", "surrogatepass")
    message = b"".join((_HEAD.pack(MAGIC, len(head)), head, *bodies))
    if len(message) > limits.size:
        raise WireError(f"The values take {len(message) / 1e6:.0f} MB; at most {limits.size / 1e6:.0f} MB can cross.")
    return message


def decode(message: bytes, *, limits: Limits = DEFAULT) -> Any:
    """The values of a message. Raises WireError, and nothing else, for anything that `encode` would not write."""
    if len(message) > limits.size:
        raise WireError(f"The message has {len(message) / 1e6:.0f} MB; at most {limits.size / 1e6:.0f} MB are read.")
    try:
        head, body = _head_of(message)
        tensors = _tensors(head["tensors"], body)
        return _Reader(tensors, limits).value(head["value"], 0)
    except WireError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, RuntimeError) as error:
        raise WireError(f"The message cannot be read ({type(error).__name__}).") from None


class _Plain:
    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.inside: set[int] = set()

    def of(self, value: Any, where: str, depth: int) -> Any:
        if value is None or type(value) in (bool, str, Opaque):
            return value
        if isinstance(value, (int, float, str)):
            return self._scalar(value, where)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, where)
        if isinstance(value, Run):
            return value if type(value) is Run and value.result is None else dataclasses.replace(value, result=None)
        if isinstance(value, (list, tuple, Mapping)):
            return self._container(value, where, depth)
        return self._opaque(value, where)

    def _container(self, value: Any, where: str, depth: int) -> Any:
        if id(value) in self.inside or depth > DEFAULT.depth:
            return self._opaque(value, where)
        self.inside.add(id(value))
        try:
            if not isinstance(value, Mapping):
                return [self.of(one, f"{where}[{i}]", depth + 1) for i, one in enumerate(value)]
            if not all(isinstance(key, str) for key in value):
                return self._opaque(value, where)
            return {str(key): self.of(one, f"{where}[{str(key)!r}]", depth + 1) for key, one in value.items()}
        finally:
            self.inside.discard(id(value))

    def _scalar(self, value: float | str, where: str) -> Any:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            if value.bit_length() > 4096:
                return self._opaque(value, where)
            return int.__add__(value, 0)
        return float.__float__(value)

    def _tensor(self, value: torch.Tensor, where: str) -> Any:
        unusual = value.layout != torch.strided or value.is_quantized or value.is_meta
        if unusual or str(value.dtype).removeprefix("torch.") not in DTYPES:
            return self._opaque(value, where)
        if type(value) is torch.Tensor and value.grad_fn is None:
            return value
        bare = value.detach()
        if type(bare) is not torch.Tensor:
            try:
                bare = bare.as_subclass(torch.Tensor)
                bare.untyped_storage().data_ptr()
            except Exception:  # a subclass without a storage of its own
                return self._opaque(value, where)
        return bare.requires_grad_(value.requires_grad and value.is_leaf)

    def _opaque(self, value: Any, where: str) -> Opaque:
        name = type(value).__name__
        if self.strict:
            raise WireError(f"values{where} is a {name}, which cannot cross; see autograder.exercise.Values.")
        return Opaque(name[:80])


def _tree(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, Run):
        return {"run": value.to_json()}
    if isinstance(value, Opaque):
        return {"opaque": value.kind}
    if isinstance(value, dict):
        return {"dict": {key: _tree(one, tensors) for key, one in value.items()}}
    return [_tree(one, tensors) for one in value] if isinstance(value, list) else value


def _raw(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _described(tensor: torch.Tensor, size: int) -> dict[str, Any]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    said = {"dtype": dtype, "shape": list(tensor.shape), "device": tensor.device.type, "size": size}
    return {**said, "grad": tensor.requires_grad}


def _head_of(message: bytes) -> tuple[dict[str, Any], memoryview]:
    if len(message) < _HEAD.size or message[:4] != MAGIC:
        raise WireError("These bytes are no message of the course.")
    _, length = _HEAD.unpack_from(message)
    if length > len(message) - _HEAD.size:
        raise WireError("The message is cut off.")
    rest = memoryview(message)[_HEAD.size :]
    head = json.loads(bytes(rest[:length]).decode("utf-8", "surrogatepass"))
    if not isinstance(head, dict) or set(head) != {"value", "tensors"} or not isinstance(head["tensors"], list):
        raise WireError("The head of the message is not as it should be.")
    return head, rest[length:]


def _tensors(said: Iterable[dict[str, Any]], body: memoryview) -> list[torch.Tensor]:
    tensors, at = [], 0
    for one in said:
        dtype, shape, size = DTYPES[one["dtype"]], one["shape"], one["size"]
        if not all(type(n) is int and 0 <= n < 2**40 for n in (*shape, size)) or len(shape) > 64:
            raise WireError("A tensor's shape is not as it should be.")
        if math.prod(shape) * dtype.itemsize != size or at + size > len(body):
            raise WireError("A tensor's shape does not fit its bytes.")
        tensors.append(_tensor(bytes(body[at : at + size]), dtype, shape, one))
        at += size
    if at != len(body):
        raise WireError("The message is longer than it says.")
    return tensors


def _tensor(raw: bytes, dtype: torch.dtype, shape: list[int], said: dict[str, Any]) -> torch.Tensor:
    if not raw:
        made = torch.empty(shape, dtype=dtype)
    else:
        flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        # A byte that is neither 0 nor 1 is no bool, and torch computes nonsense with it.
        # A copy, as the tensor that was sent was no view: Dynamo guards the sizes of a view's base as well.
        made = ((flat != 0) if dtype == torch.bool else flat.view(dtype)).reshape(shape).clone()
    if said["device"] == "cuda" and torch.cuda.is_available():
        made = made.cuda()
    wants_grad = said["grad"] is True and (dtype.is_floating_point or dtype.is_complex)
    return made.requires_grad_(wants_grad)


class _Reader:
    def __init__(self, tensors: list[torch.Tensor], limits: Limits) -> None:
        self.tensors, self.limits, self.seen = tensors, limits, 0

    def value(self, tree: Any, depth: int) -> Any:
        self.seen += 1
        if self.seen > self.limits.values or depth > self.limits.depth + 1:
            raise WireError("The message holds too many values, or too deep ones.")
        if tree is None or isinstance(tree, (bool, int, float, str)):
            return tree
        if isinstance(tree, list):
            return [self.value(one, depth + 1) for one in tree]
        ((kind, inside),) = tree.items()
        if kind == "dict":
            return {str(key): self.value(one, depth + 1) for key, one in inside.items()}
        if kind == "tensor" and type(inside) is int and inside >= 0:
            return self.tensors[inside] if inside < len(self.tensors) else _refuse("a tensor that is not there")
        if kind == "run" and isinstance(inside, str):
            return Run.from_json(inside)
        if kind == "opaque" and isinstance(inside, str):
            return Opaque(inside[:80])
        return _refuse(f"a value of kind {str(kind)[:20]!r}")


def _refuse(what: str) -> Any:
    raise WireError(f"The message names {what}.")
