"""GPU tests: skipped without a GPU, or failed with ``--require-gpu``; what they found goes to ``$OUT``."""

import json
import os
from pathlib import Path

import pytest
import torch

NO_GPU = "No GPU here: that real and pretended Triton code are the same, and the facts of a live GPU, were not tested."


def pytest_addoption(parser):
    parser.addoption("--require-gpu", action="store_true", help="a missing GPU is a failure, not a skip")
    parser.addoption("--require-two-gpus", action="store_true", help="a missing second GPU is a failure, not a skip")
    parser.addoption("--shard", metavar="I/N", help="only every N-th test, from number I on; counted from 0")


def pytest_collection_modifyitems(config, items):
    if shard := config.getoption("--shard", default=None):
        first, step = map(int, shard.split("/"))
        items[:] = items[first::step]


@pytest.fixture
def gpu(request):
    """Name of the real GPU."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    if request.config.getoption("--require-gpu", default=False):
        pytest.fail(NO_GPU)
    return pytest.skip(NO_GPU)


@pytest.fixture
def two_gpus(request):
    """Name of the real GPUs, of which there are two or more."""
    if torch.cuda.device_count() > 1:
        return torch.cuda.get_device_name()
    sentence = f"{torch.cuda.device_count()} GPUs here: ranks over NCCL were not tested."
    return (pytest.fail if request.config.getoption("--require-two-gpus", default=False) else pytest.skip)(sentence)


class _Report(list):
    """Rows; each one is written at once, so that a run which is cut off leaves what it found."""

    def append(self, row):
        super().append(row)
        self.write()

    def write(self):
        if os.environ.get("OUT"):
            text = json.dumps({"torch": torch.__version__, "rows": self}, indent=1)
            Path(os.environ["OUT"], "gpu_report.json").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def report():
    """Rows that the tests add, written as ``gpu_report.json`` to ``$OUT``, where that is set."""
    return _Report()
