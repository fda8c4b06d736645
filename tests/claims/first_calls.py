"""What the claims of a lesson share: a first call and its facts."""

import pytest
import torch

from compilescope import observe


def first_call(fn, *args, **options):
    torch.compiler.reset()
    return observe(torch.compile(fn, backend="aot_eager", **options), *args)


def refused(fn, *args, error=Exception, **options):
    """The run of a compile that raises."""
    torch.compiler.reset()
    with observe() as run, pytest.raises(error):
        torch.compile(fn, backend="aot_eager", **options)(*args)
    return run


def targets(run, stage="dynamo"):
    return [node.target for _, node in run.walk_nodes(stage) if node.op == "call"]
