"""What a job does: run cells in a shell of IPython, then let the probe of one exercise touch the answer.

Frames on the channel: 8 bytes of length, then a message of `autograder.wire`. The grader sends one dict,
``{"cells": [source, …], "asks_for": [name, …], "module": probe's module, "probe": its name, "asked": values}``; the job
says ``{"cell": index}`` before each cell, ``{"cell error": [index, words]}`` after one that raised, ``{"probing": 1}``,
and last ``{"found": values}`` or ``{"not yet": [ran, got, wanted, look]}`` or ``{"error": sentence}``. Then the grader
may send ``{"canary": source, "asked": values, …}`` and gets one of the three again, until it closes the channel. Where
the cells were its own it may send ``{"export": 1}`` and gets ``{"cache": tar}``, what they left in the compile caches.
``{"pristine": 1}`` gets ``{"pristine": state}`` and ``{"watched": 1}`` the names in it, see `pristine`.
For a race see `laps`.
All of that comes from the submission's own process: it says what it likes, and nothing it says is an expected value.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import shutil
import socket
import struct
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.sandbox.first_compiles import compile_each_kind
from autograder.sandbox.laps import Racer
from autograder.sandbox.namespaces import CACHE, TRUSTED
from autograder.sandbox.pristine import Kept
from autograder.wire import Limits as MessageLimits
from autograder.wire import WireError, decode, encode

_LENGTH = struct.Struct("<Q")
FROM_GRADER = MessageLimits(size=512_000_000)


FIRST_COMPILE = "import torch\ntorch.compile(lambda x: x.sin() + x.softmax(-1))(torch.ones(8, 8))\n"
"""A small compile by Inductor; its products are in each trusted cache that holds any."""
KEPT: list[Kept] = []
"""What `preload` found, for all jobs."""
PUT_BACK: list[Callable[[], None]] = []
"""Puts torch's settings back as `preload` left them."""
SHELLS: list[Any] = []
"""A shell in which nothing ran, for each job's fork."""
PRELOADED = ("IPython.core.interactiveshell", "autograder.judging", "compilescope", "compilescope.rank_process")


def preload() -> None:
    """Import what every job needs and, where there is no GPU, compile, with a backend that leaves no thread."""
    import torch

    from compilescope.torch_internals.counters import forget_counts
    from compilescope.torch_internals.guard_timing import skip_guard_timing
    from compilescope.torch_internals.warm import import_inductor, precompile_no_headers
    from compilescope.torch_internals.whole_process import settings_as_they_are

    for name in (*PRELOADED, *probes()):
        importlib.import_module(name)
    import_inductor()
    skip_guard_timing()
    precompile_no_headers()
    torch.set_num_threads(1)
    if not torch.cuda.is_available():  # any compile would begin CUDA, which no fork of this process could then use
        compile_each_kind()
        if any(Path(TRUSTED).glob("inductor/*")):
            shutil.copytree(TRUSTED, CACHE, dirs_exist_ok=True)
            exec(FIRST_COMPILE, {})
    torch.compiler.reset()
    forget_counts()
    SHELLS.append(fresh_shell())
    KEPT.append(Kept())
    PUT_BACK.append(settings_as_they_are())
    gc.collect()
    gc.freeze()  # a fork's own collections then leave alone, and shared, what was here before


def uses_ranks() -> bool:
    """Whether a probe of this sandbox calls its answer on several ranks."""
    return "autograder.exercises.distributed.on_two" in sys.modules


def probes() -> Iterator[str]:
    """The modules of probes that this sandbox shows; none outside of one."""
    library = Path("/course")
    for path in sorted(library.glob("autograder/exercises/*/[!_]*.py")):
        yield ".".join(path.relative_to(library).with_suffix("").parts)


def run(descriptors: Sequence[int], folder: str = "/tmp/work") -> None:
    """The job, from its first frame to the last, in `folder`; `descriptors`: channel, output, a kernel's doors."""
    channel, output, *doors = descriptors
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.chdir(folder)
    grader = socket.socket(fileno=channel)
    order = receive(grader)
    if uses_ranks():
        from compilescope.ranks import fork_rank_process

        fork_rank_process()
    if doors:
        from autograder.sandbox import kernel_inside

        type(SHELLS.pop()).clear_instance()  # a kernel has a shell of its own kind
        kernel_inside.serve(grader, socket.socket(fileno=doors[0]), order["kernel"])
        return
    kept, shell = KEPT[-1], SHELLS[-1]
    run_cells(grader, shell, order["cells"])
    sys.stdout.flush()
    sys.stderr.flush()
    send(grader, {"probing": 1})
    raced = Racer(shell.user_ns)
    if "probe" in order:
        send(grader, outcome(order, shell.user_ns))
    while (order := receive(grader)) is not None:
        if "export" in order:
            send(grader, {"cache": packed(CACHE)})
        elif "pristine" in order:
            PUT_BACK[-1]()  # with another default dtype torch has another torch.Storage
            send(grader, {"pristine": kept.state()})
        elif "watched" in order:
            send(grader, {"watched": kept.names})
        elif "lap" in order or "prepare" in order:
            send(grader, raced.answered(order))
        else:
            os.chdir(folder)
            send(grader, of_canary(order))


def packed(folder: str) -> Any:
    """The files under `folder` as the bytes of a tar archive, uint8 [bytes]; locks stay."""
    import torch

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix != ".lock":
                archive.add(path, arcname=str(path.relative_to(folder)), recursive=False)
    return torch.frombuffer(bytearray(made.getvalue()), dtype=torch.uint8)


def fresh_shell() -> Any:
    """A shell without history, without colors, without anybody's profile."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.BaseIPythonApplication.auto_create = False
    config.InteractiveShell.history_length = 0
    shell = InteractiveShell.instance(config=config)
    shell.user_ns["__name__"] = "__main__"
    return shell


def run_cells(grader: socket.socket, shell: Any, cells: list[str]) -> None:
    """Run each cell and go on after errors, as a notebook does when it is graded."""
    for index, source in enumerate(cells):
        send(grader, {"cell": index})
        result = shell.run_cell(source, store_history=False, silent=False)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            send(grader, {"cell error": [index, f"{type(error).__name__}: {error}"[:300]]})


def outcome(order: Mapping[str, Any], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """What the probe found, or the sentence that stands in its place."""
    from autograder.judge import refuse_unsolved, say_error
    from autograder.quiet import quiet

    with quiet():
        try:
            module = importlib.import_module(order["module"])
            return report_of(getattr(module, order["probe"]), order, namespace, refuse_unsolved)
        except BaseException as error:
            parts = [getattr(error, part, None) for part in ("ran", "got", "wanted", "look")]
            if all(isinstance(part, str) for part in parts):
                return {"not yet": parts}
            return {"error": say_error(order["asks_for"][0], error)}


def of_canary(order: Mapping[str, Any]) -> dict[str, Any]:
    """What the probe finds of an answer of ours, with torch's settings as they were before any cell ran.

    So neither what an honest notebook sets, nor what one canary sets, makes the next one come out otherwise.
    """
    from autograder.judge import namespace_of, say_error

    PUT_BACK[-1]()
    try:
        names = namespace_of(order["canary"], "canary")
    except Exception as error:
        return {"error": say_error(order["asks_for"][0], error)}
    return outcome(order, names)


def report_of(probe: Any, order: Mapping[str, Any], namespace: Mapping[str, Any], refuse: Any) -> dict[str, Any]:
    """Run `probe`, from a clean start, on what `namespace` defines."""
    from autograder.exercise import Answer, start_clean

    refuse(order["asks_for"], namespace)
    start_clean()
    found = {"found": probe(Answer(namespace), order["asked"])}
    start_clean()
    return found


def send(grader: socket.socket, values: Any) -> None:
    """One frame."""
    message = encode(values)
    grader.sendall(_LENGTH.pack(len(message)) + message)


def receive(grader: socket.socket) -> Any:
    """The next frame's values; None when the grader has closed the channel."""
    head = _exactly(grader, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > FROM_GRADER.size:
        raise WireError("The frame is too long.")
    message = _exactly(grader, length)
    return None if message is None else decode(message, limits=FROM_GRADER)


def _exactly(grader: socket.socket, size: int) -> bytes | None:
    got = bytearray()
    while len(got) < size:
        piece = grader.recv(min(1 << 20, size - len(got)))
        if not piece:
            return None
        got += piece
    return bytes(got)
