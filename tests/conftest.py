"""What the tests share: one compile cache, and torch as it was."""

import logging
import os
import sys
import tempfile
from pathlib import Path

import pytest

# One cache for all tests that do not measure cold starts: a first Inductor compile costs about 10 s, a warm one 1 s.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / "inside-torch-compile-tests"))


@pytest.fixture(autouse=True)
def torch_as_it_was():
    """What a program under test leaves on, a stance, a log level or gradients off, ends with its test."""
    levels = {name: logging.getLogger(name).level for name in list(logging.root.manager.loggerDict) if "torch" in name}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    if "torch" in sys.modules:
        import torch

        torch.compiler.set_stance("default")
        torch.set_grad_enabled(True)
