"""What forward keeps for backward: which tensors, how many bytes, and which of them cost nothing more."""

from __future__ import annotations

from compilescope.facts import Run, Saved
from compilescope.text import describe_saved, size
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display


def saved_bars(run: Run) -> Display:
    """The tensors saved for backward, largest first, on one scale; inputs are there anyway and cost nothing more."""
    saved = [one for compiled in run.compiles for one in compiled.saved]
    if not saved:
        reason = "Nothing is saved for backward: no backward was compiled, or everything is computed anew."
        return card("Nothing saved for backward", f"<p>{escape(reason)}</p>", reason, run.origin.sentence())
    saved.sort(key=lambda one: (one.is_input, -(one.size_bytes or 0)))
    widest = max(one.size_bytes or 0 for one in saved) or 1
    extra = sum(one.size_bytes or 0 for one in saved if not one.is_input)
    rows = [_row(one, widest) for one in saved]
    body = table(["value", "dtype and shape", "bytes", "", ""], rows, numbers=(3,))
    return card(f"{size(extra)} kept for backward", body, describe_saved(saved), run.origin.sentence())


def _row(one: Saved, widest: int) -> list[str]:
    share = 100 * (one.size_bytes or 0) / widest
    ink = 7 if one.is_input else 0
    kind = ' class="w"' if one.is_input else ""
    bar = f'<div class="bar" {color(ink)}><i{kind} style="width:{share:.1f}%"></i></div>'
    shape = f"{one.dtype}[{', '.join(map(str, one.shape))}]"
    known = "size varies" if one.size_bytes is None else size(one.size_bytes)
    says = "an input: there anyway" if one.is_input else ""
    return [f"<code>{escape(one.name)}</code>", escape(shape), bar, known, f"<span class=mute>{says}</span>"]
