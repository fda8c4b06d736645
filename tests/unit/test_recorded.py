"""Recordings from a real GPU: they load, they name their origin, and a changed recipe is found without a GPU."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from untested import skip

from compilescope.facts import Code, Compile, Graph, Kernel, Origin, Run, Source
from compilescope.recorded import (
    FOLDER,
    _clean,
    main,
    normalized,
    recipe_hash,
    recorded,
    recorded_modes,
    recorded_times,
    stale,
    unrecorded,
    with_times,
)


def _run() -> Run:
    source = Source("/home/somebody/course/lesson.py", 3, "f", "return x * 2")
    kernel = Kernel("triton_poi_fused_mul_0", "triton", source="# kernel path: /root/cache/ab/k.py", sources=(source,))
    text = "# see https://example.org/a/gb0059.html\n/root/cache/ab/k.py\ndef call(args): ...  # <Fn at 0x7f12ab34cd56>"
    code = Code("0/0", "inference", text, (kernel,), "cuda")
    compiled = Compile("0/0", "f", source.file, 1, graphs=(Graph("dynamo", "0/0", ()),), code=(code,))
    origin = Origin("recorded", "NVIDIA H200", "2.11.0", "3.6.0", "3.12", "2026-11-29", "580.65")
    return Run(origin, compiles=(compiled,))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "recipes").mkdir()
    recipe = tmp_path / "recipes" / "double.py"
    recipe.write_text("def model(x): return x * 2\n")
    stored = {"recipe": recipe_hash(recipe), "run": json.loads(_run().to_json())}
    (tmp_path / "double.json").write_text(json.dumps(stored))
    return tmp_path


def test_a_recording_is_a_run_that_says_where_it_is_from(folder):
    run = recorded("double", folder)
    assert run == _run()
    assert run.origin.sentence() == "recorded on NVIDIA H200, torch 2.11.0, 2026-11-29"


def test_a_recording_that_is_not_there_names_those_that_are(folder):
    with pytest.raises(ValueError, match=r"no recording 'treble' \(there is: double\)"):
        recorded("treble", folder)


def test_a_broken_file_says_what_to_do(folder):
    (folder / "double.json").write_text("{}")
    with pytest.raises(ValueError, match="write it again on a GPU"):
        recorded("double", folder)


def test_a_changed_recipe_makes_its_recording_stale(folder):
    assert stale(folder) == []
    recipe = folder / "recipes" / "double.py"
    recipe.write_text("def model(x): return x * 3\n")
    (sentence,) = stale(folder)
    assert "recipes/double.py changed after double.json was recorded" in sentence
    recipe.unlink()
    assert "has no recipe" in stale(folder)[0]


def test_line_endings_do_not_make_a_recording_stale(folder):
    (folder / "recipes" / "double.py").write_bytes(b"def model(x): return x * 2\r\n")
    assert stale(folder) == []


def test_no_recording_of_ours_is_stale():
    assert stale(FOLDER) == []


def test_each_recipe_of_ours_has_a_recording():
    missing = unrecorded(FOLDER)
    sentence = f"Never recorded on a GPU: {', '.join(missing)}. That views draw them was not tested."
    if missing:
        skip(sentence)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_each_recording_has_its_origin_and_times_and_no_folder_of_a_machine(path):
    held = set(json.loads(path.read_text())) - {"recipe"}
    assert held
    assert held <= set(READERS)
    for what in held:
        read, times = READERS[what]
        found = read(path.stem)
        origin = found.origin
        assert origin.kind == "recorded"
        assert all((origin.device, origin.driver, origin.torch, origin.triton, origin.date))
        assert any(times(found))
    assert not re.search(r"/(?:home|root|tmp|work)/", path.read_text())
    kept = {what: json.loads(path.read_text())[what] for what in held}
    assert _clean(kept) == kept


READERS = {
    "run": (recorded, lambda run: [kernel.time_us for kernel in run.kernels]),
    "modes": (recorded_modes, lambda table: [trial.steady_us for trial in table.trials]),
    "measurements": (recorded_times, lambda measured: [*measured.timings, *measured.speeds, *measured.spans]),
}
"""What a recording may hold: how it is read, and the times in it."""


def test_a_normalized_run_keeps_file_names_and_loses_folders_and_addresses():
    text = normalized(_run()).to_json()
    assert "lesson.py" in text
    assert "/home/somebody" not in text
    assert "/root/cache" not in text
    assert "https://example.org/a/gb0059.html" in text
    assert "7f12ab34cd56" not in text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("x  # ork/main/recipes/chain.py:22 in model\n", "x  # chain.py:22 in model\n"),
        ("___check_obj_id(G['torch'].relu, 140246520495568), type=", "___check_obj_id(G['torch'].relu, 0), type="),
        ("___check_type_id(d[(1, 2)], 943896), x_id(f, 943896)", "___check_type_id(d[(1, 2)], 0), x_id(f, 943896)"),
        ("x  # _dynamo/output_graph.py:964 in f", "x  # _dynamo/output_graph.py:964 in f"),
        ("G['__optimizer_139873914401872_139873866449760_c12']", "G['__optimizer_c12']"),
        ("(NULL + __compiled_fn_1_933409f7_872e_4040_a7af_b44b83f2f80c)", "(NULL + __compiled_fn_1)"),
        ("G['torch'], 3), a # b/c  # 3 / 4 in all", "G['torch'], 3), a # b/c  # 3 / 4 in all"),
        ("| +- x\nGuard latency = 62.24 us\n", "| +- x\n"),
    ],
)  # fmt: skip
def test_what_no_second_process_says_again_is_left_out(text, plain):
    assert _clean({text: [text]}) == {plain: [plain]}


def test_times_go_to_the_kernels_that_were_measured():
    run = with_times(_run(), {"triton_poi_fused_mul_0": 12.5, "other": 1.0})
    assert [kernel.time_us for kernel in run.kernels] == [12.5]


def test_recording_without_a_gpu_is_a_sentence(capsys, monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["relu_chain", "--out", str(tmp_path)]) == 1
    assert "There is no GPU here" in capsys.readouterr().err


def test_each_of_several_recipes_is_recorded_in_a_process_of_its_own(monkeypatch, tmp_path):
    ran = []

    def run(command, check):
        ran.append(command[3:])
        return subprocess.CompletedProcess(command, int("softmax_and_matmul" in command))

    monkeypatch.setattr(subprocess, "run", run)
    where = ["--out", str(tmp_path), "--seconds", "7.0"]
    assert main(["softmax_and_matmul", "relu_chain", *where]) == 1
    assert ran == [["relu_chain", *where], ["softmax_and_matmul", *where]]
