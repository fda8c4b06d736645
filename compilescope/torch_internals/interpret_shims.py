"""What Triton's interpreter lacks for Inductor's kernels: a driver, libdevice, fast reductions. Only for a child.

The child is started with TRITON_INTERPRET=1: triton decides when it is imported, for its own library functions too.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from compilescope.torch_internals.pretend_device import triton_driver

_SAME_NAME = "erf erfc erfinv rsqrt sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh"
_SAME_NAME += " asinh acosh atanh floor ceil trunc round atan2 hypot copysign nextafter fmod lgamma pow abs"


def install(arch: int = 90) -> None:
    """Make Inductor's kernels run under the interpreter in this process. There is no way back.

    Leans on ``triton.runtime.interpreter`` (3.6 to 3.9) and ``torch._inductor.runtime.triton_compat`` (2.11 to 2.15).
    """
    from torch._inductor.runtime import triton_compat, triton_helpers

    install_for_learners(arch)
    library = _libdevice()
    for module in (triton_compat, triton_helpers):
        setattr(module, "libdevice", library)  # noqa: B010 - these are no exports for a type checker
    triton_helpers.set_driver_to_gpu = lambda: None
    triton_helpers.set_driver_to_cpu = lambda: None


def install_for_learners(arch: int = 90) -> None:
    """Make hand-written kernels run under the interpreter in this process, without the second that Inductor takes.

    Leans on ``triton.runtime.interpreter`` and on ``triton.language.extra.libdevice`` (3.6 to 3.9).
    """
    from triton.language.extra import libdevice
    from triton.runtime.driver import driver

    driver.set_active(triton_driver(arch))
    for name, function in vars(_libdevice()).items():
        setattr(libdevice, name, function)
    _scalars_of_one_element()
    _fast_reductions()


def _scalars_of_one_element() -> None:
    """Triton 3.6 hands numpy an array of one element where a number is wanted; numpy 2.4 no longer takes it."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = patch_lang_tensor


def _libdevice() -> types.SimpleNamespace:
    import triton.language as tl

    special, boolean = torch.special, tl.int1
    functions = {name: _elementwise(getattr(torch, name)) for name in _SAME_NAME.split()}
    functions |= {
        "fast_tanhf": _elementwise(torch.tanh),
        "fast_expf": _elementwise(torch.exp),
        "nearbyint": _elementwise(torch.round),
        "rint": _elementwise(torch.round),
        "fma": _elementwise(lambda a, b, c: a * b + c),
        "isnan": _elementwise(torch.isnan, boolean),
        "isinf": _elementwise(torch.isinf, boolean),
        "signbit": _elementwise(torch.signbit, boolean),
        "isfinited": _elementwise(torch.isfinite, boolean),
        "finitef": _elementwise(torch.isfinite, boolean),
        "llrint": _elementwise(torch.round, tl.int64),
        "ldexp": _elementwise(torch.ldexp),
        "ilogb": _elementwise(lambda x: torch.frexp(x).exponent - 1, tl.int32),
        "j0": _elementwise(special.bessel_j0),
        "j1": _elementwise(special.bessel_j1),
        "div_rn": _elementwise(torch.div),
        "sqrt_rn": _elementwise(torch.sqrt),
    }
    return types.SimpleNamespace(**functions)


def _elementwise(function: Callable[..., torch.Tensor], out: Any = None) -> Callable[..., Any]:
    """A libdevice function for interpreted blocks; `out` is its result type where that is not its argument's."""

    def call(*args: Any, **_: Any) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle, _get_np_dtype

        first = next(one for one in args if isinstance(one, tl.core.tensor))
        values = [
            torch.from_numpy(np.array(one.handle.data)) if isinstance(one, tl.core.tensor)
            else torch.as_tensor(getattr(one, "value", one))
            for one in args
        ]  # fmt: skip
        shape = torch.broadcast_shapes(*[one.shape for one in values])
        dtype = out or first.dtype
        result = function(*[one.expand(shape) for one in values]).numpy().astype(_get_np_dtype(dtype))
        kind = tl.block_type(dtype, list(shape)) if shape else dtype
        return tl.core.tensor(TensorHandle(result.reshape(tuple(shape)), dtype), kind)

    return call


def _fast_reductions() -> None:
    """Reduce with numpy where Inductor's combine function is known: the interpreter would loop over elements."""
    from triton.runtime import interpreter

    known: dict[str, Callable[..., Any]] = {
        "maximum": np.max,
        "minimum": np.min,
        "_any_combine": np.max,
        "_prod_accumulate": np.prod,
    }
    original = interpreter.ReduceOps.apply_impl

    def apply_impl(self: Any, given: Any) -> Any:
        fast = known.get(getattr(self.combine_fn, "__name__", ""))
        if fast is not None and self.axis is not None and len(given) == 1:
            data = fast(given[0].handle.data, axis=self.axis, keepdims=self.keep_dims)
            return self.to_tensor(data, given[0].dtype)
        return original(self, given)

    interpreter.ReduceOps.apply_impl = apply_impl


def both_of(*values: Callable[[], Any]) -> Any:
    """``a and b`` as Triton's compiler means it: element by element where one is a block, else as in Python."""
    result = values[0]()
    for value in values[1:]:
        if _is_tensor(result):
            result = _truth(result) & _truth(value())
        elif result:
            result = value()
    return result


def either_of(*values: Callable[[], Any]) -> Any:
    """``a or b``, as `both_of`."""
    result = values[0]()
    for value in values[1:]:
        if _is_tensor(result):
            result = _truth(result) | _truth(value())
        elif not result:
            result = value()
    return result


def negated(value: Any) -> Any:
    """``not a``, as `both_of`."""
    return value == 0 if _is_tensor(value) else not value


def _is_tensor(value: Any) -> bool:
    import triton.language as tl

    return isinstance(value, tl.tensor)


def _truth(value: Any) -> Any:
    return value != 0 if _is_tensor(value) else bool(value)
