"""Sets what torch lets everybody set, and goes elsewhere: honest, if untidy. Our own answers must not suffer from it.

exercise: basic_1
answer: right
gets: 2
"""
import os

import torch

torch.set_default_dtype(torch.float64)
torch.set_float32_matmul_precision("medium")
torch._dynamo.config.recompile_limit = 1
torch._dynamo.config.assume_static_by_default = False
torch._dynamo.config.capture_scalar_outputs = True
torch._inductor.config.max_autotune = True
torch.compiler.set_stance("eager_on_recompile")
os.environ["TORCH_COMPILE_DISABLE"] = "1"
os.chdir("/")
