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
    cases, failed = graphs_of_lesson(lesson)
    assert cases, failed
    different = []
    for case in cases:
        on_gpu = real(case.on("cuda"))
        found = difference(on_gpu, pretended(case, target))
        function = case.name.split("/")[1]
        row = {"case": case.name, "gpu": gpu, "kernels": len(on_gpu.kernels), "difference": found}
        report.append(row | {"explained": EXPLAINED.get(function, "")})
        if found and function not in EXPLAINED:
            different.append((case.name, found))
    report.append({"case": lesson.stem, "cells without a notebook": failed})
    assert not different


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_graph_of_a_lesson_gets_code_for_a_pretended_gpu(lesson: Path):
    cases, failed = graphs_of_lesson(lesson)
    assert len(cases) >= 3, failed
    for case in cases:
        pretended(case, "h100")
