"""The graphs of the solved lessons: on a pretended GPU they get code, and on a real one the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cases_of_lessons import LESSONS, GraphCase, graphs_of_lesson
from test_pretended_equals_real import PRETENDED_FOR, difference
from triton_text import Written, pretended_graph, real_graph

# Graphs whose code differs, by lesson and function, and why.
EXPLAINED: dict[str, str] = {}
# Graphs that Inductor compiles for no device as they are written in the lesson: why, and what the error says.
REFUSED = {
    "graph_breaks/average_by_scan": (
        "scan needs capture_scalar_outputs: Inductor refuses it on the CPU as well",
        "DataDependentOutputException",
    ),
    "graph_breaks/signed": (
        "the fake of the lesson's custom op makes a CPU tensor: on a GPU it has to name x.device",
        r"two (different )?devices,? cuda:0",
    ),
}
if torch.__version__ < "2.12":
    REFUSED["regional/<lambda>"] = (
        "a float in a nested region, as the lesson shows: this torch refuses it on the CPU, too",
        "invoke_subgraph operands must be",
    )
# Graphs of which nothing is left for Inductor to write code for, and why.
EMPTY = {
    "timing/loop": "its results are dropped, and AOTAutograd drops all of it: that is what the lesson shows",
    "graph_breaks/checksum": "it hands its input on: what it computes is a library's, outside the graph",
}
IN_OTHER_PROCESSES = {"distributed": "its graphs are compiled by ranks, each a process of its own"}
PADDED = "a benchmark on the GPU decides whether a matrix product is padded; without padding the source is equal"


@pytest.mark.gpu
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_graph_of_a_lesson_gets_the_real_source(lesson: Path, gpu: str, report: list[dict[str, object]]):
    target = PRETENDED_FOR.get(torch.cuda.get_device_capability())
    if target is None:
        pytest.skip(f"{gpu} is none of the pretended GPUs: the code of {lesson.stem} was not compared.")
    found = graphs_of_lesson(lesson)
    report.append({"lesson": lesson.stem, "exercises": found.exercises, "problems": found.problems})
    for case in found.cases:
        row = {"case": case.name, "gpu": gpu, **compared(case, target)}
        row["explained"] = EXPLAINED.get(case.name.rpartition("/")[0], row["explained"])
        report.append(row)
    assert found.cases or lesson.stem in IN_OTHER_PROCESSES
    assert [row for row in report if row.get("difference") and not row["explained"]] == []


def compared(case: GraphCase, target: str) -> dict[str, object]:
    """Number of kernels, what differs, and where a benchmark decided, the explanation."""
    on_gpu, on_nothing = attempt(real_graph, case.captured), attempt(pretended_graph, case.captured, target)
    if isinstance(on_gpu, str) or isinstance(on_nothing, str):
        refused = [one if isinstance(one, str) else "compiled" for one in (on_gpu, on_nothing)]
        both = isinstance(on_gpu, str) and isinstance(on_nothing, str)
        explained = excuse(case.name, *refused) if both else ""
        return {"kernels": 0, "difference": ["", "", *refused], "explained": explained}
    found, explained = difference(on_gpu, on_nothing), ""
    if found:
        with torch._inductor.config.patch(shape_padding=False):
            again = difference(real_graph(case.captured), pretended_graph(case.captured, target))
        explained = "" if again else PADDED
    return {"kernels": len(on_gpu.kernels), "difference": found, "explained": explained}


def excuse(name: str, *errors: str) -> str:
    """Why the graph of that name is refused with these errors; empty if it must not be."""
    why, says = REFUSED.get(name.rpartition("/")[0], ("", ""))
    return why if all(re.search(says, one) for one in errors) else ""


def attempt(write: Callable[..., Written], *args: object) -> Written | str:
    """What was written, or the exception in words: the other graphs are compared all the same."""
    try:
        return write(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_graph_of_a_lesson_gets_code_for_a_pretended_gpu(lesson: Path):
    found = graphs_of_lesson(lesson)
    assert found.problems == []
    assert found.cases or lesson.stem in IN_OTHER_PROCESSES
    written = {case.name: attempt(pretended_graph, case.captured, "h100") for case in found.cases}
    refused = {name for name, one in written.items() if isinstance(one, str) and not excuse(name, one)}
    empty = {name for name, one in written.items() if isinstance(one, Written) and not one.modules}
    assert refused == set(), written
    assert {name for name in empty if name.rpartition("/")[0] not in EMPTY} == set(), written
    assert {
        name: one.for_the_cpu for name, one in written.items() if isinstance(one, Written) and one.for_the_cpu
    } == {}
