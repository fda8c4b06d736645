"""What a notebook sets for its whole process is put back before an answer of ours runs in it."""

import torch
import torch._dynamo.config
import torch._inductor.config

from compilescope.torch_internals.whole_process import settings_as_they_are


def set_everything():
    torch._dynamo.config.recompile_limit = 99
    torch._dynamo.config.reorderable_logging_functions.add(print)
    torch._inductor.config.trace.enabled = True
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("medium")
    torch.use_deterministic_algorithms(True)


def state():
    new = torch.empty(1)
    flags = torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
    compilers = torch._dynamo.config.recompile_limit, torch._inductor.config.trace.enabled
    printed = print in torch._dynamo.config.reorderable_logging_functions
    return new.dtype, new.device, flags, compilers, printed, torch.get_float32_matmul_precision()


def test_settings_of_a_process_are_put_back():
    before, put_back = state(), settings_as_they_are()
    try:
        set_everything()
        changed = sum(one != other for one, other in zip(before, state(), strict=True))
    finally:
        put_back()
    assert changed == len(before)
    assert state() == before
    put_back()
    assert state() == before
