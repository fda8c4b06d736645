"""What a clockwork GPU and a profile tell, and the pictures of times: each is read as text."""

import dataclasses
import random
import types

import pytest
import torch

from compilescope import recorded
from compilescope.clockwork import ClockworkGpu
from compilescope.facts import Origin, Run
from compilescope.facts_timing import Measurements, Span, Speed, Timing
from compilescope.lanes import record_spans, spans_of
from compilescope.views.lane_plot import describe_spans, lane_plot
from compilescope.views.time_plot import time_plot

ORIGIN = Origin("live", "CPU", "2.13.0")
PICTURE = 50_000


def three_kernels(gpu):
    x = gpu.buffer("x")
    for name in ("add", "relu", "mul"):
        x = gpu.launch(name, 30e-6, x)
    return x


def test_a_clockwork_launch_returns_at_once_and_synchronize_waits_for_the_last_kernel():
    gpu = ClockworkGpu(launch=5e-6)
    three_kernels(gpu)
    assert gpu.clock() == pytest.approx(15e-6)
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(5e-6 + 90e-6)
    assert gpu.busy == pytest.approx(90e-6)
    gpu.synchronize()
    assert gpu.clock() == max(span.end for span in gpu.spans if span.lane == "device")


def test_a_clockwork_device_waits_for_a_slow_host():
    gpu = ClockworkGpu(launch=50e-6)
    three_kernels(gpu)
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(3 * 50e-6 + 30e-6)


def test_a_clockwork_compile_costs_once_and_leaves_out_what_nobody_uses():
    gpu = ClockworkGpu()
    whole, dropped = (
        gpu.compiled(lambda: three_kernels(gpu), 1.0),
        gpu.compiled(lambda: three_kernels(gpu) and None, 1.0),
    )
    for _ in range(2):
        whole()
        dropped()
    assert [span.name for span in gpu.spans].count("compile") == 2
    assert [span.name for span in gpu.spans if span.lane == "device"] == ["add", "relu", "mul"] * 2
    assert [span.reads for span in gpu.spans if span.lane == "device"][:2] == [("x",), ("add(x)",)]


def event(name, start, end, device="CPU", annotation=False):
    times = types.SimpleNamespace(start=start, end=end)
    kind = f"DeviceType.{device}"
    return types.SimpleNamespace(name=name, time_range=times, device_type=kind, is_user_annotation=annotation)


def test_spans_of_a_profile_begin_at_the_first_launch_after_the_mark():
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float>>(int)"
    events = [
        event("cudaLaunchKernel", 1, 2),
        event("compilescope: observed", 10, 99),
        event("compilescope: observed", 12, 99, "CUDA", annotation=True),
        event("cudaLaunchKernel", 20, 25),
        event(add, 26, 60, "CUDA"),
        event("Memset (Device)", 27, 28, "CUDA"),
        event("aten::add", 15, 27),
        event("cudaDeviceSynchronize", 28, 61),
        event("cudaDeviceSynchronize", 80, 81),
    ]
    spans = spans_of(events)
    assert [(span.lane, span.name) for span in spans] == [("host", "launch"), ("device", "add"), ("host", "wait")]
    assert [span.start for span in spans] == pytest.approx([0, 6e-6, 8e-6])
    assert spans[1].seconds == pytest.approx(34e-6)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_spans_without_a_gpu_are_a_sentence():
    with pytest.raises(RuntimeError, match="every call is over when it returns"):
        record_spans(lambda: None)


def timing(name, median, samples=300):
    drawn = random.Random(1)
    return Timing(name, ORIGIN, tuple(median * drawn.lognormvariate(0, 0.1) for _ in range(samples)), (2.9, median))


def test_the_picture_of_times_says_both_medians_and_stays_small():
    view = time_plot(timing("eager", 98e-6), timing("compiled", 44e-6), timing("third", 1e-3))
    assert "eager 98 µs and compiled 4" in view.title
    assert "first call 2.90 s" in view.text
    assert ORIGIN.sentence() in view.text
    assert len(view.html) + len(view.text) < PICTURE


def test_the_picture_of_a_comparison_says_its_interval_or_why_there_is_none():
    ratios = tuple(2 + i / 100 for i in range(200))
    speed = Speed(timing("a", 2e-3), timing("b", 1e-3), ratios, (2.9, 3.1), verdict="faster")
    view = time_plot(speed)
    assert "b: 3.00 times as fast as a" in view.title
    assert "2.90 to 3.10" in view.text
    assert len(view.html) + len(view.text) < PICTURE
    refused = Speed(timing("a", 2e-3), timing("b", 1e-3), ratios, (0.5, 3), refusal="Too noisy to tell")
    assert time_plot(refused).title == "No answer"
    assert time_plot(dataclasses.replace(refused, verdict="faster")).title == "b: faster, no number"
    assert "Too noisy to tell" in time_plot(refused).text


def test_a_picture_of_something_else_is_refused_with_a_sentence():
    for wrong in ((), (1.5,), (timing("a", 1.0), "b")):
        with pytest.raises(TypeError, match="time_plot draws timings"):
            time_plot(*wrong)


def test_the_picture_of_lanes_is_the_same_each_time_and_names_where_it_is_from():
    gpu = ClockworkGpu()
    gpu.clock()
    three_kernels(gpu)
    gpu.synchronize()
    gpu.clock()
    views = [lane_plot({"eager": gpu.spans}, "clockwork") for _ in range(2)]
    assert views[0] == views[1]
    assert "clockwork" in views[0].text
    assert "clock: 95 µs" in views[0].text
    assert len(views[0].html) < PICTURE
    with pytest.raises(ValueError, match="no spans to draw"):
        lane_plot({"eager": ()}, "clockwork")


def test_one_launch_is_not_called_launches():
    spans = (Span("host", "launch", 0.0, 5e-6), Span("device", "fused", 5e-6, 30e-6))
    said = "1 launch, over on the host after 5 µs; 1 kernel, over on the device after 35 µs."
    assert describe_spans(spans) == said


def test_what_a_recipe_measures_is_recorded_as_from_the_gpu_that_measured_it(tmp_path, monkeypatch):
    recipe = tmp_path / "recipes" / "once.py"
    recipe.parent.mkdir()
    recipe.write_text("def measured(): ...\n")
    gpu = Origin("recorded", "NVIDIA H200", "2.11.0", date="2026-11-29")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(recorded, "_origin", lambda: gpu)
    monkeypatch.setattr(recorded, "_observed", lambda made: Run(gpu))
    monkeypatch.setattr(
        recorded.runpy,
        "run_path",
        lambda path: {"measured": lambda: {"numbers": {"bytes": 8.0}, "timings": {"copy": timing("copy", 1e-3)}}},
    )
    recorded.record(recipe, tmp_path)
    found = recorded.recorded_times("once", tmp_path)
    assert found.numbers == {"bytes": 8.0}
    assert found.origin == found.timings["copy"].origin == gpu
    assert recorded.stale(tmp_path) == []
    with pytest.raises(ValueError, match="no recording 'twice'"):
        recorded.recorded_times("twice", tmp_path)


def test_measurements_survive_json_to_five_digits():
    found = Measurements(
        ORIGIN,
        {"a": timing("a", 1e-3)},
        {"s": Speed(timing("a", 2e-3), timing("b", 1e-3), (2.0,), (1.9, 2.1), verdict="faster")},
        {"eager": (Span("host", "launch", 0.0, 5e-6),)},
        {"bytes": 67108864.0},
    )
    once = Measurements.from_dict(found.to_dict())
    assert once == Measurements.from_dict(once.to_dict())
    assert once.timings["a"].samples == pytest.approx(found.timings["a"].samples, rel=1e-4)
    moved = once.from_origin(Origin("recorded", "NVIDIA H200", "2.11.0", date="2026-11-29"))
    assert {one.origin.kind for one in (*moved.timings.values(), moved.speeds["s"].base)} == {"recorded"}
    with pytest.raises(ValueError, match="record them again"):
        Measurements.from_dict({"timings": 3})
