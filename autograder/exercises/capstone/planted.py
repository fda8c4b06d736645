"""The small GPT of lesson 8 as the lesson shows it, with every fault in it, and what the checks draw for it.

`tests/course/test_lesson_08.py` compares both classes with the lesson's, line by line.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's own documentation writes it
from torch import nn

from autograder.exercise import Draw, NotYet, Values

LETTERS = 12
"""Size of the alphabet in checks: numbers stand for letters there."""


class Block(nn.Module):
    """One residual block, [rows, length, width] → the same."""

    clips: torch.Tensor

    def __init__(self, width: int, number: int, limit: float | None) -> None:
        super().__init__()
        self.number, self.limit = number, limit
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("clips", torch.tensor(0), persistent=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Attention under `mask` [length, length], then two layers."""
        q, k, v = self.qkv(self.norm_1(x)).unsqueeze(1).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, mask).squeeze(1)) / (self.number + 1)
        return self.tame(x + self.down(F.gelu(self.up(self.norm_2(x)))))

    def tame(self, x: torch.Tensor) -> torch.Tensor:
        """`x` within the limit."""
        if self.limit and x.abs().max() > self.limit:
            print("clipped in block", self.number)
            self.clips += 1
            x = x.clamp(-self.limit, self.limit)
        return x


class GPT(nn.Module):
    """Numbers of letters [rows, length] → scores of the next letter [rows, length, letters]."""

    def __init__(
        self, letters: int, width: int = 32, depth: int = 3, longest: int = 64, limit: float | None = 30.0
    ) -> None:
        super().__init__()
        self.calls = 0
        self.masks: dict[int, torch.Tensor] = {}
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, number, limit) for number in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores at each place, from the letters up to there."""
        self.calls += 1
        length = ids.shape[1]
        if length not in self.masks:
            self.masks[length] = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        x = self.letters(ids) + self.places.weight[:length]
        for block in self.blocks:
            x = block(x, self.masks[length])
        scores: torch.Tensor = self.head(self.norm(x))
        return scores


def next_letter_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of [rows, length, letters] against [rows, length]."""
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def letters_drawn(draw: Draw, rows: int, length: int) -> torch.Tensor:
    """Numbers of letters [rows, length], on the draw's device."""
    return draw.tensor(rows, length).mul(1e4).long().remainder(LETTERS)


def stream_drawn(draw: Draw) -> list[torch.Tensor]:
    """Letters of seven lengths; the first two shapes differ in both sizes, so that both are opened."""
    lengths: list[int] = []
    for span in ((9, 13), (20, 30), *[(2, 60)] * 4, (58, 63)):
        while (length := draw.size(*span)) in lengths:
            pass  # a length met twice finds what was made for it: a cache of masks would not compile again
        lengths.append(length)
    rows = [draw.size(2, 4), draw.size(5, 7), *(draw.size(2, 8) for _ in range(5))]
    return [letters_drawn(draw, *shape) for shape in zip(rows, lengths, strict=True)]


def corners_drawn(draw: Draw) -> list[torch.Tensor]:
    """One row as long as a text may be, int64 [1, 64], and rows of one letter, int64 [3, 1]."""
    return [letters_drawn(draw, 1, 64), letters_drawn(draw, 3, 1)]


def plainly(model: Any, inputs: list[torch.Tensor]) -> list[Any]:
    """What a model, compiled or not, gives for each input when it is run as it is written."""
    with torch.compiler.set_stance("force_eager"), torch.no_grad():
        return [model(ids) for ids in inputs]


def size_drawn(draw: Draw, depth: int, limit: float | None = None) -> Values:
    """A model by its sizes and seed; no clipping unless `limit` says where."""
    return {"width": 4 * draw.size(2, 4), "depth": depth, "limit": limit, "seed": draw.size(0, 10**6)}


def gpt_of(asked: Values, device: torch.device | str = "cpu") -> Any:
    """The model that `size_drawn` describes: the same weights on each side, and on each device."""
    made: Any = _made(GPT, asked, "cpu")  # a GPU draws other numbers from a seed
    return made.to(device)


def answered_of(asked: Values, kind: Any, device: torch.device) -> Any:
    """What an answer's class `kind` gives for `gpt_of`, with its weights; tensors that it makes lie on `device`."""
    made = _made(kind, asked, device)
    if isinstance(made, nn.Module):
        mine = {name: value.shape for name, value in made.state_dict().items()}
        weights = gpt_of(asked).state_dict().items()
        made.load_state_dict({name: one for name, one in weights if mine.get(name) == one.shape}, strict=False)
        made.to(device)
    return made


def _made(kind: Any, asked: Values, device: torch.device | str) -> Any:
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(asked["seed"])
        return kind(LETTERS, width=asked["width"], depth=asked["depth"], limit=asked["limit"])


def cured_of(asked: Values, length: int, device: torch.device | str = "cpu") -> Any:
    """The same model without what compiles again: numbers in tensors, and the mask of one length made before."""
    model = gpt_of(asked, device)
    model(torch.zeros(1, length, dtype=torch.long, device=device))
    model.calls = torch.tensor(0, device=device)
    for block in model.blocks:
        block.number = torch.tensor(block.number, device=device)
    return model


def same_keys(label: str, keys: list[str], asked: Values) -> None:
    """NotYet unless `keys` are those of the plain model's checkpoint."""
    plain = list(gpt_of(asked).state_dict())
    for key in (*keys, *plain):
        if key not in plain:
            raise NotYet(label, f"has the key {key}", "the plain model's keys are wanted", "Look at state_dict().")
        if key not in keys:
            raise NotYet(label, f"has no key {key}", "the plain model's keys are wanted", "Look at state_dict().")


def exact_scores(asked: Values, ids: torch.Tensor) -> torch.Tensor:
    """What the model gives in float64, not compiled and on the CPU."""
    with torch.no_grad():
        exact: torch.Tensor = gpt_of(asked).double()(ids.cpu())
    return exact


def blocks_outside(label: str, outside: list[str]) -> None:
    """NotYet if a warm call runs a block's work outside compiled code: only the head's linear layer may stay there."""
    if outside.count("aten::linear") > 1 or "aten::gelu" in outside:
        ran = f"ran {outside.count('aten::linear')} linear layers outside compiled code"
        raise NotYet(label, ran, "each block belongs inside", "Look at which blocks you compile.")


START = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
START += "from autograder.exercises.capstone.planted import GPT, Block\n"
"""How known mistakes and other right answers begin."""
