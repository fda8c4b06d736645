"""A trace written elsewhere: golden ones of each torch version, cut-off and damaged ones, several ranks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compilescope import Run, every_rank, from_trace
from compilescope.__main__ import main
from compilescope.reading.trace_file import TraceFile

TRACES = Path(__file__).parent / "traces"
VERSIONS = ("2.11.0", "2.13.0", "2.14.1", "2.15.0")
TWO_RANKS = TRACES / "2.13.0_two_ranks"


@pytest.fixture(params=VERSIONS, scope="module")
def run(request):
    return from_trace(TRACES / request.param)


def by_function(run, name):
    return [one for one in run.compiles if one.function.split(".")[-1] == name]


def test_the_origin_says_which_torch_wrote_the_trace_and_where(run):
    assert run.origin.kind == "trace"
    assert run.origin.torch.split("+")[0] in VERSIONS
    assert run.origin.python.startswith("3.11")
    assert run.origin.device == "CPU"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", run.origin.date)
    assert run.origin.rank is None


def test_graphs_breaks_and_recompiles_are_those_of_the_program(run):
    first, again = by_function(run, "price")
    assert not first.refusals
    assert again.refusals[0].expected == "4"
    assert again.refusals[0].actual == "6"
    assert again.refusals[0].compile_id == first.compile_id
    branch = run.breaks[0]
    assert (branch.gb, branch.source.line, branch.source.code) == ("GB0170", 13, "if y.sum() > 0:")
    assert branch.before == first.compile_id
    assert branch.after
    assert [node.target for node in first.graph("dynamo").calls()] == [
        "torch.sin", "operator.mul", "Tensor.sum", "operator.gt",
    ]  # fmt: skip


def test_a_dynamic_size_has_its_symbol_and_the_argument_it_comes_from(run):
    symbol = by_function(run, "price")[1].symbols[0]
    assert symbol.subject == "L['x'].size()[0]"
    assert symbol.hint == 6


def test_a_training_step_has_all_stages_kernels_and_saved_tensors(run):
    (layer,) = by_function(run, "forward") or by_function(run, "Layer")
    stages = {graph.stage for graph in layer.graphs}
    assert {"dynamo", "joint", "forward", "backward", "post_grad"} <= stages
    assert {code.which for code in layer.code} == {"forward", "backward"}
    assert sum(one.size_bytes for one in layer.saved) > 0
    forward = next(code for code in layer.code if code.which == "forward")
    assert any(kernel.language == "cpp" and kernel.nodes for kernel in forward.kernels)
    assert any(source.line == 31 for kernel in forward.kernels for source in kernel.sources)


def test_a_frame_left_to_python_is_reported_with_its_line(run):
    (skipped,) = [one for one in run.not_compiled if one.function == "in_a_loop"]
    assert skipped.source.line == 21
    assert skipped.remedy
    assert not by_function(run, "in_a_loop")


def test_phases_start_with_the_trace_and_lie_within_each_other(run):
    assert run.phases[0].start == 0
    assert {phase.depth for phase in run.phases} >= {0, 1, 2}
    assert all(phase.seconds >= 0 for phase in run.phases)


def test_where_the_source_is_not_on_this_machine_its_quoted_lines_are_shown_and_a_note_says_so(run):
    text = run.sources["/course/program.py"].splitlines()
    assert text[12] == "if y.sum() > 0:"
    assert any("program.py" in note for note in run.notes)


def test_what_no_trace_can_give_is_named_with_the_reason(run):
    assert {"calls", "not_fused"} <= run.missing.keys()
    assert not run.calls
    assert "kernel nodes of backward" in run.missing


def test_guards_name_the_whole_file(run):
    files = {guard.source.file for one in by_function(run, "price") for guard in one.guards if guard.source}
    assert "/course/program.py" in files


def test_a_trace_survives_json(run):
    assert Run.from_json(run.to_json()) == run


def test_the_same_facts_whether_the_folder_or_its_file_is_named():
    (file,) = (TRACES / "2.13.0").glob("*.log")
    assert from_trace(file) == Run.from_trace(TRACES / "2.13.0")


def test_each_rank_is_a_run_of_its_own_and_their_difference_is_said():
    first, second = every_rank(TWO_RANKS)
    assert (first.origin.rank, second.origin.rank) == (0, 1)
    assert (len(first.compiles), len(second.compiles)) == (1, 2)
    assert any("Ranks compiled different things" in note for note in first.notes)
    assert from_trace(TWO_RANKS, rank=1).compiles == second.compiles
    assert len(from_trace(TWO_RANKS).compiles) == 1


def test_a_rank_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="no trace of rank 7; its ranks are 0, 1"):
        from_trace(TWO_RANKS, rank=7)


def whole_text():
    (file,) = (TRACES / "2.13.0").glob("*.log")
    return file.read_bytes()


def written(folder, data):
    (folder / "dedicated_log_torch_trace_x.log").write_bytes(data)
    return folder


@pytest.mark.parametrize("share", [0.3, 0.55, 0.8])
def test_a_trace_cut_off_anywhere_gives_the_facts_up_to_there_and_says_so(tmp_path, share):
    data = whole_text()
    end = int(len(data) * share)
    while data[end - 1 : end] == b"\n":
        end += 1
    cut = from_trace(written(tmp_path, data[:end]))
    whole = from_trace(TRACES / "2.13.0")
    assert 0 < len(cut.compiles) <= len(whole.compiles)
    assert cut.compiles[0].graphs == whole.compiles[0].graphs
    assert any("cut off" in note for note in cut.notes)


def test_a_record_that_lost_a_line_is_left_out_and_the_others_are_read(tmp_path):
    lines = whole_text().split(b"\n")
    at = next(i for i, line in enumerate(lines) if b"dynamo_output_graph" in line)
    del lines[at + 3]
    run = from_trace(written(tmp_path, b"\n".join(lines)))
    whole = from_trace(TRACES / "2.13.0")
    assert run.compiles[0].graph("dynamo") is None
    assert run.compiles[1:] == whole.compiles[1:]
    assert any("1 of its records could not be read" in note for note in run.notes)


def test_foreign_lines_and_bytes_that_are_no_text_do_not_hide_the_facts(tmp_path):
    lines = whole_text().split(b"\n")
    heads = [i for i, line in enumerate(lines) if line.startswith(b"V1129")]
    lines.insert(heads[10], b"\xff\xfe a library wrote this\x00")
    lines[heads[20] + 1] = lines[heads[20] + 1][:60]
    run = from_trace(written(tmp_path, b"\n".join(lines)))
    assert len(run.compiles) == len(from_trace(TRACES / "2.13.0").compiles)
    assert any("belong to no record" in note for note in run.notes)


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02" * 1000, b"hello\n" * 50])
def test_a_file_that_is_no_trace_gives_no_facts_and_a_sentence(tmp_path, data):
    run = from_trace(written(tmp_path, data))
    assert not run.compiles
    assert any("no record" in note for note in run.notes)


def test_a_damaged_rank_does_not_hide_the_other(tmp_path):
    for file in TWO_RANKS.glob("*.log"):
        data = file.read_bytes()
        (tmp_path / file.name).write_bytes(data[:200] if "rank_0" in file.name else data)
    runs = every_rank(tmp_path)
    assert [len(run.compiles) for run in runs if run.origin.rank == 1] == [2]


@pytest.mark.parametrize("make", [False, True])
def test_a_folder_without_traces_is_refused_with_the_remedy(tmp_path, make):
    folder = tmp_path / "empty"
    if make:
        folder.mkdir()
    with pytest.raises(ValueError, match="TORCH_TRACE"):
        from_trace(folder)


def test_a_file_of_torchrun_with_the_rank_before_each_line_is_read(tmp_path):
    data = b"".join(
        b"[rank3]:" + line + b"\n" if line.startswith(b"V1129") else line + b"\n" for line in whole_text().split(b"\n")
    )
    assert len(from_trace(written(tmp_path, data)).compiles) == len(from_trace(TRACES / "2.13.0").compiles)


def test_the_command_writes_one_page_that_needs_no_network(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["trace", str(TRACES / "2.13.0"), "-o", str(page)]) == 0
    text = page.read_text()
    assert "if y.sum() &gt; 0:" in text or "if y.sum() > 0:" in text or "price" in text
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)
    assert str(page) in capsys.readouterr().out


def test_the_command_shows_every_rank_on_one_page(tmp_path):
    page = tmp_path / "page.html"
    assert main(["trace", str(TWO_RANKS), "-o", str(page)]) == 0
    only = tmp_path / "only.html"
    assert main(["trace", str(TWO_RANKS), "--rank", "0", "-o", str(only)]) == 0
    assert page.stat().st_size > only.stat().st_size


def test_the_command_says_in_one_sentence_what_is_wrong(tmp_path, capsys):
    assert main(["trace", str(tmp_path / "nowhere"), "-o", str(tmp_path / "page.html")]) == 1
    assert main(["trace", str(TWO_RANKS), "--rank", "9", "-o", str(tmp_path / "page.html")]) == 1
    first, second = capsys.readouterr().err.strip().splitlines()
    assert "There is no folder" in first
    assert "rank 9" in second


def test_every_text_of_the_golden_traces_bears_its_signature():
    for file in TRACES.glob("*/*.log"):
        trace = TraceFile(file)
        assert sum(1 for _ in trace.records()) > 10
        assert not trace.troubles()


PROGRAM = """
import sys, torch
from compilescope import observe
def price(x, n):
    y = torch.sin(x) * n
    if y.sum() > 0:
        y = y + 1
    return y
fn = torch.compile(price, backend="aot_eager")
with observe() as run:
    for size, n in ((4, 2), (5, 2), (5, 3)):
        fn(torch.ones(size, requires_grad=True), n).sum().backward()
open(sys.argv[1], "w").write(run.to_json())
"""


def test_a_trace_gives_what_observing_the_same_process_gives(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = {"TORCH_TRACE": str(tmp_path / "trace"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, program, tmp_path / "run.json"]
    subprocess.run(command, env=os.environ | settings, check=True, capture_output=True)
    seen = Run.from_json((tmp_path / "run.json").read_text())
    read = from_trace(tmp_path / "trace")
    assert [one.compile_id for one in read.compiles] == [one.compile_id for one in seen.compiles]
    for mine, its in zip(read.compiles, seen.compiles, strict=True):
        assert [(graph.stage, graph.text) for graph in mine.graphs] == [(g.stage, g.text) for g in its.graphs]
        assert [guard.expression for guard in mine.guards] == [guard.expression for guard in its.guards]
        assert [one.expression for one in mine.refusals] == [one.expression for one in its.refusals]
        assert (mine.symbols, mine.saved) == (its.symbols, its.saved)
    assert [(one.gb, one.source) for one in read.breaks] == [(one.gb, one.source) for one in seen.breaks]
    assert read.sources[str(program)] == PROGRAM
