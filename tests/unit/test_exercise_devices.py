"""What an exercise asks with is on the draw's device, a GPU where there is one; a judge compares over devices."""

import pytest
import torch

from autograder.exercise import Draw, NotYet
from autograder.exercises import everything
from autograder.exercises.basic import apart
from autograder.exercises.breaks import custom
from autograder.judging import beside, exact, same_numbers

EXERCISES = {one.name: one for one in everything()}
STAY = {
    "basic_5": "the kernel to read is made for a pretended GPU, on the CPU; the tensors of the answer's kernel move",
    "timing_4": "its runs are made for a pretended GPU, on the CPU, and no tensor reaches an answer",
}
"""Exercises with tensors that are taken to the CPU while they are drawn, each with its reason."""


class Drawn(torch.Tensor):
    """A tensor that stands for one on a GPU: what is computed from it is there, too, until somebody takes it away."""

    taken: list[str] = []  # noqa: RUF012 - all of them share it

    def cpu(self, *args, **kwargs):
        self.taken.append("cpu")
        return self.as_subclass(torch.Tensor)

    def to(self, *args, **kwargs):
        if any(str(one) == "cpu" for one in (*args, *kwargs.values())):
            return self.cpu()
        return super().to(*args, **kwargs)


@pytest.fixture
def taken(monkeypatch):
    real = Draw.tensor

    def tensor(self, *shape, requires_grad=False, **options):
        return real(self, *shape, **options).as_subclass(Drawn).requires_grad_(requires_grad)

    monkeypatch.setattr(Draw, "tensor", tensor)
    monkeypatch.setattr(apart, "first_call", lambda *_: None)  # AOTAutograd takes no such tensor
    monkeypatch.setattr(Drawn, "taken", [])
    return Drawn.taken


def floating(values):
    """The tensors of real numbers anywhere in `values`."""
    if isinstance(values, torch.Tensor):
        return [values] if values.is_floating_point() else []
    inside = values.values() if isinstance(values, dict) else values if isinstance(values, (list, tuple)) else ()
    return [one for value in inside for one in floating(value)]


@pytest.mark.parametrize("name", EXERCISES)
def test_what_is_asked_is_on_the_device_of_the_draw(name, taken):
    asked = EXERCISES[name].check.ask(Draw(11))
    torch.compiler.reset()
    assert [one.shape for one in floating(asked) if not isinstance(one, Drawn)] == []
    assert bool(taken) == (name in STAY), "list it with its reason, or leave its tensors where they are drawn"


def test_what_an_answer_makes_without_a_device_is_made_beside_its_inputs():
    there = torch.empty(2, device="meta")
    with beside(there):
        assert torch.zeros(3).device == torch.tensor([1]).device == torch.arange(3).device == there.device
    assert torch.zeros(3).device.type == "cpu"


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.arange, torch.eye, torch.rand])
def test_compiled_code_makes_it_there_too_but_for_torch_2_11(make):
    torch.compiler.reset()
    there = torch.empty(2, device="meta")
    with beside(there):
        made = torch.compile(lambda x: make(3) + 1, backend="aot_eager")(there)
    forgets = torch.__version__.startswith("2.11.") and make not in (torch.zeros, torch.ones)
    assert made.device.type == ("cpu" if forgets else "meta")


def test_a_custom_operator_does_not_hear_of_it():
    @torch.library.custom_op("devices::three", mutates_args=())
    def three(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(3)

    with beside(torch.empty(2, device="meta")):
        assert three(torch.ones(2, device="cpu")).device.type == "cpu"


def test_references_are_computed_on_the_cpu_in_float64_and_without_a_history():
    x = torch.ones(3, requires_grad=True) * 2
    assert (exact(x).dtype, exact(x).device.type, exact(x).requires_grad) == (torch.float64, "cpu", False)
    same_numbers("f(x)", torch.full((3,), 2.0), exact(x))
    with pytest.raises(NotYet, match="float64 result"):
        same_numbers("f(x)", torch.full((3,), 2.1), exact(x))


class OnTheGpu(torch.Tensor):
    is_cuda = True


@pytest.mark.parametrize(
    ("one", "says"),
    [
        ({"error": "", "result": torch.tensor([1, 2]).as_subclass(OnTheGpu)}, "bonus: it takes CUDA tensors"),
        ({"error": "TypeError: no numpy", "result": None}, "bonus not yet: on CUDA tensors it raised TypeError"),
        ({"error": "", "result": torch.tensor([1, 2])}, "bonus not yet"),
        ({"error": "", "result": torch.tensor([1, 3]).as_subclass(OnTheGpu)}, "bonus not yet"),
        ({"error": "", "result": None}, "bonus not yet"),
    ],
)
def test_an_operator_on_a_gpu_is_worth_a_word_and_no_points(one, says):
    assert says in custom._on_the_gpu([one], [torch.tensor([1, 2])])
    assert custom._on_the_gpu([], [torch.tensor([1, 2])]) == ""
