"""Before and after under one contract: the clauses, the stream call by call, the loss curves. To show a colleague."""

from __future__ import annotations

from collections.abc import Sequence

from compilescope.facts_contract import Clause, Contract
from compilescope.text import count
from compilescope.views.card import card, color, escape, table
from compilescope.views.display import Display, data_uri

_WIDTH, _HEIGHT, _EDGE = 460, 150, 34
_MARKS = {True: ("good", "✓", "kept"), False: ("bad", "✗", "broken"), None: ("mute", "–", "not measured")}
_SERIES = (("eager, float64", "#7d7d7d", "6"), ("before", "#b8540f", "2"), ("after", "#2f66c9", "2"))


def contract_report(
    before: Contract, after: Contract | None = None, names: tuple[str, str] = ("before", "after")
) -> Display:
    """One contract, or two beside each other; ``contract_report(…).save_html("report.html")`` writes it as one page.

    Args:
        before: of the model as it was, or the only one.
        after: of the model as it is now.
        names: heads of the columns.
    """
    shown = [before] if after is None else [before, after]
    for one in shown:
        if not isinstance(one, Contract):
            raise TypeError(f"contract_report wants contracts, not a {type(one).__name__}: contract(…) gives one.")
    heads = names[: len(shown)]
    found = [{clause.name: clause for clause in one.clauses} for one in shown]
    rows = [_row(clause, [clauses.get(clause.name) for clauses in found]) for clause in shown[-1].clauses]
    body = table(["clause", "wanted", *heads], rows)
    body += "".join(_strip(name, one) for name, one in zip(heads, shown, strict=True) if one.compiled)
    body += '<p class="mute">A number: so many frames compiled. ●: nothing compiled. ■: plain Python.</p>'
    body += _curves(shown, heads)
    return card(_title(shown[-1]), body, "\n".join(_lines(shown, heads)), shown[-1].origin.sentence())


def _title(after: Contract) -> str:
    judged = [one for one in after.clauses if not one.bonus]
    kept = sum(one.kept is True for one in judged)
    if after.kept:
        return f"Ready for production: {count(kept, 'clause')} kept"
    return f"Not ready: {kept} of {count(len(judged), 'clause')} kept"


def _row(clause: Clause, found: Sequence[Clause | None]) -> list[str]:
    name = escape(clause.name) + (' <span class="mute">(bonus)</span>' if clause.bonus else "")
    return [f"<b>{name}</b>", escape(clause.wanted), *(_cell(one) for one in found)]


def _cell(clause: Clause | None) -> str:
    if clause is None:
        return '<span class="mute">not in this contract</span>'
    kind, mark, word = _MARKS[clause.kept]
    why = f'<br><code class="mute">{escape(clause.why)}</code>' if clause.why else ""
    return f'<span class="{kind}" role="img" aria-label="{word}">{mark}</span> {escape(clause.found)}{why}'


def _strip(name: str, one: Contract) -> str:
    dots = [_dot(i, shape, made) for i, (shape, made) in enumerate(zip(one.shapes, one.compiled, strict=True), 1)]
    heads = [escape(shape) for shape in one.shapes]
    return f"<h4>{escape(name)}: frames compiled in each call of the stream</h4>" + table(heads, [dots])


def _dot(number: int, shape: str, made: int) -> str:
    said = "plain Python" if made < 0 else f"{count(made, 'frame')} compiled"
    ink, sign = (4, "■") if made < 0 else (1, str(made)) if made else (2, "●")
    return f'<i class="dot" {color(ink)} role="img" aria-label="call {number}, {escape(shape)}: {said}">{sign}</i>'


def _curves(shown: Sequence[Contract], names: Sequence[str]) -> str:
    """The loss curves as an image: a sanitizer that drops an inline SVG keeps it."""
    series = (shown[-1].exact_losses, *(one.losses for one in shown))
    points = [value for values in series for value in values if value == value]
    if len(points) < 2:
        return ""
    low, high = min(points), max(points)
    inside = "".join(_line(values, low, high, i) for i, values in enumerate(series))
    labels = "".join(_label(text, i) for i, text in enumerate((_SERIES[0][0], *names)))
    axis = f"<text x='{_EDGE - 4}' y='{{}}' font-size='11' text-anchor='end' fill='#444'>{{:.2f}}</text>"
    inside += axis.format(18, high) + axis.format(_HEIGHT - 20, low)
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH + 130} {_HEIGHT}' width='{_WIDTH + 130}' "
        f"height='{_HEIGHT}' font-family='sans-serif'>{inside}{labels}</svg>"
    )
    picture = f'<img alt="Loss before each step" src="{data_uri(svg)}" style="max-width:100%;background:#fff">'
    return f"<h4>Loss before each step</h4>{picture}"


def _line(values: tuple[float, ...], low: float, high: float, which: int) -> str:
    _, ink, width = _SERIES[which]
    across, down = (_WIDTH - 2 * _EDGE) / max(len(values) - 1, 1), (_HEIGHT - 38) / ((high - low) or 1.0)
    dash = " stroke-dasharray='7 6'" if which == 1 else ""
    at = [(_EDGE + i * across, 14 + (high - value) * down) for i, value in enumerate(values) if value == value]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    opaque = "0.45" if which == 0 else "1"
    return f"<polyline points='{points}' fill='none' stroke='{ink}' stroke-width='{width}' opacity='{opaque}'{dash}/>"


def _label(text: str, which: int) -> str:
    _, ink, width = _SERIES[which]
    y = 20 + 18 * which
    dash = " stroke-dasharray='7 6'" if which == 1 else ""
    stroke = f"<path d='M{_WIDTH - 10} {y}h22' stroke='{ink}' stroke-width='{width}'{dash}/>"
    return f"{stroke}<text x='{_WIDTH + 18}' y='{y + 4}' font-size='12' fill='#222'>{escape(text)}</text>"


def _lines(shown: Sequence[Contract], names: Sequence[str]) -> list[str]:
    found = [{clause.name: clause for clause in one.clauses} for one in shown]
    lines = []
    for clause in shown[-1].clauses:
        said = " → ".join(_said(clauses.get(clause.name)) for clauses in found)
        lines.append(f"{clause.name}{' (bonus)' if clause.bonus else ''}, wanted {clause.wanted}: {said}")
    for name, one in zip(names, shown, strict=True):
        calls = ", ".join(
            f"{shape}: {'plain Python' if made < 0 else made}"
            for shape, made in zip(one.shapes, one.compiled, strict=True)
        )
        lines += [f"{name}, frames compiled in each call: {calls}"] if calls else []
        lines += [f"{name}, loss before each step: {' '.join(f'{x:.3f}' for x in one.losses)}"] if one.losses else []
    return lines


def _said(clause: Clause | None) -> str:
    if clause is None:
        return "not in this contract"
    why = f" ({clause.why})" if clause.why else ""
    return f"{_MARKS[clause.kept][2]}: {clause.found}{why}"
