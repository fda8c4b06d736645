"""What grading each lesson takes: the figures behind docs/clusters.md, into benchmarks/grading_figures.json.

``python benchmarks/grading_figures.py [--submissions 8]``, on an idle machine. A class hands in every lesson, a quarter
each of unsolved, half solved, solved, and solved with a known mistake; all of it is graded in one course, from empty
caches, and `python -m autograder plan --keep` reads what it took.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from grading import ROOT, add_lesson, seconds_of

from autograder.build import lessons
from classroom import Classroom

KEPT = ROOT / "benchmarks" / "grading_figures.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=8, help="of each lesson (default 8)")
    args = parser.parse_args()
    os.environ["COURSE_SECRET"] = "benchmark"
    with tempfile.TemporaryDirectory() as folder:
        room, cache = Classroom(Path(folder)), Path(tempfile.mkdtemp(dir=folder))
        for lesson in lessons():
            add_lesson(room, lesson, args.submissions)
            command = [sys.executable, "-m", "autograder", "grade", lesson.name, f"--course={room.root}"]
            print(f"{lesson.name}: {seconds_of(command, room, cache, ROOT):.0f} s", flush=True)
        plan = [sys.executable, "-m", "autograder", "plan", f"--course={room.root}", f"--keep={KEPT}"]
        subprocess.run([*plan, "--students", "5000"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
