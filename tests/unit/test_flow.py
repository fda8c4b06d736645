"""How many numbers each collective moved, from the flight recorder of a rank."""

import threading

import torch
import torch.distributed as dist

from compilescope import on_ranks
from compilescope.torch_internals.flow import FLIGHT_RECORDER


def moved(work):
    return [(one.name, one.elements) for one in on_ranks(work, world=1)[0].flow]


def ones(many):
    return torch.ones(many)


def test_each_collective_has_its_own_size_also_where_gloo_gives_two_kinds_one_name():
    def work():
        dist.reduce_scatter_tensor(ones(200), ones(200))
        dist.all_reduce(ones(7), async_op=True).wait()
        dist.all_reduce(torch.tensor(1.0))
        dist.barrier()
        dist.broadcast(torch.ones(3, 4), 0)
        dist.all_gather_into_tensor(ones(6), ones(6), group=dist.new_group([0]))
        dist.all_reduce(ones(9))

    sizes = [("reduce_scatter", 200), ("all_reduce", 7), ("all_reduce", 1), ("barrier", None), ("broadcast", 12)]
    assert [one for one in moved(work) if one[0] != "new_group"] == [*sizes, ("all_gather", 6), ("all_reduce", 9)]


def test_what_another_thread_moved_makes_sizes_unknown_and_not_wrong():
    def work():
        dist.all_reduce(ones(3))
        other = threading.Thread(target=lambda: dist.all_reduce(ones(1000)))
        other.start()
        other.join()
        dist.all_reduce(ones(5))
        dist.broadcast(ones(8), 0)

    assert moved(work) == [("all_reduce", None), ("all_reduce", None), ("broadcast", 8)]


def test_more_than_the_recorder_holds_makes_sizes_unknown():
    def work():
        for _ in range(int(FLIGHT_RECORDER["TORCH_FR_BUFFER_SIZE"]) + 1):
            dist.all_reduce(ones(3))

    assert set(moved(work)) == {("all_reduce", None)}
