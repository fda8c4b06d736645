"""`on_ranks`: real ranks from here, their facts back, and nothing left behind whatever happens in them."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from compilescope import Run, observe, on_ranks, side_by_side
from compilescope.facts_ranks import Happening, PlacementTable, Rank, Ranks
from compilescope.ranks import NotSendableError, RankError, _template, end_ranks
from compilescope.ranks_send import from_plain, pack, to_plain
from compilescope.recorded_ranks import recorded_placements
from compilescope.torch_internals.ddp import cutting_at_buckets
from compilescope.views import placement_bars

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked: Linux and macOS only")
WIDTH = 520
"""A layer of it has more than 1 MiB, the least that fills a bucket of DDP."""


@pytest.fixture(scope="module", autouse=True)
def no_rank_stays():
    yield
    end_ranks()


def below_the_template():
    process = _template._process
    return [] if process is None or process.poll() is not None else psutil.Process(process.pid).children(recursive=True)


def is_open(port):
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def two_ddp_steps(cut):
    with cutting_at_buckets(cut):
        model = Net()
        model.compile(backend="aot_eager")
        wrapped = DistributedDataParallel(model, bucket_cap_mb=1)
        for _ in range(2):
            wrapped(torch.ones(2, WIDTH)).sum().backward()


def test_a_tensor_of_a_gpu_that_no_rank_sees_arrives_on_its_own_device(monkeypatch):
    layer, x = nn.Linear(3, 3), torch.arange(6.0).reshape(2, 3)
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")  # how a storage is packed

    def work():
        return {"device": layer(x).device.type, "x": x}

    for result in on_ranks(work).results:
        assert result["device"] == torch.get_default_device().type
        assert torch.equal(result["x"], x)


def test_each_rank_gives_its_result_what_it_printed_and_its_run(capsys):
    def work(factor):
        print("here")
        x = torch.full((3,), float(dist.get_rank() + 1))
        dist.all_reduce(x)
        torch.compile(lambda y: y.sin() * factor, backend="aot_eager")(x)
        return {"sum": x, "rank": dist.get_rank(), "nested": [1, ("two", None)]}

    ranks = on_ranks(work, 2)
    assert [one["rank"] for one in ranks.results] == [0, 1]
    assert all(torch.equal(one["sum"], torch.full((3,), 3.0)) for one in ranks.results)
    assert ranks.results[1]["nested"] == [1, ["two", None]]
    assert [len(run.graphs) for run in ranks.runs] == [1, 1]
    assert [run.origin.rank for run in ranks.runs] == [0, 1]
    assert ranks[1].printed == "here\n"
    assert "[rank 1] here" in capsys.readouterr().out
    assert below_the_template() == []


def test_ddps_all_reduces_run_between_the_graphs_that_its_buckets_cut_and_after_all_without_cuts():
    cut, whole = on_ranks(two_ddp_steps, True), on_ranks(two_ddp_steps, False)
    for ranks, pieces in ((cut, 3), (whole, 1)):
        assert [one.pieces for one in ranks] == [pieces, pieces]
        step = [one for one in ranks[0].last_step() if one.kind == "forward"]
        assert [one.part for one in step] == list(range(pieces))
    kinds = [one.kind for one in cut[1].last_step()]
    assert "collective" in kinds[: len(kinds) - kinds[::-1].index("backward")], "an all_reduce before the last backward"
    kinds = [one.kind for one in whole[1].last_step()]
    assert kinds[: kinds.index("collective")] == ["forward", "backward"]
    text = side_by_side({"cut": cut, "whole": whole}).text
    assert "cut, backward: graph 0/0, part 3 of 3 → all_reduce" in text
    assert "graphs for the backend: 3 | 1" in text


def test_a_collective_in_a_graph_is_told_as_one_inside():
    def work():
        def reduced(x):
            dist.all_reduce(x)
            return x + 1

        torch.compile(reduced, backend="aot_eager", fullgraph=True)(torch.ones(2))

    rank = on_ranks(work)[1]
    assert [node.target for node in rank.collectives_in_graphs()] == ["_c10d_functional.all_reduce"]
    assert [one.inside for one in rank.flow if one.kind == "collective"] == [True]


def test_a_rank_that_raises_is_named_with_its_line_and_takes_the_others_along():
    def work():
        if dist.get_rank() == 1:
            raise ValueError("not with me")
        dist.barrier()

    with pytest.raises(RankError, match="Rank 1 raised ValueError: not with me") as caught:
        on_ranks(work)
    assert (caught.value.rank, caught.value.kind, caught.value.reason) == (1, "ValueError", "raised")
    assert 'raise ValueError("not with me")' in caught.value.steps[-1][3]
    assert below_the_template() == []


@pytest.mark.parametrize(("how", "said"), [("exit", "exit code 7"), ("kill", "SIGKILL")])
def test_a_rank_that_dies_is_named_with_how(how, said):
    def work():
        if dist.get_rank() == 0:
            os._exit(7) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    with pytest.raises(RankError, match=f"Rank 0 died.*{said}"):
        on_ranks(work)
    assert below_the_template() == []


def test_ranks_that_wait_for_each_other_are_ended_and_say_where_they_are():
    def work():
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(1))

    with pytest.raises(RankError) as caught:
        on_ranks(work, patience=2)
    assert caught.value.reason == "stuck"
    assert "dist.all_reduce(torch.ones(1))" in caught.value.details[0]
    assert "done" in caught.value.details[1]
    assert below_the_template() == []


def test_what_computes_for_ever_ends_at_its_limit():
    def work():
        while True:
            pass

    with pytest.raises(RankError) as caught:
        on_ranks(work, limit=6)
    assert caught.value.reason == "late"
    assert "in work" in caught.value.details[0]


def test_an_interrupt_ends_the_ranks_and_the_next_call_works():
    def work():
        time.sleep(60)

    on_ranks(dist.get_rank)  # so that the interrupt meets ranks, not the start of Python
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            on_ranks(work, patience=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert below_the_template() == []
    assert on_ranks(dist.get_rank).results == (0, 1)


def test_a_notebook_that_is_killed_leaves_no_process(tmp_path):
    pids = tmp_path / "pids"
    program = textwrap.dedent(f"""
        import os, time
        from compilescope import on_ranks
        def work():
            with open({str(pids)!r}, "a") as file:
                print(os.getpid(), os.getppid(), file=file)
            time.sleep(100)
        on_ranks(work, patience=100)
    """)
    here = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    notebook = subprocess.Popen([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": here})
    until = time.monotonic() + 90
    while time.monotonic() < until and (not pids.exists() or len(pids.read_text().splitlines()) < 2):
        time.sleep(0.1)
    started = {int(pid) for pid in pids.read_text().split()}
    started |= {child.pid for child in psutil.Process(notebook.pid).children(recursive=True)}
    notebook.kill()
    notebook.wait()
    while time.monotonic() < until and any(map(psutil.pid_exists, started)):
        time.sleep(0.1)
    assert len(started) >= 4, "two ranks, their launcher, and the process they come from"
    assert not [pid for pid in started if psutil.pid_exists(pid)]


def test_starts_and_kills_leave_no_process_and_no_open_port(tmp_path):
    def work(folder, way):
        Path(folder, "port").write_text(os.environ["MASTER_PORT"])
        if way == "raise" and dist.get_rank() == 1:
            raise RuntimeError("on purpose")
        if way == "die" and dist.get_rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    for way in ("end", "raise", "die"):
        with contextlib.suppress(RankError):
            on_ranks(work, str(tmp_path), way)
        assert below_the_template() == []
        assert not is_open(int((tmp_path / "port").read_text()))
    process = _template._process
    end_ranks()
    assert process.poll() is not None


def test_what_cannot_be_sent_is_named_with_a_remedy():
    lock, compiled, model = threading.Lock(), torch.compile(torch.sin), Net()
    model.compile(backend="aot_eager")

    def with_lock():
        return lock

    def outer():
        return with_lock()

    for fn, named in (
        (with_lock, "lock is a lock"),
        (outer, "lock is a lock"),
        (lambda: compiled(torch.ones(1)), "compile inside"),
        (lambda: model, "compile inside"),
    ):
        with pytest.raises(NotSendableError, match=named):
            pack(fn, ())
    with pytest.raises(NotSendableError, match="argument 1 is a lock"):
        pack(print, (lock,))


def test_modules_of_torch_and_disabled_functions_go_along():
    config = torch._dynamo.config

    @torch.compiler.disable
    def plain(x):
        return x.sin()

    def work():
        with config.patch(suppress_errors=True):
            run = observe(torch.compile(lambda x: plain(x) + 1, backend="aot_eager"), torch.ones(2))
        return [len(run.breaks), run.result]

    breaks, result = on_ranks(work, fake=True).results[0]
    assert breaks == 1
    assert torch.equal(result, torch.ones(2).sin() + 1)


def test_what_comes_back_is_plain_values_tensors_and_runs_or_a_sentence():
    run = Run.from_json('{"origin":{"kind":"live","device":"CPU","torch":"2"}}')
    values = {"a": [1, 2.5, None, "text", True], "version": torch.__version__, "run": run, 3: torch.ones(2)}
    back = from_plain(to_plain(values))
    assert back["run"] == run
    assert back["a"] == values["a"]
    assert torch.equal(back[3], torch.ones(2))
    assert type(back["version"]) is str
    with pytest.raises(NotSendableError, match="returned a Net"):
        to_plain([Net()])


@pytest.mark.parametrize(
    ("call", "error"),
    [(lambda: on_ranks(3), "wants a function"), (lambda: on_ranks(print, world=0), "1 to 16")],
)
def test_a_wrong_call_gets_a_sentence(call, error):
    with pytest.raises((TypeError, ValueError), match=error):
        call()


def test_a_fake_group_is_as_large_as_asked_and_runs_one_rank():
    ranks = on_ranks(lambda: [dist.get_rank(), dist.get_world_size()], world=64, fake=True)
    assert ranks.results == ([0, 64],)
    assert "moved nothing" in side_by_side(ranks).text


def hand_made(*flows):
    run = Run.from_json('{"origin":{"kind":"live","device":"CPU","torch":"2"}}')
    return Ranks("f", len(flows), "gloo", tuple(Rank(i, run, flow) for i, flow in enumerate(flows)))


def test_ranks_that_did_different_things_are_told_apart():
    forward, reduce = Happening("forward", "0/0"), Happening("collective", "all_reduce", elements=12_000)
    assert "all did the same" in side_by_side(hand_made((forward,), (forward,))).title
    view = side_by_side(hand_made((forward, reduce), (forward,)))
    assert "different things" in view.title
    assert "≠" in view.html
    assert "12k" in view.html


def test_the_last_step_begins_with_the_gathers_that_prepare_it():
    forward, backward = Happening("forward", "0/0"), Happening("backward", "0/0")
    gather, scatter = Happening("collective", "all_gather"), Happening("collective", "reduce_scatter")
    setup = Happening("collective", "broadcast")
    flow = (setup, gather, forward, gather, backward, scatter, gather, forward, gather, backward, scatter)
    assert hand_made(flow)[0].last_step() == flow[6:]


def test_ranks_come_back_from_json_and_nonsense_gets_a_sentence():
    ranks = hand_made((Happening("collective", "barrier", inside=True),))
    assert Ranks.from_json(ranks.to_json()) == ranks
    for wrong in (Ranks.from_json, PlacementTable.from_json):
        with pytest.raises(ValueError, match=r"no recorded ranks|no recording"):
            wrong("{}")


def test_side_by_side_of_something_else_gets_a_sentence():
    with pytest.raises(TypeError, match="wants what on_ranks gave"):
        side_by_side([1, 2])


def test_the_recorded_placements_are_drawn_with_their_origin():
    table = recorded_placements()
    view = placement_bars(table)
    assert "H200" in view.text
    assert all(row.placement in view.html.replace("&#x27;", "'") for row in table.rows)
    assert f"torch {table.torch}, {table.date}" in view.text


def test_the_recorded_placements_say_what_lesson_6_says_of_them():
    table = recorded_placements()
    assert table.faster_than_plain() == "neither"
    times = {row.placement: row.step_ms for row in table.rows if row.placement.startswith("DDP")}
    assert min(times, key=times.get) == "DDP, not compiled"
    assert sorted(times, key=times.get)[1] == "DDP, inside, optimize_ddp=False"
    assert min((r for r in table.rows if r.placement.startswith("FSDP2")), key=lambda r: r.step_ms).graphs == 0


def test_the_recorded_placements_are_those_of_the_recipe_as_it_is_now():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "assets" / "recorded" / "ranks" / "placements.json").read_text())
    assert stored["recipe"] == hashlib.sha256((root / "benchmarks" / "placements.py").read_bytes()).hexdigest()


FORKED = """
import json, os, signal
import torch
import torch.distributed as dist
from compilescope import on_ranks
from compilescope.ranks import _template, end_ranks, fork_rank_process

def total(x):
    y = torch.compile(lambda x: x * 2, backend="aot_eager")(x) * (dist.get_rank() + 1)
    dist.all_reduce(y)
    return y

def asked():
    found = on_ranks(total, torch.ones(2))
    return [[one.result.tolist(), len(one.run.graphs)] for one in found.ranks], type(_template._process).__name__

fork_rank_process()
said = [*asked(), *asked()]
os.kill(_template._process.pid, signal.SIGKILL)
os.waitpid(_template._process.pid, 0)
print(json.dumps([*said, *asked()]))
end_ranks()
"""


def test_ranks_come_from_a_fork_of_a_process_that_asked_for_one_and_else_from_a_python_of_their_own():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=200)
    right = [[[6.0, 6.0], 1]] * 2
    assert json.loads(done.stdout or "null") == [right, "Forked", right, "Forked", right, "Popen"], done.stderr[-2000:]
