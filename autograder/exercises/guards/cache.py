"""guards_8: a key-value cache that does not grow."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exercise import Answer, Check, Draw, Exercise, KnownMistake, Values
from autograder.exercises.guards.served import always_compiled, compiles_at_most, not_outside, observed
from autograder.judging import beside, called, eager_operations, exact, same_numbers


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Any:
    """Attention of one `query` [width] over `keys` and `values` [tokens, width]; returns [width]."""
    return (keys @ query).softmax(0) @ values


def ask(draw: Draw) -> Values:
    """Queries, keys and values of a few tokens, fewer than the cache may hold."""
    width, tokens = draw.size(3, 8), draw.size(9, 14)
    return {
        "width": width,
        "longest": tokens + draw.size(1, 9),
        **{name: [draw.tensor(width) for _ in range(tokens)] for name in ("queries", "keys", "values")},
    }


def probe(answer: Answer, asked: Values) -> Values:
    """One call for each token but the last, in one run; the last one under the profiler."""
    torch.compiler.reset()
    tokens = list(zip(asked["queries"], asked["keys"], asked["values"], strict=True))
    with torch.no_grad(), beside(asked["keys"][0]):  # a cache is made from two numbers
        decode = called("make_decoder(longest, width)", answer.make_decoder, asked["longest"], asked["width"])
        found = observed("decode(q, k, v)", _copied(decode), tokens[:-1])
        found["outside"] = list(eager_operations(decode, *tokens[-1]))
    return found


def _copied(decode: Any) -> Any:
    """Results survive a decoder that hands out its own buffer."""
    if not callable(decode):
        return decode

    def call(*token: torch.Tensor) -> Any:
        out = decode(*token)
        return out.clone() if isinstance(out, torch.Tensor) else out

    return call


def judge(asked: Values, found: Values) -> str:
    """Attention over all tokens so far as in float64, and one compile."""
    keys, values = (exact(torch.stack(asked[name])) for name in ("keys", "values"))
    for number, got in enumerate(found["results"], 1):
        want = attend(exact(asked["queries"][number - 1]), keys[:number], values[:number])
        same_numbers(f"decode(q, k, v) for token {number}", got, want, torch.float32)
    calls = len(found["results"])
    always_compiled(found["run"], "decode(q, k, v)", calls)
    compiles_at_most(found["run"], "decode(q, k, v)", 1, calls)
    not_outside("decode(q, k, v)", found["outside"], attend, keys[0], keys, values)
    return f"{calls} tokens, 1 compile"


def _answer(attend_body: str, position: str = "torch.tensor(0)", advance: str = "position.add_(1)") -> str:
    return f"""import torch

def make_decoder(longest, width):
    keys, values = torch.zeros(longest, width), torch.zeros(longest, width)
    position = {position}

    @torch.compile(backend="aot_eager")
    def attend(q, k, v, position):
{attend_body}

    def decode(q, k, v):
        nonlocal position
        out = attend(q, k, v, position)
        {advance}
        return out
    return decode
"""


_BODY = """        keys.index_copy_(0, position[None], k[None])
        values.index_copy_(0, position[None], v[None])
        seen = torch.arange(longest, device=q.device) <= position
        return (keys @ q).masked_fill(~seen, -torch.inf).softmax(0) @ values"""

_GROWING = """import torch

def make_decoder(longest, width):
    keys, values = torch.zeros(0, width), torch.zeros(0, width)

    @torch.compile(backend="aot_eager"{options})
    def attend(q, keys, values):
        return (keys @ q).softmax(0) @ values

    def decode(q, k, v):
        nonlocal keys, values
        keys, values = torch.cat([keys, k[None]]), torch.cat([values, v[None]])
        return attend(q, keys, values)
    return decode
"""

EXERCISE = Exercise(
    name="guards_8",
    lesson="04_guards",
    points=3,
    asks_for=("make_decoder",),
    check=Check(ask, probe, judge),
    hints=(
        "Look at the last picture: which of its rows costs one compile?",
        "Make room for `longest` tokens at once, write each token to its place, and hide the places that are still "
        "empty. The place is a tensor.",
        "keys.index_copy_(0, position[None], k[None]), the same for values; "
        "seen = torch.arange(longest, device=q.device) <= position; "
        "masked_fill the scores with -torch.inf where not seen. After the call: position.add_(1).",
    ),
    known_mistakes=(
        KnownMistake(_GROWING.format(options=""), "compiled 2 times"),
        KnownMistake(_GROWING.format(options=", dynamic=False"), "size mismatch"),
        KnownMistake(  # the place is an int
            _answer(
                _BODY.replace("index_copy_(0, position[None], k[None])", "select(0, position).copy_(k)").replace(
                    "index_copy_(0, position[None], v[None])", "select(0, position).copy_(v)"
                ),
                "0",
                "position += 1",
            ),
            "position was",
        ),
        KnownMistake(
            _answer(_BODY.replace(".masked_fill(~seen, -torch.inf)", "")), "float64 result"
        ),  # empty places count
        KnownMistake(_answer(_BODY.replace("<= position", "< position")), "decode(q, k, v) for token 1"),
        KnownMistake(_answer(_BODY, advance="pass"), "for token 2"),  # always the first place
        KnownMistake(_answer(_BODY).replace('@torch.compile(backend="aot_eager")', "@torch.compiler.disable"), "calls"),
        KnownMistake(_answer(_BODY).replace('"aot_eager"', '"eager"'), "compiled nothing of it"),
        KnownMistake(  # a compiled call for show
            _GROWING.format(options="").replace(
                "return attend(q, keys, values)",
                "attend(q, torch.ones(3, width), torch.ones(3, width))\n        return (keys @ q).softmax(0) @ values",
            ),
            "outside its graph",
        ),
    ),
    alternatives=(
        _answer(_BODY),
        """import torch

class Cache(torch.nn.Module):
    def __init__(self, longest, width):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(longest, width))
        self.register_buffer("places", torch.arange(longest))
        self.register_buffer("next", torch.tensor(0))

    def forward(self, q, k, v):
        here = (self.places == self.next)[:, None]
        self.keys.copy_(torch.where(here, k, self.keys))
        self.values.copy_(torch.where(here, v, self.values))
        scores = torch.where(self.places <= self.next, self.keys @ q, float("-inf"))
        self.next += 1
        return scores.softmax(0) @ self.values

def make_decoder(longest, width):
    return torch.compile(Cache(longest, width), backend="aot_eager", fullgraph=True)
""",
        """import torch

def make_decoder(longest, width):
    # new tokens come in from the right; places without a token hold a score of minus infinity
    kept = torch.zeros(2, longest, width)
    empty = torch.full((longest,), -torch.inf)

    @torch.compile(backend="aot_eager", dynamic=False)
    def attend(q, k, v):
        kept.copy_(torch.cat([kept[:, 1:], torch.stack([k, v])[:, None]], dim=1))
        empty.copy_(torch.cat([empty[1:], empty.new_zeros(1)]))
        return (kept[0] @ q + empty).softmax(0) @ kept[1]

    return attend
""",
    ),
)
