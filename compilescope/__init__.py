"""See what torch.compile did, as data and as pictures."""

from compilescope.asking import would_recompile
from compilescope.assembly import assemble
from compilescope.bytecode import bytecode
from compilescope.check_kernel import check_kernel
from compilescope.contract import contract, two_ranks
from compilescope.explorer import save_html, show
from compilescope.facts import Run
from compilescope.interpret import interpret
from compilescope.observe import observe
from compilescope.ranks import on_ranks
from compilescope.recorded_ranks import recorded_placements
from compilescope.replay import replayed
from compilescope.text import describe
from compilescope.timing import compare_speed, measure
from compilescope.torch_internals.modes import mode_options
from compilescope.trace import every_rank, from_trace
from compilescope.trials import try_modes
from compilescope.views import (
    autotuning,
    compare,
    compare_entries,
    contract_report,
    cuda_graphs,
    guard_tree,
    kernel_bars,
    lane_plot,
    mode_frontier,
    placement_bars,
    road,
    saved_bars,
    side_by_side,
    strips,
    time_plot,
    timeline,
)

__all__ = [
    "Run",
    "assemble",
    "autotuning",
    "bytecode",
    "check_kernel",
    "compare",
    "compare_entries",
    "compare_speed",
    "contract",
    "contract_report",
    "cuda_graphs",
    "describe",
    "every_rank",
    "from_trace",
    "guard_tree",
    "interpret",
    "kernel_bars",
    "lane_plot",
    "measure",
    "mode_frontier",
    "mode_options",
    "observe",
    "on_ranks",
    "placement_bars",
    "recorded_placements",
    "replayed",
    "road",
    "save_html",
    "saved_bars",
    "show",
    "side_by_side",
    "strips",
    "time_plot",
    "timeline",
    "try_modes",
    "two_ranks",
    "would_recompile",
]
