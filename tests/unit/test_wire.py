"""What crosses between grader and answer: every dtype bit for bit, and one clear error for anything malformed."""

import json
import pickle
import struct

import pytest
import torch
from torch import nn

from autograder.wire import DTYPES, MAGIC, Limits, Opaque, WireError, decode, encode, plain
from compilescope.facts import Compile as CompileFact
from compilescope.facts import Graph, Node, Origin, Run


def crossed(values, **options):
    return decode(encode(values, **options))


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()


def message(head, body=b""):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<4sQ", MAGIC, len(text)) + text + body


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_a_tensor_of_each_dtype_crosses_bit_for_bit(name, shape):
    raw = torch.randint(0, 2 if name == "bool" else 256, (*shape, DTYPES[name].itemsize), dtype=torch.uint8)
    tensor = (
        raw.reshape(-1).view(DTYPES[name]).reshape(shape) if raw.numel() else torch.empty(shape, dtype=DTYPES[name])
    )
    got = crossed({"x": tensor})["x"]
    assert (got.dtype, got.shape, type(got)) == (tensor.dtype, tensor.shape, torch.Tensor)
    assert bits(got) == bits(tensor)


def test_nan_and_infinities_stay_in_tensors_and_numbers():
    values = [float("nan"), float("inf"), -float("inf"), -0.0]
    tensor, numbers = crossed([torch.tensor(values), values])
    assert bits(tensor) == bits(torch.tensor(values))
    assert repr(numbers) == repr(values)


def test_views_conjugates_and_gradients_cross_as_what_they_hold():
    base = torch.arange(12.0).reshape(3, 4)
    z = torch.tensor([1 + 2j, 3 - 1j])
    got = crossed(
        [base.T[1:], base[:, ::2], z.conj(), z.conj().imag, base.clone().requires_grad_(), nn.Parameter(base)]
    )
    for mine, its in zip(got, [base.T[1:], base[:, ::2], z.conj(), z.conj().imag, base, base], strict=True):
        assert torch.equal(mine, its)
    assert [one.requires_grad for one in got] == [False, False, False, False, True, True]
    assert type(got[-1]) is torch.Tensor


def test_numbers_texts_lists_and_dicts_keep_value_and_type():
    values = {"a": [None, True, 1, 1.0, -(2**70), "é\n\x00", "\ud800", [], {}], "tensor": {"dict": {"run": 0}}}
    assert repr(crossed(values)) == repr(values)


def test_what_comes_out_is_what_plain_gives():
    class Liar(str):
        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    class Odd(torch.Tensor):
        pass

    endless = []
    endless.append(endless)
    unsendable = {
        "module": nn.ReLU(),
        "set": {1},
        "by number": {1: 2},
        "big": 10**5000,
        "sparse": torch.eye(2).to_sparse(),
    }
    odd = torch.ones(2).as_subclass(Odd)
    values = {"tuple": (1, 2), "liar": Liar("no"), "odd": odd, "endless": endless, **unsendable}
    here, there = plain(values), crossed(values)
    assert torch.equal(here.pop("odd"), there.pop("odd"))
    assert here == there
    assert here["tuple"] == [1, 2]
    assert type(here["liar"]) is str
    assert here["endless"] == [Opaque("list")]
    assert here["module"] == Opaque("ReLU")
    assert [here[name].kind for name in ("set", "by number", "big", "sparse")] == ["set", "dict", "int", "Tensor"]


def test_a_run_crosses_as_its_facts_without_its_result():
    graph = Graph("dynamo", "0/0", (Node("sin", "call", "torch.sin", shape=("s0", 4), dtype="float32"),))
    run = Run(Origin("live", "CPU", "2.13.0"), compiles=(CompileFact("0/0", graphs=(graph,)),), result=object())
    assert crossed({"run": run})["run"] == run
    assert plain({"run": run})["run"].result is None


def test_strict_names_the_first_value_that_cannot_cross_and_where():
    with pytest.raises(WireError, match=r"values\['ways'\]\[1\] is a function"):
        encode({"ways": [1, test_nan_and_infinities_stay_in_tensors_and_numbers]}, strict=True)
    with pytest.raises(WireError, match="2 MB; at most 1 MB"):
        encode({"x": torch.zeros(500_000)}, limits=Limits(size=1_000_000))


ONE = {"dtype": "float32", "shape": [2], "device": "cpu", "grad": False, "size": 8}
HOSTILE = {
    "nothing": b"",
    "a pickle": pickle.dumps({"a": 1}),
    "another magic": b"XXXX" + bytes(8),
    "cut off": encode({"x": torch.ones(3)})[:-1],
    "too long": encode({"x": torch.ones(3)}) + b"x",
    "a length beyond the end": struct.pack("<4sQ", MAGIC, 2**63) + b"{}",
    "no JSON": message(b"{"),
    "no UTF-8": message(b'{"value": "\xff"}'),
    "a list as head": message([1]),
    "a head without tensors": message({"value": 1}),
    "tensors that are no list": message({"value": 1, "tensors": 3}),
    "an unknown kind": message({"value": {"pickle": "gASVAAAA"}, "tensors": []}),
    "two kinds at once": message({"value": {"dict": {}, "run": ""}, "tensors": []}),
    "no kind": message({"value": {}, "tensors": []}),
    "a dict that is none": message({"value": {"dict": 3}, "tensors": []}),
    "a tensor that is not there": message({"value": {"tensor": 0}, "tensors": []}),
    "a tensor from the end": message({"value": {"tensor": -1}, "tensors": [ONE]}, bytes(8)),
    "a tensor by name": message({"value": {"tensor": "0"}, "tensors": [ONE]}, bytes(8)),
    "an unknown dtype": message({"value": 0, "tensors": [{**ONE, "dtype": "object"}]}, bytes(8)),
    "a negative size": message({"value": 0, "tensors": [{**ONE, "shape": [-2], "size": -8}]}, bytes(8)),
    "two negative sizes": message({"value": 0, "tensors": [{**ONE, "shape": [-1, -2]}]}, bytes(8)),
    "more elements than bytes": message({"value": 0, "tensors": [{**ONE, "shape": [2**39]}]}, bytes(8)),
    "a bomb of zeros": message({"value": 0, "tensors": [{**ONE, "shape": [0, 2**62], "size": 0}]}),
    "a shape of floats": message({"value": 0, "tensors": [{**ONE, "shape": [2.0]}]}, bytes(8)),
    "very many dimensions": message({"value": 0, "tensors": [{**ONE, "shape": [1] * 5000, "size": 4}]}, bytes(4)),
    "a deep list": message(b'{"tensors": [], "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a list too deep for its judge": message({"value": json.loads("[" * 90 + "]" * 90), "tensors": []}),
    "very many values": message(b'{"tensors": [], "value": [' + b"1," * 600_000 + b"1]}"),
    "an endless number": message(b'{"tensors": [], "value": ' + b"9" * 10_000 + b"}"),
    "a run that is none": message({"value": {"run": '{"compiles": 3}'}, "tensors": []}),
    "a run with other types": message({"value": {"run": '{"origin": []}'}, "tensors": []}),
    "a run of a deep list": message({"value": {"run": "[" * 100_000}, "tensors": []}),
    "a run by number": message({"value": {"run": 4}, "tensors": []}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_malformed_bytes_get_one_clear_error(name):
    with pytest.raises(WireError) as caught:
        decode(HOSTILE[name])
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 200


def test_a_message_over_the_limit_is_refused_unread():
    with pytest.raises(WireError, match="at most 1 MB"):
        decode(encode({"x": torch.zeros(500_000)}), limits=Limits(size=1_000_000))


def test_bytes_that_are_no_bool_become_one():
    odd = message({"value": {"tensor": 0}, "tensors": [{**ONE, "dtype": "bool", "size": 2}]}, b"\x02\xff")
    assert bits(decode(odd)) == [1, 1]


def test_random_damage_to_a_message_raises_nothing_else():
    good = bytearray(encode({"x": torch.ones(3), "run": Run(Origin("live", "CPU", "2.13.0")), "n": [1.5, "a", None]}))
    generator = torch.Generator().manual_seed(0)
    for _ in range(2000):
        at, value = torch.randint(0, 2**31, (2,), generator=generator).tolist()
        bad = bytearray(good)
        bad[at % len(bad)] = value % 256
        try:
            decode(bytes(bad))
        except WireError:
            continue


def test_a_tensor_that_arrives_is_no_view():
    for sent in (torch.randn(3, 5), torch.ones(4, dtype=torch.bool), torch.empty(0)):
        assert decode(encode({"x": sent}))["x"]._base is None
