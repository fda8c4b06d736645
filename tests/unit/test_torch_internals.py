"""The door to private torch: each function gives its fact here, and a name that is gone costs that fact only.

A failure says which function of `compilescope/torch_internals` to mend for this torch.
"""

import ast
import re
from pathlib import Path

import pytest
import torch

from compilescope.torch_internals import calls, entries, functions, live_nodes, records, registry, settings

X = torch.ones(4)
PRIVATE = re.compile(r"torch\._\w+|_torchdynamo|\b_orig_mod\b")
DOOR = Path(calls.__file__).parent


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def double(x, n=2):
    return x * n


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def test_each_door_function_says_what_it_leans_on_and_on_which_versions():
    silent = []
    for path in DOOR.glob("*.py"):
        if path.name.startswith(("pretend_", "interpret_", "assembl")):
            continue
        source = path.read_text()
        for part in ast.parse(source).body:
            if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                body = ast.get_source_segment(source, part)
                if PRIVATE.search(body) and "2.11 to 2.15" not in body:
                    silent.append(f"{path.name}: {part.name}")
    assert silent == []


def test_records_are_heard_until_stopped():
    heard = []
    stop = records.listen(lambda meta, payload: heard.append(meta))
    torch.compile(double, backend="eager")(X)
    stop()
    count = len(heard)
    assert any("dynamo_output_graph" in meta for meta in heard)
    torch.compile(double, backend="aot_eager")(X)
    assert len(heard) == count


def test_interned_strings_hold_this_file():
    stop = records.listen(lambda meta, payload: None)
    torch.compile(double, backend="eager")(X)
    stop()
    assert __file__ in records.interned_strings().values()


def test_live_nodes_know_stack_and_module():
    found = []

    def sink(meta, payload):
        if "dynamo_output_graph" in meta:
            found.extend(live_nodes.of_graphs_being_traced())

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Model()

        def forward(self, x):
            return self.inner(x)

    stop = records.listen(sink)
    torch.compile(Outer(), backend="eager")(X)
    stop()
    facts = next(facts for nodes in found for facts in nodes.values() if facts["module"])
    assert facts["module"].endswith("inner")
    assert "return x + 1" in facts["stack"]


def test_entries_give_verdicts_and_values():
    torch.compile(double, backend="eager")(X, 2)
    code, values = functions.code_and_locals(double, (X, 3), {})
    (verdict,) = entries.verdicts(code, values)
    assert verdict["accepts"] is False
    assert "n" in verdict["failed"][0]
    assert entries.value_of("L['n']", values, {}) == "3"
    assert entries.value_of("n", values, {}) == "3"
    assert entries.value_of("type(x)", values, {}) == "Tensor"
    assert entries.value_of("nowhere", values, {}) is None
    assert entries.value_of("__import__('os').getcwd()", values, {}) is None


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (double, "double"),
        (torch.compile(double), "double"),
        (Model(), "Model"),
        (torch.compile(Model()), "Model"),
        (torch.compile(torch.nn.Linear(2, 2)), "Linear"),
        (Model().forward, "Model.forward"),
        (torch.compiler.disable(double), "double"),
    ],
)
def test_a_function_is_called_by_its_own_name(fn, name):
    assert functions.readable_name(fn) == name


def test_what_is_compiled_and_what_is_disabled():
    module = Model()
    assert not functions.is_compiled(double)
    assert not functions.is_compiled(module)
    assert functions.is_compiled(torch.compile(double))
    assert functions.is_compiled(torch.compile(module))
    module.compile()
    assert functions.is_compiled(module)
    assert functions.is_disabled(torch.compiler.disable(double))
    assert not functions.is_compiled(torch.compiler.disable(double))


def test_the_limit_of_a_function_and_the_global_one():
    assert functions.recompile_limit(torch.compile(double)) == torch._dynamo.config.recompile_limit
    if torch.__version__ >= "2.12":
        assert functions.recompile_limit(torch.compile(double, recompile_limit=3)) == 3


def test_the_stance_is_told():
    assert functions.stance() == "default"
    with torch.compiler.set_stance("force_eager"):
        assert functions.stance() == "force_eager"


def test_settings_that_this_torch_lacks_are_reported_and_the_others_set(monkeypatch):
    import torch._inductor.config as config

    monkeypatch.setitem(settings._INDUCTOR, "trace.no_such_setting", 1)
    with settings.observing(bypass_caches=True) as missing:
        assert "trace.no_such_setting" in missing
        assert config.trace.provenance_tracking_level == 1
        assert config.fx_graph_cache is False


def test_a_break_without_a_number_finds_it_in_the_registry():
    assert registry.number_of("Data-dependent branching") == "GB0170"
    assert registry.number_of("no such break") is None


@pytest.mark.parametrize("module", ["_callback_from_stance", "_maybe_set_eval_frame"])
def test_a_missing_name_costs_the_calls_only(module, monkeypatch):
    from compilescope import observe

    monkeypatch.delattr(torch._dynamo.eval_frame, module)
    with calls.watching(_Deaf()) as missing:
        pass
    assert set(missing) == {"calls"}
    monkeypatch.undo()
    assert len(observe(torch.compile(double, backend="eager"), X).graphs) == 1


class _Deaf:
    """A watcher that hears nothing: every event raises, and the learner's code must not notice."""


def test_a_watcher_that_cannot_hear_harms_nobody():
    with calls.watching(_Deaf()):
        assert torch.equal(torch.compile(double, backend="eager")(X), X * 2)
