"""Observing changes nothing: settings, loggers, hooks, names of torch, other threads, and what a call costs later."""

import logging
import sys
import threading
import warnings

import pytest
import torch
import torch._dynamo.convert_frame
import torch._dynamo.eval_frame
import torch._functorch.config
import torch._inductor.config

from compilescope import observe

X = torch.ones(4)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def sine(x):
    return torch.sin(x) + 1


def state():
    """Everything of torch and Python that `observe` touches."""
    trace = logging.getLogger("torch.__trace")
    return {
        "inductor": torch._inductor.config.save_config_portable(),
        "functorch": torch._functorch.config.save_config_portable(),
        "dynamo": torch._dynamo.config.save_config_portable(),
        "compiler": torch.compiler.config.save_config_portable(),
        "trace": (list(trace.handlers), trace.level, trace.propagate, trace.disabled),
        "root": (list(logging.root.handlers), logging.root.level),
        "from stance": torch._dynamo.eval_frame._callback_from_stance,
        "set frame": torch._dynamo.eval_frame._maybe_set_eval_frame,
        "convert": torch._dynamo.convert_frame.CatchErrorsWrapper.__call__,
        "why": getattr(sys.modules.get("torch._inductor.scheduler"), "WhyNoFuse", object).__call__,
        "warnings": list(warnings.filters),
        "callback": torch._C._dynamo.eval_frame.get_eval_frame_callback(),
        "grad": torch.is_grad_enabled(),
        "stance": torch._dynamo.eval_frame._stance.stance,
    }


@pytest.fixture
def before():
    # What torch changes on its first compile is not ours. And torch 2.11 crashes, also unobserved, where the first
    # compile of the process is that of a thread which ends.
    torch.compile(sine, backend="aot_eager")(X)
    torch.compiler.reset()
    return state()


def test_after_an_observation_everything_is_as_before(before):
    observe(torch.compile(sine, backend="aot_eager"), X)
    assert state() == before


def test_after_an_exception_everything_is_as_before(before):
    compiled = torch.compile(lambda x: (x + 1, 1 // len(x))[0], backend="aot_eager")
    with pytest.raises(ZeroDivisionError), observe() as run:
        compiled(X), compiled(X[:0])
    assert state() == before
    assert len(run.graphs) == 1


def test_an_interrupt_comes_through_and_leaves_everything_as_before(before):
    with pytest.raises(KeyboardInterrupt), observe():
        raise KeyboardInterrupt
    assert state() == before


def test_an_inner_observation_sees_its_part_and_the_outer_one_sees_both(before):
    with observe() as outer:
        torch.compile(sine, backend="aot_eager")(X)
        with observe() as inner:
            torch.compile(torch.cos, backend="aot_eager")(X)
        torch.compile(lambda x: x * 3, backend="aot_eager")(X)
    assert len(inner.graphs) == 1
    assert len(outer.graphs) == 3
    assert [call.outcome for call in outer.calls] == ["first compile"] * 3
    assert state() == before


@pytest.mark.skipif(
    torch.__version__.startswith("2.11."),
    reason="torch 2.11 itself can crash when threads compile at once: observations in threads were not tested.",
)
def test_observations_in_threads_see_their_own_compiles_only(before):
    runs = {}
    ready = threading.Barrier(3)

    def work(number):
        scaled = {2: lambda x: x * 2, 3: lambda x: x * 3, 5: lambda x: x * 5}[number]
        with observe() as run:
            ready.wait(timeout=60)
            for _ in range(2):
                torch.compile(scaled, backend="eager")(X)
            ready.wait(timeout=60)
        runs[number] = run

    threads = [threading.Thread(target=work, args=(number,)) for number in (2, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: [call.outcome for call in run.calls] for number, run in runs.items()} == {
        2: ["first compile", "hit"],
        3: ["first compile", "hit"],
        5: ["first compile", "hit"],
    }
    assert [len(run.graphs) for run in runs.values()] == [1, 1, 1]
    assert state() == before


def test_a_thread_that_the_block_starts_is_seen(before):
    with observe() as run:
        thread = threading.Thread(target=lambda: torch.compile(sine, backend="eager")(X))
        thread.start()
        thread.join()
    assert [call.outcome for call in run.calls] == ["first compile"]
    assert len(run.graphs) == 1


def test_observations_that_end_in_the_order_they_began_leave_everything_as_before(before):
    first, second = observe(), observe()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch._inductor.config.fx_graph_cache is False
    second.__exit__(None, None, None)
    assert state() == before


def test_observations_that_overlap_in_threads_leave_everything_as_before(before):
    turn = [threading.Event() for _ in range(3)]

    def work():
        turn[0].wait(timeout=60)
        with observe():
            turn[1].set()
            turn[2].wait(timeout=60)

    thread = threading.Thread(target=work)
    thread.start()
    with observe():
        turn[0].set()
        turn[1].wait(timeout=60)
    turn[2].set()
    thread.join()
    assert state() == before


def settings():
    return {
        "provenance": torch._inductor.config.trace.provenance_tracking_level,
        "graph cache": torch._inductor.config.fx_graph_cache,
        "autograd cache": torch._functorch.config.enable_autograd_cache,
        "lazy backward": not torch._functorch.config.force_non_lazy_backward_lowering,
    }


def test_a_thread_that_the_block_starts_compiles_with_the_settings_of_the_observation(before):
    seen = {}

    def backend(gm, inputs):
        seen[threading.current_thread().name] = settings()
        return gm.forward

    def work():
        torch.compiler.reset()
        torch.compile(sine, backend=backend)(X)

    with observe():
        work()
        thread = threading.Thread(target=work, name="started inside")
        thread.start()
        thread.join()
    mine, inside = seen["MainThread"], seen["started inside"]
    assert mine == inside == {"provenance": 1, "graph cache": False, "autograd cache": False, "lazy backward": False}
    assert settings() != mine
    assert state() == before


def test_what_was_compiled_under_observation_is_not_compiled_again_outside():
    compiled = torch.compile(sine, backend="aot_eager")
    observe(compiled, X)
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(X)


def test_what_was_compiled_outside_is_not_compiled_again_under_observation():
    compiled = torch.compile(sine, backend="aot_eager")
    compiled(X)
    with torch.compiler.set_stance("fail_on_recompile"):
        run = observe(compiled, X)
    assert run.compiles == ()
    assert [call.outcome for call in run.calls] == ["hit"]


def test_nothing_is_printed(capfd):
    run = observe(torch.compile(sine, backend="aot_eager"), X)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")
    assert len(run.graphs) == 1


def test_the_root_logger_gets_no_record_of_ours():
    names = []

    class Told(logging.Handler):
        def emit(self, record):
            names.append(record.name)

    told = Told(logging.DEBUG)
    logging.root.addHandler(told)
    try:
        run = observe(torch.compile(sine, backend="eager"), X)
    finally:
        logging.root.removeHandler(told)
    assert "torch.__trace" not in names
    assert len(run.graphs) == 1


def test_a_reader_that_fails_leaves_the_call_alone_and_is_reported(monkeypatch):
    import compilescope.reading.build as build

    def broken(*_):
        raise RuntimeError("tomorrow's format")

    monkeypatch.setattr(build, "read_graph", broken)
    run = observe(torch.compile(sine, backend="eager"), X)
    assert torch.equal(run.result, sine(X))
    assert "tomorrow's format" in run.missing["dynamo_output_graph"]


def test_a_fact_that_cannot_be_put_together_costs_only_itself(monkeypatch):
    import compilescope.reading.build as build

    def broken(*_):
        raise RuntimeError("an odd stack")

    monkeypatch.setattr(build, "link_breaks", broken)
    run = observe(torch.compile(sine, backend="eager"), X)
    assert "an odd stack" in run.missing["breaks"]
    assert len(run.graphs) == 1
    assert [call.outcome for call in run.calls] == ["first compile"]


def test_a_hook_that_fails_leaves_the_call_alone_and_is_reported(monkeypatch):
    from compilescope.watching import Watch

    def broken(*_):
        raise RuntimeError("no such local")

    monkeypatch.setattr(Watch, "call_begins", broken)
    run = observe(torch.compile(sine, backend="eager"), X)
    assert torch.equal(run.result, sine(X))
    assert "no such local" in run.missing["call_begins"]
    assert len(run.graphs) == 1


def test_a_name_that_this_torch_lacks_is_a_missing_fact(monkeypatch):
    monkeypatch.delattr(torch._dynamo.eval_frame, "_callback_from_stance")
    import compilescope.torch_internals.calls as calls

    class Told:
        def frame_ends(self, *_):
            pass

    with calls.watching(Told()) as missing:
        pass
    assert "_callback_from_stance" in missing["calls"]


def test_another_guard_hook_is_put_back_and_still_asked():
    told = []

    def hook(hit):
        told.append(hit)
        return hit

    compiled = torch.compile(sine, backend="eager")
    compiled(X)
    torch._C._dynamo.eval_frame.set_guard_complete_hook(hook)
    try:
        observe(compiled, X)
        assert told == [True]
    finally:
        assert torch._C._dynamo.eval_frame.set_guard_complete_hook(None) is hook


def test_caches_is_one_of_two_words():
    with pytest.raises(ValueError, match="bypass"), observe(caches="off"):
        pass
