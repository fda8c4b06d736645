"""docs/clusters.md: what it says to type is run here, with a stand-in for what only a cluster has."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from classroom import ROOT

pytestmark = pytest.mark.usefixtures("dask")

PAGE = (ROOT / "docs" / "clusters.md").read_text()
SBATCH = """#!/bin/sh
for last; do :; done
echo "$@" >> sbatch.log
sh -c "$last" &
"""
"""Runs what it is told to wrap, once, where Slurm would run it on another machine."""


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def started(tmp_path):
    """``started(command)`` runs it in `tmp_path` with this Python's programs; all of it ends with the test."""
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DASK_DISTRIBUTED__DASHBOARD__LINK": "", "HOME": str(tmp_path)}
    groups = []

    def start(command):
        log = (tmp_path / "log").open("a")
        started_in = {"cwd": tmp_path, "env": environment, "start_new_session": True}
        groups.append(subprocess.Popen(command, stdout=log, stderr=log, **started_in))

    yield start
    for one in groups:
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def workers(client, number):
    """Threads and resources of each, when so many are there."""
    client.wait_for_workers(number, timeout=120)
    return [(one["nthreads"], one["resources"]) for one in client.scheduler_info(n_workers=-1)["workers"].values()]


def test_the_sbatch_lines_start_workers_of_one_submission_at_a_time_and_one_kind_has_a_gpu(tmp_path, started):
    from autograder.grading import cluster

    (text,) = [block for block in blocks("bash") if "sbatch" in block]
    *lines, grade = text.strip().splitlines()
    assert grade == "python -m autograder grade 01_basic_compile --scheduler dask.json"
    (tmp_path / "bin" / "sbatch").write_text(SBATCH)
    (tmp_path / "bin" / "sbatch").chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    started(["bash", "-c", "\n".join([*lines, "wait; sleep 600"])])
    with cluster._cluster(str(tmp_path / "dask.json")) as client:
        assert sorted(workers(client, 2), key=str) == [(1, {"GPU": 1.0}), (1, {})]
    assert (tmp_path / "sbatch.log").read_text().count("--mem=") == 2


def test_the_slurm_file_gives_jobs_of_one_submission_at_a_time():
    dask_jobqueue = pytest.importorskip("dask_jobqueue")
    (text,) = [block for block in blocks("yaml") if "SLURM" in block]
    options = yaml.safe_load(text)
    assert (options.pop("system"), options.pop("jobs")) == ("SLURM", 32)
    with dask_jobqueue.SLURMCluster(**options, scheduler_options={"dashboard_address": ":0"}) as cluster:
        script = cluster.job_script()
    assert "--nthreads 1" in script
    assert "--lifetime 110m" in script
    assert "#SBATCH -t 02:00:00" in script


def test_the_pods_of_the_kubernetes_file_find_each_other_and_take_one_submission_at_a_time(started):
    from autograder.grading import cluster

    objects = list(yaml.safe_load_all((ROOT / "docs" / "kubernetes.yaml").read_text()))
    kinds = {(one["kind"], one["metadata"]["name"]): one["spec"] for one in objects}
    pods = {name: spec["template"] for (kind, name), spec in kinds.items() if kind == "Deployment"}
    service = kinds["Service", "dask-scheduler"]
    assert service["selector"].items() <= pods["dask-scheduler"]["metadata"]["labels"].items()
    for name, pod in pods.items():
        assert kinds["Deployment", name]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    scheduler, worker = (pods[name]["spec"]["containers"][0]["command"] for name in ("dask-scheduler", "dask-worker"))
    assert str(service["ports"][0]["port"]) in scheduler
    assert "tcp://dask-scheduler:8786" in worker
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = str(one.getsockname()[1])
    started([*(port if part == "8786" else part for part in scheduler), "--host", "127.0.0.1", "--no-dashboard"])
    started([part.replace("dask-scheduler:8786", f"127.0.0.1:{port}") for part in worker])
    with cluster._cluster(f"tcp://127.0.0.1:{port}") as client:
        assert workers(client, 1) == [(1, {})]


def test_the_table_is_what_the_command_makes_of_the_kept_figures():
    from autograder.grading.plan import Figures, table

    figures = Figures.read(ROOT / "benchmarks" / "grading_figures.json")
    assert table(figures, 5000, 8, [2, 16, 64, 256]) in PAGE
