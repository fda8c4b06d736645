"""Facts in, display out: one view a file, each with its text twin."""

from compilescope.views.autotuning import autotuning
from compilescope.views.call_strips import strips
from compilescope.views.call_timeline import timeline
from compilescope.views.comparison import compare
from compilescope.views.compile_road import road
from compilescope.views.contract import contract_report
from compilescope.views.cuda_graphs import cuda_graphs
from compilescope.views.depth_cost import depth_cost
from compilescope.views.display import Display
from compilescope.views.entry_difference import compare_entries
from compilescope.views.guard_tree import guard_tree
from compilescope.views.kernel_bars import kernel_bars
from compilescope.views.lane_plot import lane_plot
from compilescope.views.mode_frontier import mode_frontier
from compilescope.views.placement_bars import placement_bars
from compilescope.views.ranks import side_by_side
from compilescope.views.saved_bars import saved_bars
from compilescope.views.time_plot import time_plot

__all__ = [
    "Display",
    "autotuning",
    "compare",
    "compare_entries",
    "contract_report",
    "cuda_graphs",
    "depth_cost",
    "guard_tree",
    "kernel_bars",
    "lane_plot",
    "mode_frontier",
    "placement_bars",
    "road",
    "saved_bars",
    "side_by_side",
    "strips",
    "time_plot",
    "timeline",
]
