"""Fifty starts of two ranks, most of them ended by force: what stays behind?

``python benchmarks/ranks_leave_nothing.py -o benchmarks/ranks_leave_nothing.md``. Counts, after each, processes below
the one that ranks are forked from, and whether the port of their rendezvous still answers; at the end, processes of
this whole program and listening sockets that were not there before.
"""

import argparse
import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from compilescope import on_ranks
from compilescope.ranks import RankError, _template, end_ranks

WAYS = ("end", "raise", "exit", "kill", "hang", "interrupt")


def work(folder, way):
    Path(folder, "port").write_text(os.environ["MASTER_PORT"])
    rank = dist.get_rank()
    if way == "raise" and rank == 1:
        raise RuntimeError("on purpose")
    if way == "exit" and rank == 0:
        os._exit(3)
    if way == "kill" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "interrupt":
        Path(folder, f"started.{rank}").touch()
        time.sleep(60)
    if way == "hang" and rank == 0:
        return
    dist.all_reduce(torch.ones(1))


def interrupt_when_started(folder):
    while not all(Path(folder, f"started.{rank}").exists() for rank in range(2)):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def answers(port):
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def listening():
    mine = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    return [one.laddr.port for one in psutil.net_connections("inet") if one.status == "LISTEN" and one.pid in mine]


def once(way):
    """(how it ended, processes left, 1 if the port still answers)."""
    with tempfile.TemporaryDirectory() as folder:
        if way == "interrupt":
            threading.Thread(target=interrupt_when_started, args=(folder,), daemon=True).start()
        ended = "ended"
        try:
            on_ranks(work, folder, way, patience=2, limit=60)
        except RankError as error:
            ended = error.reason
        except KeyboardInterrupt:
            ended = "interrupted"
        below = psutil.Process(_template._process.pid).children(recursive=True)
        return ended, len(below), answers(int(Path(folder, "port").read_text()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=50)
    parser.add_argument("-o", type=Path)
    asked = parser.parse_args()
    told, left, ports = Counter(), 0, 0
    for number in range(asked.n):
        way = WAYS[number % len(WAYS)]
        ended, processes, port = once(way)
        told[way, ended] += 1
        left, ports = left + processes, ports + port
        print(number + 1, way, ended, processes, port, flush=True)
    open_sockets = len(listening())
    end_ranks()
    children = len(psutil.Process().children(recursive=True))
    lines = [f"# {asked.n} starts of two ranks", "", "| what rank did | how it ended | times |", "|---|---|---|"]
    lines += [f"| {way} | {ended} | {times} |" for (way, ended), times in sorted(told.items())]
    lines += [
        "",
        f"Processes left after a start: {left}. Rendezvous ports that still answered: {ports}.",
        f"Listening sockets of this program at the end: {open_sockets}. Child processes at the end: {children}.",
        f"(torch {torch.__version__}, Python {sys.version.split()[0]}, {sys.platform}, {time.strftime('%Y-%m-%d')})",
    ]
    print("\n".join(lines))
    if asked.o:
        asked.o.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(bool(left or ports or open_sockets or children))


if __name__ == "__main__":
    main()
