"""What stands in torch, compilescope, and the checks before a submission runs, to be compared with what stands after.

Jobs are forks of one process, so a function that nobody replaced has the same address in all of them. `keep` notes
which functions, classes and methods there are; `state` gives their addresses, and those of their code, as they are
now. A submission that goes to such lengths can lie about them, as about all facts of its own process.
"""

from __future__ import annotations

import sys
import types
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

OURS = ("compilescope", "autograder")
"""Packages whose modules are watched with all that they hold, and with the methods of their classes."""
THEIRS = ("torch.compiler", "torch.testing", "torch._dynamo", "torch.fx")
"""Packages whose modules are watched for what each defines itself."""
FULL = ("builtins", "time", "torch", "torch.nn.functional")
"""Other modules that are watched with all that they hold."""
KINDS = (types.FunctionType, types.BuiltinFunctionType, type, property, staticmethod, classmethod, types.ModuleType)

Place = tuple[str, Any, str]
"""A name to say, and the module or class and its attribute."""


class Kept:
    """The places that this process had when it was made.

    It keeps what stood there, so that no address is used again.
    """

    def __init__(self) -> None:
        self._places = list(places())
        self._originals = [found(owner, name) for _, owner, name in self._places]
        self.names = [said for said, _, _ in self._places]

    def state(self) -> str:
        """Two addresses for each name, its own and its code's, as hexadecimal digits of 8 bytes each."""
        numbers = array("Q")
        for _, owner, name in self._places:
            value = found(owner, name)
            numbers.append(id(value))
            numbers.append(id(code_of(value)))
        return numbers.tobytes().hex()


def code_of(value: Any) -> types.CodeType | None:
    """The code of a function, a method or a property; nothing else is asked, for some objects make what they lack."""
    inner: Any = value.fget if type(value) is property else value
    inner = inner.__func__ if type(inner) in (staticmethod, classmethod) else inner
    return inner.__code__ if type(inner) is types.FunctionType else None


def places() -> Iterator[Place]:
    """Everything that is watched."""
    torch = sys.modules["torch"]
    for name, module in sorted(sys.modules.items()):
        ours, theirs = _within(name, OURS), _within(name, THEIRS)
        for attribute, value in list(vars(module).items()) if ours or theirs or name in FULL else ():
            own = getattr(value, "__module__", name) == name
            if isinstance(value, KINDS) and (own or not theirs):
                yield f"{name}.{attribute}", module, attribute
                if isinstance(value, type) and ours and own:
                    yield from _members(value, f"{name}.{attribute}", value.__mro__[:1])
    for kind in (torch.Tensor, torch.nn.Module):
        yield from _members(kind, f"torch.{kind.__name__}", kind.__mro__[:-1])


def _within(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _members(kind: type, said: str, bases: Sequence[type]) -> Iterator[Place]:
    for attribute in sorted({name for base in bases for name in vars(base)}):
        if callable(value := found(kind, attribute)) or isinstance(value, KINDS):
            yield f"{said}.{attribute}", kind, attribute


def found(owner: Any, name: str) -> Any:
    """What stands at a place, without asking the owner's own ``__getattr__``."""
    for base in owner.__mro__ if isinstance(owner, type) else (owner,):
        if name in vars(base):
            return vars(base)[name]
    return None
