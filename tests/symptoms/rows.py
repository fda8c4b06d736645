"""The rows of the table of symptoms that a test reproduces, and which torch runs it."""

from collections.abc import Callable
from typing import Any

import torch

TORCH = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
"""``(2, 13)``."""

ROWS = {
    "1": "a branch on a tensor's value",
    "2": ".item() breaks the graph",
    "3": "fullgraph=True accepts .item()",
    "4": ".tolist()",
    "5": "a break inside for, with or try: everything runs as plain Python",
    "6": "a break in a function that is called splits the caller too",
    "7": "print, logger.info, warnings.warn",
    "8": "torch.compiler.disable under fullgraph=True",
    "9": "another method than forward was called",
    "10": "module.compile() on a module of torch's own",
    "11": "a custom operator without a shape rule",
    "14": "torch.cond: a branch returns its input",
    "15": "torch.cond: a branch changes its input",
    "16": "torch.cond: branches differ in dtype",
    "17": "torch.cond: branches differ in shape",
    "18": "torch.cond: branches differ in the number of outputs",
    "19": "torch.cond: branches differ in requires_grad",
    "20": "torch.cond: a predicate of several elements",
    "23": "the recompile limit",
    "24": "each new batch size recompiles",
    "25": "a batch of 1 or 0 recompiles although sizes are dynamic",
    "26": "ConstraintViolationError: a size that must be dynamic was specialized",
    "27": "a step counter in a module",
    "28": "a learning rate that changes",
    "29": "a string, a growing list, a global number",
    "30": "a layer's own number makes equal layers different",
    "32": "production must never recompile",
    "35": "the first call holds the compile",
    "40": "numbers differ from eager: bf16, dropout",
    "41": "_orig_mod. in checkpoints",
    "43a": "DDP with activation checkpointing",
    "43b": "compile before or after DDP",
    "43c": "FSDP2, each block compiled",
    "43d": "ranks that compile different things",
    "43e": "compiling in threads",
    "43f": "a second process is cold again",
    "43g": "no C++ compiler",
}
"""Row to what happens, for each symptom that needs no GPU."""


def row(*numbers: str) -> Callable[[Any], Any]:
    """Say which rows of the table a test reproduces."""

    def mark(test: Any) -> Any:
        test.rows = tuple(ROWS[number] and number for number in numbers)
        return test

    return mark
