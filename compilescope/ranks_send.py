"""How a notebook's function gets to other processes, and how values come back: sent by value, read without pickle."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import linecache
import marshal
import pickle
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
import torch
from torch import nn

from compilescope.facts import Run
from compilescope.reading.cells import cell_numbers
from compilescope.torch_internals.sent_tensors import FETCHER, fetch

_RUN = "\0run"
"""Key of a Run among values that came back."""
_PLAIN = (bool, int, float, str)


class NotSendableError(TypeError):
    """Something that a function uses, or returns, cannot go to another process; the message names it and the remedy."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


def _code(code: types.CodeType) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
    return marshal.loads, (marshal.dumps(code),)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle, which sends functions and classes of a notebook by value; refuses what would arrive broken.

    Code goes by marshal: cloudpickle would drop the name of its cell, and pictures and tracebacks point there.
    """

    dispatch_table: ClassVar[Any] = ChainMap({types.CodeType: _code}, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, obj: Any) -> Any:
        """Modules of an own kind, ``torch._dynamo.config``, go by name; a disabled function is disabled again."""
        if isinstance(obj, types.ModuleType) and sys.modules.get(obj.__name__) is obj:
            return importlib.import_module, (obj.__name__,)
        if isinstance(obj, types.FunctionType) and getattr(obj, "_torchdynamo_disable", False) and _goes_by_value(obj):
            return torch.compiler.disable, (obj._torchdynamo_orig_callable,)  # type: ignore[attr-defined]
        return super().reducer_override(obj)

    def persistent_id(self, obj: Any) -> None:
        """Looks at each object on its way; raises NotSendableError at the first that must not go."""
        if remedy := _refused(obj):
            raise NotSendableError(remedy)


def _refused(obj: Any) -> str:
    compiled = hasattr(obj, "_torchdynamo_orig_callable") and not getattr(obj, "_torchdynamo_disable", False)
    if isinstance(obj, types.FunctionType) and compiled and _goes_by_value(obj):
        return (
            f"{obj.__name__} is already compiled, and compiled code stays in its process: compile inside the function."
        )
    if isinstance(obj, nn.Module):
        if hasattr(obj, "_orig_mod") or getattr(obj, "_compiled_call_impl", None) is not None:
            return "a compiled model loses its compiled code on the way: compile inside the function."
        if type(obj).__module__.startswith("torch.nn.parallel.distributed"):
            return "a DistributedDataParallel belongs to the processes that it was made in: wrap inside the function."
    return ""


def _goes_by_value(fn: types.FunctionType) -> bool:
    """True for a function of a notebook, False for one that another process can import under its name."""
    found: Any = sys.modules.get(fn.__module__)
    if fn.__module__ == "__main__" or found is None or found.__spec__ is None:
        return True
    for name in fn.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not fn


def pack(fn: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """`fn` and `args` with everything they use. NotSendableError names what cannot be sent."""
    try:
        return _dumps((fn, args))
    except NotSendableError as error:
        raise NotSendableError(f"{_name(fn)} cannot be sent to the ranks: {error}") from None
    except Exception as error:  # pickling runs __reduce__ of anything
        raise NotSendableError(_blame(fn, args, error)) from None


def _dumps(value: Any) -> bytes:
    buffer = io.BytesIO()
    with _modules_of_no_file_by_value():
        _Pickler(buffer).dump(value)
    return buffer.getvalue()


@contextlib.contextmanager
def _modules_of_no_file_by_value() -> Iterator[None]:
    """Another process cannot import a module that somebody put together here."""
    made = [
        module
        for name, module in list(sys.modules.items())
        if type(module) is types.ModuleType and module.__name__ == name and module.__spec__ is None
    ]
    made = [module for module in made if not hasattr(module, "__file__") and module.__name__ != "__main__"]
    for module in made:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in made:
            cloudpickle.unregister_pickle_by_value(module)


def _blame(fn: Callable[..., Any], args: tuple[Any, ...], error: Exception) -> str:
    """Which name of the function (or of one that it calls), or which argument, is the cause."""
    named = {**_used(fn), **{f"argument {i}": value for i, value in enumerate(args, 1)}}
    for _ in range(9):
        name, value = next(((n, v) for n, v in named.items() if not _goes(v)), ("", None))
        if not name:
            break
        named = {n: v for n, v in _used(value).items() if v is not value}
        if all(_goes(v) for v in named.values()):
            what = f"{name} is a {type(value).__name__}, which stays in its process"
            return f"{_name(fn)} cannot be sent to the ranks: {what}. Make it inside the function."
    return f"{_name(fn)} cannot be sent to the ranks: {type(error).__name__}: {error}"


def _goes(value: Any) -> bool:
    try:
        _dumps(value)
    except Exception:
        return False
    return True


def _used(fn: Any) -> Mapping[str, Any]:
    """Global and enclosing names that a function uses, with their values."""
    if not isinstance(fn, types.FunctionType):
        return {}
    found = inspect.getclosurevars(fn)
    return {**found.globals, **found.nonlocals}


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def unpack(packed: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Function and arguments, in a rank. Names of a notebook live in the module ``__main__`` again, as they did."""
    fn, args = _Unpickler(io.BytesIO(packed)).load()
    return fn, args


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The helpers of cloudpickle, but functions are made in a real module, and tensors come to this rank's GPU."""
        if (module, name) == FETCHER:
            return fetch
        if name == "_make_function" and module.startswith("cloudpickle"):
            return _function_in_its_module
        return super().find_class(module, name)


def _function_in_its_module(code: types.CodeType, names: dict[str, Any], *rest: Any) -> types.FunctionType:
    """Dynamo imports the module that a function names as its own, and looks for its globals there."""
    module = str(names.get("__name__", "__main__"))
    if module not in sys.modules:
        try:
            importlib.import_module(module)
        except Exception:  # no file of that name: a notebook's, or code that was put together
            sys.modules[module] = types.ModuleType(module)
    return types.FunctionType(code, vars(sys.modules[module]), *rest)


def sources() -> dict[str, str]:
    """Text of each cell, and of other code without a file, that a picture may point to; by the code's file name."""
    return {
        name: "".join(entry[2])
        for name, entry in linecache.cache.items()
        if len(entry) == 4 and (entry[1] is None or "ipykernel" in name) and not Path(name).is_file()
    }


def know_sources(texts: Mapping[str, str]) -> None:
    """In a rank: make `sources` of the sending process readable here."""
    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def cells() -> dict[str, int]:
    """File name to number of the notebook's cells."""
    return cell_numbers()


def to_plain(value: Any, where: str = "the function") -> Any:
    """What a rank returns, in types that are read back without pickle. NotSendableError for anything else."""
    if value is None:
        return None
    if isinstance(value, Run):
        return {_RUN: value.to_json()}
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, nn.Parameter):
            name = type(value).__name__
            raise NotSendableError(
                f"{where} returned a {name}: return a plain tensor of it (DTensor: x.full_tensor())."
            )
        return value.detach().cpu().clone()
    if isinstance(value, dict) and all(isinstance(key, (str, int)) for key in value):
        return {to_plain(key): to_plain(one, where) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(one, where) for one in value]
    for kind in _PLAIN:
        if isinstance(value, kind):
            return kind(value)  # of a subclass, such as torch.__version__, the plain value
    raise NotSendableError(
        f"{where} returned a {type(value).__name__}, which stays in its process: return numbers, text, tensors, Runs, "
        "or lists and dicts of them."
    )


def from_plain(value: Any) -> Any:
    """The value that `to_plain` was given; tuples are lists now."""
    if isinstance(value, dict):
        if set(value) == {_RUN}:
            return Run.from_json(value[_RUN])
        return {key: from_plain(one) for key, one in value.items()}
    return [from_plain(one) for one in value] if isinstance(value, list) else value
