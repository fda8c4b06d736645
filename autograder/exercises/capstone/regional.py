"""capstone_2: one graph for all blocks, which differ in a number of their own."""

from __future__ import annotations

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, NotYet, Values
from autograder.exercises.capstone.planted import (
    START,
    blocks_outside,
    exact_scores,
    gpt_of,
    letters_drawn,
    same_keys,
    size_drawn,
)
from autograder.exercises.guards.served import refusal
from autograder.judging import beside, called, eager_operations, graphs_made, operations, really_compiled, same_numbers
from compilescope import observe

LABEL = "regional(model)"


def ask(draw: Draw) -> Values:
    """A model of four or five blocks that clips nothing, and three batches of one shape."""
    rows, length = draw.size(2, 5), draw.size(6, 12)
    return {
        **size_drawn(draw, depth=draw.size(4, 5)),
        "batches": [letters_drawn(draw, rows, length) for _ in range(3)],
    }


def probe(answer: Answer, asked: Values) -> Values:
    """A Run of each batch, the keys, and what a warm call runs outside compiled code."""
    batches = asked["batches"]
    model = gpt_of(asked, batches[0].device)
    torch.compiler.reset()
    with beside(batches[0]):
        fast = called(LABEL, answer.regional, model)
        fast = model if fast is None else fast
        with torch.no_grad():
            runs = [observe(fast, ids) for ids in batches]
            outside = list(eager_operations(fast, batches[0]))
    return {
        "runs": runs,
        "results": [run.result for run in runs],
        "outside": outside,
        "keys": list(fast.state_dict()),
    }


def judge(asked: Values, found: Values) -> str:
    """Numbers as in float64; one block is traced and all run compiled; later calls compile nothing; plain keys."""
    for number, (ids, got) in enumerate(zip(asked["batches"], found["results"], strict=True), 1):
        same_numbers(f"The model on batch {number}", got, exact_scores(asked, ids), torch.float32)
    same_keys(LABEL, found["keys"], asked)
    first = found["runs"][0]
    traced = sum(many for name, many in operations(first).items() if name.endswith("linear"))
    if len(first.graphs) > 1 and not first.breaks:
        many = f"made {len(first.graphs)} graphs for {asked['depth']} blocks"
        raise NotYet(LABEL, many, "they are to share one", f"The guard: {refusal(first, 0)}.")
    graphs_made(first, LABEL, 1)
    really_compiled(first, LABEL)
    if traced > 4:
        larger = f"traced {traced} linear layers in the first call"
        raise NotYet(LABEL, larger, "the 4 of one block are wanted", "Look at which module you compile.")
    for number, run in enumerate(found["runs"][1:], 2):
        if run.graphs:
            again = f"compiled again in call {number}"
            raise NotYet(LABEL, again, "one compile is wanted", f"The guard: {refusal(run, 0)}.")
    blocks_outside(LABEL, found["outside"])
    return f"1 graph of {traced} linear layers serves {asked['depth']} blocks"


_COMPILE = "block.compile(backend='aot_eager')"
_NUMBER = "block.number = torch.tensor(block.number)"


def _each(*lines: str, start: str = "") -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return START + start + "def regional(model):\n    for block in model.blocks:\n" + body + "    return model\n"


EXERCISE = Exercise(
    name="capstone_2",
    lesson="08_capstone",
    points=3,
    asks_for=("regional",),
    check=Check(ask, probe, judge),
    hints=(
        "Compile each block in place, call the model once, and read the guards of the second compile.",
        "An attribute that is a Python number is compiled in. A number in a tensor is no constant.",
        "For each block: block.number = torch.tensor(block.number), then "
        'block.compile(backend="aot_eager").',
    ),
    known_mistakes=(
        KnownMistake(_each(_COMPILE), "self.number"),  # as it was
        KnownMistake(  # a number in a string, or as a float, is a Python value, too
            _each("block.number = float(block.number)", _COMPILE), "they are to share one"
        ),
        KnownMistake(  # the whole model
            START + "def regional(model):\n    model.compile(backend='aot_eager')\n    return model\n",
            "linear layers in the first call",
        ),
        KnownMistake(  # wrapped
            START + "def regional(model):\n    for i, block in enumerate(model.blocks):\n"
            f"        {_NUMBER}\n        model.blocks[i] = torch.compile(block, backend='aot_eager')\n"
            "    return model\n",
            "_orig_mod",
        ),
        KnownMistake(  # a buffer that goes into the checkpoint
            _each("number = block.number", "del block.number", "block.register_buffer('number', torch.tensor(number))",
                  _COMPILE),
            "has the key blocks.0.number",
        ),
        KnownMistake(_each("block.number = 0", _COMPILE), "float64 result"),  # all alike
        KnownMistake(  # one block for show
            START + f"def regional(model):\n    block = model.blocks[0]\n    {_NUMBER}\n    {_COMPILE}\n"
            "    return model\n",
            "outside compiled code",
        ),
        KnownMistake(_each(_NUMBER, _COMPILE.replace("aot_eager", "eager")), "compiled nothing of it"),
        KnownMistake(_each(_NUMBER), "made 0 graphs"),
        KnownMistake(
            _each(_NUMBER, _COMPILE, "torch.compiler.set_stance('force_eager')"),
            "made 0 graphs",
        ),
    ),
    alternatives=(
        _each(_NUMBER, _COMPILE),
        _each(  # buffers that no checkpoint holds
            "number = block.number", "del block.number",
            "block.register_buffer('number', torch.tensor(float(number)), persistent=False)",
            "block.compile(backend='aot_eager', fullgraph=True)",
        ),
        START + """
class Shared(Block):
    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm_1(x)).unsqueeze(1).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, mask).squeeze(1)
        x = x + self.out(mixed) * self.part
        return x + self.down(F.gelu(self.up(self.norm_2(x))))

def regional(model):
    for block in model.blocks:
        block.__class__ = Shared
        block.part = torch.tensor(1 / (block.number + 1))
        block.forward = torch.compile(block.forward, backend='aot_eager')
    return model
""",
    ),
)  # fmt: skip
