"""The process inside the outer sandbox: imports torch once, then forks a job whenever the grader says so.

Its control socket carries JSON datagrams. From the grader: ``{"start": number, "limits": {…}, "gpu": bool}`` with two
descriptors (the job's channel, and the pipe for what it prints; for a kernel also its doors), and ``{"kill": number,
"why": word}``. To the grader: ``{"ready": true}`` and ``{"ended": number, "status": wait status, "why": word or ""}``.
Nothing that a submission must not know is ever in this process: jobs inherit its memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from autograder.sandbox import inside, namespaces
from autograder.sandbox.huge_pages import gather_into_huge_pages
from autograder.sandbox.limits import Limits

LOOK_EVERY = 0.1
"""Seconds between two looks at what jobs use."""


def main() -> None:
    """Serve jobs until the grader closes the control socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    inside.preload()
    gather_into_huge_pages()
    namespaces.hide_memory()
    control.send(json.dumps({"ready": True}).encode())
    serve(control)


def serve(control: socket.socket) -> None:
    """Start, watch, end and report jobs."""
    jobs: dict[int, Job] = {}
    base, looked = private_memory(os.getpid()), 0.0
    while True:
        ends = [job.end for job in jobs.values() if job.end is not None]
        readable, _, _ = select.select([control.fileno(), *ends], [], [], LOOK_EVERY if jobs else 60.0)
        if control.fileno() in readable and not obey(control, jobs):
            return
        if time.monotonic() - looked >= LOOK_EVERY:
            look(jobs, base)
            looked = time.monotonic()
        for number, job in list(jobs.items()):
            pid, status = os.waitpid(job.pid, os.WNOHANG)
            if pid:
                del jobs[number]
                job.close()
                control.send(json.dumps({"ended": number, "status": status, "why": job.why}).encode())


class Job:
    """A job that runs: the pid of its first process, which is the parent of its pid namespace's init.

    `end` is a descriptor that becomes readable when it has ended; None where the kernel has none (before Linux 5.3).
    """

    def __init__(self, pid: int, limits: Limits, isolated: bool) -> None:
        self.pid, self.limits, self.isolated, self.why = pid, limits, isolated, ""
        self.end: int | None = None
        with contextlib.suppress(OSError):
            self.end = os.pidfd_open(pid)

    def close(self) -> None:
        """After its end."""
        if self.end is not None:
            os.close(self.end)

    def kill(self, why: str) -> None:
        """End it and everything it started.

        With a pid namespace only its init is killed: that ends the others, and the job's own process, which waits for
        init, ends when nothing is left.
        """
        self.why = self.why or why
        tree = parents()
        inits = tree.get(self.pid, []) if self.isolated else []
        for pid in inits[:1] or reversed(family(self.pid, tree)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def obey(control: socket.socket, jobs: dict[int, Job]) -> bool:
    """One order of the grader; False when it is gone."""
    data, descriptors, _, _ = socket.recv_fds(control, 65536, 3)
    if not data:
        return False
    order: dict[str, Any] = json.loads(data)
    if "start" in order:
        limits = Limits(**order["limits"])
        mine = [control.fileno(), *(job.end for job in jobs.values() if job.end is not None)]
        pid = start(limits, descriptors, mine, order["gpu"], order["isolated"])
        jobs[order["start"]] = Job(pid, limits, order["isolated"])
        for descriptor in descriptors:
            os.close(descriptor)
    elif order["kill"] in jobs:
        jobs[order["kill"]].kill(order["why"])
    return True


def start(limits: Limits, descriptors: list[int], mine: list[int], gpu: bool, isolated: bool) -> int:
    """Fork a job, which gets none of `mine`; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        namespaces.die_with_parent()
        for descriptor in mine:
            os.close(descriptor)
        namespaces.hide_memory(False)
        if isolated:
            namespaces.unshare()
            code = as_init(limits, descriptors, gpu)
        else:
            namespaces.set_limits(limits, gpu)
            inside.run(descriptors, tempfile.mkdtemp())
            code = 0
    except BaseException as error:
        os.write(descriptors[1], f"sandbox: {error}\n".encode())
    finally:
        os._exit(code)


def as_init(limits: Limits, descriptors: list[int], gpu: bool) -> int:
    """Fork the init of the new pid namespace, which forks the job and ends with it; the job's exit code."""
    init = os.fork()
    if init:
        for descriptor in descriptors:
            os.close(descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(init, 0)[1]) & 0xFF
    namespaces.die_with_parent()
    namespaces.mount_scratch(limits)
    namespaces.give_up_power()
    namespaces.hide_memory()
    job = os.fork()
    if job == 0:
        namespaces.hide_memory(False)
        namespaces.set_limits(limits, gpu)
        inside.run(descriptors)
        os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    while True:  # orphans come here
        pid, status = os.wait()
        if pid == job:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def look(jobs: dict[int, Job], base: int) -> None:
    """Kill what takes more memory, processes or computing than it may."""
    if not jobs:
        return
    tree = parents()
    for job in jobs.values():
        members = family(job.pid, tree)
        if len(members) > job.limits.processes:
            job.kill("processes")
        elif sum(computed(pid) for pid in members) > job.limits.cpu:
            job.kill("cpu")
        elif sum(max(0, private_memory(pid) - base) for pid in members) > job.limits.memory:
            job.kill("memory")


def parents() -> dict[int, list[int]]:
    """Pid to the pids of its children, of all processes in the outer sandbox."""
    found: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path("/proc", entry.name, "stat").read_text(errors="replace")
                found.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    return found


def family(pid: int, tree: dict[int, list[int]]) -> list[int]:
    """`pid` and all its descendants."""
    found = [pid]
    for one in found:
        found += tree.get(one, ())
    return found


def computed(pid: int) -> float:
    """Seconds that a process has computed, with its children that have ended; 0 if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
        return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def private_memory(pid: int) -> int:
    """Bytes of anonymous and shared memory of a process; 0 if it is gone."""
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc", str(pid), "status").read_text(errors="replace").splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += 1024 * int(line.split()[1])
    return total


if __name__ == "__main__":
    main()
