"""What went wrong on which rank, from what the ranks left behind."""

from __future__ import annotations

import json
import linecache
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compilescope.reading.cells import CellNames, cell_numbers
from compilescope.reading.stacks import belongs_to_learner

_GENERATED = re.compile(r"eval_with_key|/[a-z0-9]{2}/c[a-z0-9]{40,}\.py$")
"""Files of a graph's own code: that of FX, and what Inductor writes."""
_STACK_LINE = re.compile(r'File "(.+?)", line (\d+) in (\S+)')


class RankError(RuntimeError):
    """A rank raised, died, or waited for ever. Jupyter shows the rank, the lines and the other ranks; no traceback.

    `rank` is None where no single one is to blame; `reason` is ``raised``, ``died``, ``stuck``, ``late`` or ``gone``;
    `kind` and `message` are those of the exception, or `kind` is the signal that a rank died of; `steps` are (file,
    line, function, code), outermost first.
    """

    def __init__(
        self,
        sentence: str,
        *,
        rank: int | None,
        reason: str,
        kind: str = "",
        message: str = "",
        steps: tuple[tuple[str, int, str, str], ...] = (),
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(sentence)
        self.rank, self.reason, self.kind, self.message = rank, reason, kind, message
        self.steps, self.details = steps, details

    def __str__(self) -> str:
        return "\n".join([str(self.args[0]), *(f"  {line}" for line in self.details)])

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self.args[0]}", *(f"  {line}" for line in self.details)]


def failure_of(folder: Path, job: dict[str, Any], ended: str, count: int) -> RankError | None:
    """The error of a job that ended like that; None if every rank left its facts."""
    if ended in ("stuck", "late"):
        return _waiting(folder, job, ended, count)
    if all((folder / f"{rank}.facts").is_file() for rank in range(count)):
        return None
    errors = {rank: json.loads(path.read_text(encoding="utf-8")) for rank, path in _errors(folder, count)}
    died = _died(folder)
    if errors and not died.keys() - errors.keys():
        rank = min(errors, key=lambda one: (_is_echo(errors[one]), errors[one]["at"]))
        return _raised(rank, errors[rank])
    if died:
        rank, code = next((rank, code) for rank, code in died.items() if rank not in errors)
        tail = [line for line in log_of(folder, rank, "stderr").splitlines() if line and "USDT:" not in line][-3:]
        kind = signal.Signals(-code).name if code < 0 else ""
        return RankError(f"Rank {rank} died: {_how(code)}.", rank=rank, reason="died", kind=kind, details=tuple(tail))
    said = folder / "launcher.error"
    details = tuple(said.read_text(encoding="utf-8").strip().splitlines()[-3:]) if said.is_file() else ()
    sentence = "The ranks were ended from outside, before they were done."
    return RankError(sentence, rank=None, reason="gone", details=details)


def _errors(folder: Path, count: int) -> Iterator[tuple[int, Path]]:
    for rank in range(count):
        path = folder / f"{rank}.error"
        if path.is_file() and path.stat().st_size:
            yield rank, path


def _is_echo(error: dict[str, Any]) -> bool:
    """A rank whose partner went away: the partner's own error is the cause."""
    return bool(re.search(r"[Cc]onnection (closed|reset|refused)|peer", error["message"]))


def _died(folder: Path) -> dict[int, int]:
    path = folder / "failed.json"
    if not path.is_file():
        return {}
    return {int(rank): int(code) for rank, code in json.loads(path.read_text()).items()}


def _how(code: int) -> str:
    if code < 0:
        return f"{signal.Signals(-code).name}, a signal from outside or a crash"
    return f"it left Python with exit code {code}"


def _raised(rank: int, error: dict[str, Any]) -> RankError:
    steps = tuple((str(f), int(n), str(g), str(c)) for f, n, g, c in error["steps"])
    lines = [line.strip() for line in error["message"].splitlines() if line.strip()]
    first = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
    details = tuple(f"{Path(file).name}, line {line}, in {name}: {code}" for file, line, name, code in steps[-4:])
    return RankError(
        f"Rank {rank} raised {error['kind']}: {first}".rstrip(": ") + ("" if first.endswith(".") else "."),
        rank=rank,
        reason="raised",
        kind=error["kind"],
        message=error["message"],
        steps=steps,
        details=details,
    )


def _waiting(folder: Path, job: dict[str, Any], ended: str, count: int) -> RankError:
    names = CellNames(cell_numbers())
    details = tuple(f"Rank {rank} {_where(folder, rank, names)}" for rank in range(count))
    seconds = job["patience"] if ended == "stuck" else job["limit"]
    if ended == "stuck":
        did = "got on" if job["backend"] == "nccl" else "computed anything"
        sentence = f"The ranks wait for each other: for {seconds:.0f} s none of them {did}."
    else:
        sentence = f"The ranks were not done after {seconds:.0f} s (limit=), and were ended."
    return RankError(sentence, rank=None, reason=ended, details=details)


def _where(folder: Path, rank: int, names: CellNames) -> str:
    if (folder / f"{rank}.facts").is_file():
        return "is done."
    path = folder / f"{rank}.stack"
    stack = path.read_text(errors="replace") if path.is_file() else ""
    in_graph = False
    for file, line, function in _STACK_LINE.findall(stack):  # innermost first
        if _GENERATED.search(file):
            in_graph = True
        elif belongs_to_learner(file):
            shown = Path(names.file(file)).name
            if in_graph:  # the line that Python names is that of the def
                return f"waits inside a compiled graph of {function} ({shown})."
            return f"is at {shown}, line {line}, in {function}: {linecache.getline(file, int(line)).strip()}"
    return "has not begun." if not stack else "is in the libraries, before your function."


def log_of(folder: Path, rank: int, stream: str) -> str:
    """What a rank wrote to ``stdout`` or ``stderr``."""
    files: list[Path] = sorted((folder / "logs").rglob(f"{rank}/{stream}.log"))
    if stream == "stdout" and not files:
        files = [path for path in [folder / f"{rank}.out"] if path.is_file()]
    return "".join(path.read_text(errors="replace") for path in files)
