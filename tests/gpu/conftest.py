"""GPU tests: skipped without a GPU, or failed with ``--require-gpu``; what they found goes to ``$OUT``."""

import json
import os
from pathlib import Path

import pytest
import torch

NO_GPU = "No GPU here: that real and pretended Triton code are the same, and the facts of a live GPU, were not tested."


def pytest_addoption(parser):
    parser.addoption("--require-gpu", action="store_true", help="a missing GPU is a failure, not a skip")


@pytest.fixture
def gpu(request):
    """Name of the real GPU."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    if request.config.getoption("--require-gpu", default=False):
        pytest.fail(NO_GPU)
    return pytest.skip(NO_GPU)


@pytest.fixture(scope="session")
def report():
    """Rows that the tests add; written as ``gpu_report.json`` to ``$OUT`` at the end, where that is set."""
    rows: list[dict[str, object]] = []
    yield rows
    if rows and os.environ.get("OUT"):
        text = json.dumps({"torch": torch.__version__, "rows": rows}, indent=1)
        Path(os.environ["OUT"], "gpu_report.json").write_text(text, encoding="utf-8")
