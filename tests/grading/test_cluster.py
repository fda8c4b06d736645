"""`grade --scheduler`: every submission its grade from a Dask cluster, once, whatever dies in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import ClassVar

import psutil
import pytest

from classroom import LESSON, ROOT, SMALL_LESSON, solve, unsolved

_FIRST, _, _REST = SMALL_LESSON.partition('# %% exercise="basic_2"')
TWO_EXERCISES = _FIRST + "# %% exercise=" + _REST.rpartition("# %% exercise=")[2]
SECRET = {"COURSE_SECRET": "nobody-knows-this"}
RIGHT = {"ann": (), "bob": ("basic_1",), "cat": ("basic_3",), "dan": ("basic_1", "basic_3")}
"""Student to the exercises that they solved."""


pytestmark = pytest.mark.usefixtures("dask")


def start(folder, kind, *options):
    """A scheduler or a worker in a process of its own; they find each other through a file in `folder`."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(folder / "dask.json")]
    log = (folder / f"{kind}.log").open("a")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.Popen([*command, "--no-dashboard", *options], cwd=folder, env=environment, stdout=log, stderr=log)


@pytest.fixture
def two_workers(tmp_path):
    """A scheduler and two workers on loopback: (the scheduler's file, the workers' processes)."""
    processes = [start(tmp_path, "scheduler", "--host=127.0.0.1", "--port=0")]
    one_each = ("--nthreads=1", "--no-nanny", f"--local-directory={tmp_path}", "--host=127.0.0.1")
    processes += [start(tmp_path, "worker", *one_each) for _ in range(2)]
    yield tmp_path / "dask.json", processes[1:]
    for process in processes:
        process.kill()
        process.wait()


def wait_until(condition, alive, seconds=300):
    until = time.monotonic() + seconds
    while not condition():
        assert alive.poll() is None, alive.stdout.read() if alive.stdout else "it ended early"
        assert time.monotonic() < until
        time.sleep(0.1)


def events(root):
    """[(state, student), …] of the journal so far."""
    path = root / "work" / "grading" / LESSON / "journal.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(json.loads(line)["state"], json.loads(line)["student"]) for line in lines if line.endswith("}")]


def test_two_workers_of_which_one_is_killed_give_every_submission_its_grade_once(classroom, sandbox, two_workers):
    classroom.teaches(TWO_EXERCISES)
    classroom.nbgrader("generate_assignment", "--force", LESSON)
    for student, solved in RIGHT.items():
        notebook = unsolved(classroom.lesson)
        classroom.hands_in(student, solve(notebook, classroom.lesson, *solved) if solved else notebook)
    file, workers = two_workers
    command = [sys.executable, "-m", "autograder", "grade", LESSON, f"--course={classroom.root}", f"--scheduler={file}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    grader = subprocess.Popen(command, env={**classroom.env, **SECRET}, cwd=ROOT, **pipes)
    try:
        for worker in workers:  # both have started a sandbox
            wait_until(lambda one=worker: len(psutil.Process(one.pid).children(recursive=True)) > 1, grader)
        wait_until(lambda: any(state == "judged" for state, _ in events(classroom.root)), grader)
        family = psutil.Process(workers[0].pid).children(recursive=True)
        os.kill(workers[0].pid, signal.SIGKILL)
        said, _ = grader.communicate(timeout=400)
    finally:
        grader.kill()
    assert grader.returncode == 0, said
    assert {student: sum(classroom.scores(student).values()) for student in RIGHT} == {
        "ann": 0, "bob": 2, "cat": 2, "dan": 4,
    }  # fmt: skip
    judged = [student for state, student in events(classroom.root) if state == "judged"]
    assert sorted(judged) == sorted(RIGHT)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == [], "what the killed worker had started lives on"


def test_a_scheduler_that_is_not_there_gets_one_sentence(classroom):
    from autograder.errors import CourseError
    from autograder.grading import cluster

    for where in ("tcp://127.0.0.1:1", "no-such-file.json"):
        with pytest.raises(CourseError, match="There is no Dask scheduler at"):
            cluster._cluster(where, seconds=2)


def test_a_file_is_looked_for_where_the_command_was_typed(tmp_path, monkeypatch):
    from autograder.grading.command import scheduler_named

    monkeypatch.chdir(tmp_path)
    assert [scheduler_named(name) for name in ("dask.json", "jobs.yaml")] == [
        str(tmp_path / "dask.json"), str(tmp_path / "jobs.yaml"),
    ]  # fmt: skip
    assert [scheduler_named(name) for name in ("", "tcp://10.0.0.5:8786")] == ["", "tcp://10.0.0.5:8786"]


class Stub:
    """An examiner without a sandbox: `answers` says what becomes of each student."""

    answers: ClassVar[dict] = {}
    seen: ClassVar[list] = []

    def __init__(self, lesson, limits, cache, isolated):
        self.lesson = lesson

    def examine(self, student, path, key, race):
        Stub.seen.append(student)
        assert not race
        answer = Stub.answers.get(student)
        if isinstance(answer, Exception):
            raise answer
        rulings = [{"exercise": "basic_1", "passed": answer != "wrong", "sentence": "", "points": 2}]
        return {"student": student, "key": key, "rulings": rulings, "problem": path.read_text(), "seconds": 0.1}

    def race(self, path, result):
        Stub.seen.append(f"race of {result['student']}")
        result["rulings"][0]["sentence"] = "2.00 times the speed"
        return result

    def __exit__(self, *_):
        pass


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """``engine({student: outcome}, GPU=1)``: what the engine yields on a cluster of threads, by student."""
    import dataclasses

    from distributed import LocalCluster

    from autograder.build import lesson_named
    from autograder.exercises import find
    from autograder.grading import cluster
    from autograder.grading.pool import Settings, Task

    def run(answers, threads=1, **resources):
        monkeypatch.setattr(cluster, "Examiner", Stub)
        with_bonus = dataclasses.replace(find("basic_1"), bonus=object())
        monkeypatch.setattr(cluster, "of_lesson", lambda name: [with_bonus])
        Stub.answers, Stub.seen = answers, []
        tasks = []
        for student in answers:
            path = tmp_path / f"{student}.ipynb"
            path.write_text(f"the notebook of {student}")
            tasks.append(Task(student, path, "k"))
        options = {"processes": False, "dashboard_address": None, "resources": resources}
        with LocalCluster(n_workers=1, threads_per_worker=threads, **options) as made:
            found = cluster.examine_all(lesson_named(LESSON), tasks, Settings(scheduler=made.scheduler_address))
            return {task.student: result for task, result in found}

    yield run
    cluster._end_kept()


def test_only_what_a_machine_did_wrong_is_tried_again_and_then_said(engine):
    from autograder.errors import CourseError

    found = engine({"ann": "right", "bob": CourseError("The sandbox broke."), "cat": "wrong"})
    assert found["bob"] == "The sandbox broke."
    assert Stub.seen.count("bob") == 3
    assert Stub.seen.count("ann") == Stub.seen.count("cat") == 1
    assert found["ann"]["problem"] == "the notebook of ann"


def test_a_gpu_is_held_only_for_the_race_of_right_answers(engine):
    found = engine({"ann": "right", "cat": "wrong"}, GPU=1)
    assert [name for name in Stub.seen if name.startswith("race")] == ["race of ann"]
    assert found["ann"]["rulings"][0]["sentence"] == "2.00 times the speed"
    assert found["cat"]["rulings"][0]["sentence"] == ""


def test_without_a_gpu_nothing_waits_for_one(engine):
    found = engine({"ann": "right"})
    assert Stub.seen == ["ann"]
    assert found["ann"]["rulings"][0]["passed"]


def test_a_worker_that_would_grade_two_at_once_is_refused(engine):
    assert engine({"ann": "right"}, threads=2)["ann"].startswith("A worker grades one submission at a time")


def test_a_worker_with_another_version_of_the_course_is_refused(engine, monkeypatch):
    from autograder.grading import cluster

    stamps = iter(["the client's", *["the worker's"] * 5])
    monkeypatch.setattr(cluster, "stamp_of", lambda _: next(stamps))
    assert "has another version of the course" in engine({"ann": "right"})["ann"]


def test_a_file_of_batch_jobs_starts_workers_through_dask_jobqueue(tmp_path, monkeypatch):
    """Its local kind runs a job's script as Slurm would, on this machine."""
    dask_jobqueue = pytest.importorskip("dask_jobqueue")
    local = pytest.importorskip("dask_jobqueue.local")
    monkeypatch.setattr(dask_jobqueue, "LocalCluster", local.LocalCluster, raising=False)
    from autograder.errors import CourseError
    from autograder.grading import cluster

    file = tmp_path / "jobs.yaml"
    file.write_text(f"system: Local\njobs: 1\nmemory: 1GB\nlocal_directory: {tmp_path}\n")
    with cluster._cluster(str(file)) as client:
        client.wait_for_workers(1, timeout=200)
        assert list(client.nthreads().values()) == [1]
        assert client.submit(os.getpid).result() != os.getpid()
    file.write_text("jobs: 3\n")
    with pytest.raises(CourseError, match="Begin it with: system: SLURM"):
        cluster._cluster(str(file))
    file.write_text("system: Abacus\n")
    with pytest.raises(CourseError, match='knows no batch system "Abacus"'):
        cluster._cluster(str(file))
