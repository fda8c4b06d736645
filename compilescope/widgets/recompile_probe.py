"""Would this call compile again? Change one argument at a time and see which guard refuses; nothing is called."""

from __future__ import annotations

import html
import inspect
from collections.abc import Callable
from typing import Any

import ipywidgets
import torch
from IPython.display import display

from compilescope.asking import would_recompile
from compilescope.text import describe_verdict
from compilescope.verdicts import Verdict

DTYPES = {str(d).removeprefix("torch."): d for d in (torch.float32, torch.float64, torch.bfloat16, torch.int64)}
SIGN = {
    "hit": "✓ hit",
    "first compile": "● would compile",
    "recompile": "↻ would recompile",
    "give up": "✗ would give up",
}


def recompile_probe(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    """Display controls for the arguments of the compiled `fn`, started at this call; `fn` is never called.

    Raises what `would_recompile` raises: ValueError if `fn` is not compiled, TypeError if the arguments do not fit.
    """
    probe = Probe(fn, *args, **kwargs)
    # Where no widget can be drawn (an export, a terminal) the answer for this call stands in for it.
    display({**probe.box._repr_mimebundle_(), "text/plain": probe.text}, raw=True)


class Probe:
    """The widget. `verdict` is the answer for what the controls say now; `text` says it in words."""

    def __init__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._fn = fn
        self.verdict: Verdict = would_recompile(fn, *args, **kwargs)
        self._had_entries = bool(self.verdict.entries)
        names = _argument_names(fn, args)
        self.controls = [control_for(name, value) for name, value in zip(names, args, strict=True)]
        self.keywords = {name: control_for(name, value) for name, value in kwargs.items()}
        self.grad_mode = ipywidgets.Checkbox(value=torch.is_grad_enabled(), description="gradients on", indent=False)
        self._answer = ipywidgets.HTML()
        every = [*self.controls, *self.keywords.values()]
        for control in every:
            control.listen(self._ask)
        self.grad_mode.observe(self._ask, "value")
        rows = [ipywidgets.HBox([_label(c.name), *c.widgets]) for c in every]
        self.box = ipywidgets.VBox([*rows, ipywidgets.HBox([_label(""), self.grad_mode]), self._answer])
        self._ask()

    @property
    def text(self) -> str:
        """The answer as a sentence."""
        if self._had_entries and not self.verdict.entries:
            return (
                f"What {self.verdict.function} had compiled is gone since: run this cell again, and those that warm it."
            )
        return describe_verdict(self.verdict)

    def _ask(self, change: Any = None) -> None:
        try:
            with torch.set_grad_enabled(self.grad_mode.value):
                arguments = [control.value() for control in self.controls]
                keywords = {name: control.value() for name, control in self.keywords.items()}
                self.verdict = would_recompile(self._fn, *arguments, **keywords)
        except (RuntimeError, TypeError, ValueError) as error:
            self._answer.value = f"These arguments cannot be made: {html.escape(str(error).splitlines()[0])}"
            return
        sign = SIGN[self.verdict.outcome]
        self._answer.value = f"<b>{sign}</b><br>{html.escape(self.text)}"


class _Fixed:
    """An argument that the probe cannot change."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self._value = name, value
        self.widgets: list[ipywidgets.DOMWidget] = [ipywidgets.HTML(f"<i>{html.escape(type(value).__name__)}</i>")]

    def value(self) -> Any:
        return self._value

    def listen(self, handler: Callable[[Any], None]) -> None:
        for widget in self.widgets:
            widget.observe(handler, "value")


class _Plain(_Fixed):
    """A bool, int, float or str."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name, value)
        if isinstance(value, bool):
            self.widgets = [ipywidgets.Checkbox(value=value, indent=False)]
        else:
            kind = {int: ipywidgets.IntText, float: ipywidgets.FloatText, str: ipywidgets.Text}[type(value)]
            self.widgets = [kind(value=value, layout={"width": "10em"}, continuous_update=False)]

    def value(self) -> Any:
        return self.widgets[0].value


class _Tensor(_Fixed):
    """A tensor: its sizes, dtype, `requires_grad`, and whether the last two dimensions are stored transposed."""

    def __init__(self, name: str, value: torch.Tensor) -> None:
        super().__init__(name, value)
        width = {"width": "5.5em"}
        self.sizes = [
            ipywidgets.BoundedIntText(value=n, min=0, max=1 << 20, layout=width, tooltip=f"size of dimension {i}")
            for i, n in enumerate(value.shape)
        ]
        own = str(value.dtype).removeprefix("torch.")
        self.dtype = ipywidgets.Dropdown(options=[*dict.fromkeys([own, *DTYPES])], value=own, layout={"width": "7em"})
        flag = {"indent": False, "layout": {"width": "auto"}}
        self.requires_grad = ipywidgets.Checkbox(value=value.requires_grad, description="requires grad", **flag)
        self.transposed = ipywidgets.Checkbox(value=False, description="transposed", **flag)
        self.widgets = [*self.sizes, self.dtype, self.requires_grad, *([self.transposed] if value.ndim > 1 else [])]

    def value(self) -> torch.Tensor:
        shape = tuple(size.value for size in self.sizes)
        same = shape == tuple(self._value.shape) and self.dtype.value == str(self._value.dtype).removeprefix("torch.")
        if same and not self.transposed.value and self.requires_grad.value == self._value.requires_grad:
            original: torch.Tensor = self._value  # the very tensor, with its strides and its place in memory
            return original
        dtype = DTYPES.get(self.dtype.value, self._value.dtype)
        stored = (*shape[:-2], shape[-1], shape[-2]) if self.transposed.value else shape
        made = torch.zeros(stored, dtype=dtype, device=self._value.device)
        made = made.mT if self.transposed.value else made
        if self.requires_grad.value and not dtype.is_floating_point:
            raise ValueError("only floating-point tensors can require gradients")
        return made.detach().requires_grad_(self.requires_grad.value)


Control = _Fixed | _Plain | _Tensor


def control_for(name: str, value: Any) -> Control:
    """The control that fits one argument."""
    if isinstance(value, torch.Tensor):
        return _Tensor(name, value)
    if type(value) in (bool, int, float, str):
        return _Plain(name, value)
    return _Fixed(name, value)


def _argument_names(fn: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    target = fn.forward if isinstance(fn, torch.nn.Module) else fn
    parameters = list(inspect.signature(target).parameters.values())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"argument {i + 1}" for i in range(len(args))]


def _label(text: str) -> ipywidgets.HTML:
    return ipywidgets.HTML(f"<code>{html.escape(text)}</code>", layout={"width": "7em"})
