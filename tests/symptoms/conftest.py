"""Each symptom starts with empty compiler caches and torch's own settings."""

import pytest
import torch


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()
