"""The graphs of the solved lessons: on a pretended GPU they get code, and on a real one the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cases_of_lessons import LESSONS, graphs_of_lesson
from test_pretended_equals_real import PRETENDED_FOR, difference
from triton_text import pretended, real

# Graphs whose code differs, by function name, and why.
EXPLAINED: dict[str, str] = {}


@pytest.mark.gpu
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_graph_of_a_lesson_gets_the_real_source(lesson: Path, gpu: str, report: list[dict[str, object]]):
    target = PRETENDED_FOR.get(torch.cuda.get_device_capability())
    if target is None:
        pytest.skip(f"{gpu} is none of the pretended GPUs: the code of {lesson.stem} was not compared.")
    found = graphs_of_lesson(lesson)
    report.append({"lesson": lesson.stem, "exercises": found.exercises, "left out": found.left_out})
    different = []
    for case in found.cases:
        row: dict[str, object] = {"case": case.name, "gpu": gpu, "kernels": 0, "explained": ""}
        report.append(row)
        try:
            on_gpu = real(case.on("cuda"))
            row |= {"kernels": len(on_gpu.kernels), "difference": difference(on_gpu, pretended(case, target))}
        except Exception as error:  # the other graphs are compared all the same
            row["difference"] = ["", "", f"{type(error).__name__}: {str(error).strip()[:1000]}"]
        function = case.name.split("/")[1]
        row["explained"] = EXPLAINED.get(function, "")
        if row["difference"] and function not in EXPLAINED:
            different.append((case.name, row["difference"]))
    assert found.cases
    assert found.problems == []
    assert not different


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_graph_of_a_lesson_gets_code_for_a_pretended_gpu(lesson: Path):
    found = graphs_of_lesson(lesson)
    assert found.problems == []
    assert len(found.cases) >= 3
    for case in found.cases:
        assert pretended(case, "h100").modules, case.name
