"""The graphs of the solved lessons: on a pretended GPU they get code, and on a real one the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cases_of_lessons import LESSONS, GraphCase, graphs_of_lesson
from test_pretended_equals_real import PRETENDED_FOR, difference
from triton_text import pretended_graph, real_graph

# Graphs whose code differs, by lesson and function, and why.
EXPLAINED: dict[str, str] = {}
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
    try:
        on_gpu, on_nothing = real_graph(case.captured), pretended_graph(case.captured, target)
        found, explained = difference(on_gpu, on_nothing), ""
        if found:
            with torch._inductor.config.patch(shape_padding=False):
                again = difference(real_graph(case.captured), pretended_graph(case.captured, target))
            explained = "" if again else PADDED
    except Exception as error:  # the other graphs are compared all the same
        return {"kernels": 0, "difference": ["", "", f"{type(error).__name__}: {error}"[:1000]], "explained": ""}
    return {"kernels": len(on_gpu.kernels), "difference": found, "explained": explained}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_graph_of_a_lesson_gets_code_for_a_pretended_gpu(lesson: Path):
    found = graphs_of_lesson(lesson)
    assert found.problems == []
    assert len(found.cases) >= 3 or lesson.stem in IN_OTHER_PROCESSES
    nothing = [case.name for case in found.cases if not pretended_graph(case.captured, "h100").modules]
    assert nothing == []
