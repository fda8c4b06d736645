"""Every lesson on a real GPU: solved, unsolved, known mistakes and other right answers, with seconds and GPU memory.

Run on the GPU machine: ``python tests/gpu/course.py -o course.md [LESSON ...]``. Each lesson is proved by
``python -m autograder check`` in a process of its own, several at a time; what each one printed goes beside the table.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from autograder.build import lesson_named, lessons


@dataclass(frozen=True)
class Proved:
    """What the check of one lesson said, its wall time, and the most GPU memory its processes held together."""

    lesson: str
    holds: bool
    text: str
    seconds: float
    peak_mib: int

    def part(self, title: str) -> str:
        """Seconds of ``solved`` or ``unsolved`` as the check printed them."""
        found = re.search(rf"^\s*{title}: (\d+) s", self.text, re.M)
        return found[1] if found else "–"


def memory_by_pid() -> dict[int, int]:
    """MiB that each process holds on the GPUs. Source: nvidia-smi."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    listed = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    held: dict[int, int] = {}
    for line in listed.splitlines():
        pid, _, mib = line.partition(",")
        if pid.strip().isdigit() and mib.strip().isdigit():
            held[int(pid)] = held.get(int(pid), 0) + int(mib)
    return held


def family(pid: int) -> set[int]:
    """`pid` and all its descendants."""
    import psutil

    try:
        return {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
    except psutil.NoSuchProcess:
        return {pid}


def prove(name: str) -> Proved:
    """Run the check of one lesson from a cold cache of its own, and watch what it holds on the GPU."""
    began, peak = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile("w+") as out:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "COLUMNS": "160"}
        command = [sys.executable, "-m", "autograder", "check", name]
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
        while child.poll() is None:
            held = memory_by_pid()
            peak = max(peak, sum(held.get(pid, 0) for pid in family(child.pid)))
            time.sleep(0.5)
        out.seek(0)
        text = out.read()
    return Proved(name, child.returncode == 0, text, time.monotonic() - began, peak)


def table(found: list[Proved], jobs: int) -> str:
    """One row a lesson."""
    import torch
    import triton

    lines = [
        "# The course on a real GPU",
        "",
        f"Made by `python tests/gpu/course.py` on {datetime.date.today()}: {torch.cuda.get_device_name()}, "
        f"torch {torch.__version__}, triton {triton.__version__}, {os.cpu_count()} cores, {jobs} lessons at a time, "
        "each from a cold cache.",
        "",
        "| lesson | all holds | solved, s | unsolved, s | in all, s | GPU memory, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        holds, parts = "yes" if one.holds else "**no**", f"{one.part('solved')} | {one.part('unsolved')}"
        lines.append(f"| {one.lesson} | {holds} | {parts} | {one.seconds:.0f} | {one.peak_mib or 'not visible'} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes the table and each lesson's own text; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="*")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    chosen = [lesson_named(name) for name in args.lessons] or list(lessons())
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        found = list(pool.map(prove, [lesson.name for lesson in chosen]))
    for one in found:
        print(f"== {one.lesson}\n{one.text}")
        args.out.with_name(f"course_{one.lesson}.txt").write_text(one.text, encoding="utf-8")
    text = table(found, args.jobs)
    print(text)
    args.out.write_text(text, encoding="utf-8")
    return int(not all(one.holds for one in found))


if __name__ == "__main__":
    sys.exit(main())
