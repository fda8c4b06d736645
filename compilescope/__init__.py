"""See what torch.compile did, as data and as pictures."""

from compilescope.asking import would_recompile
from compilescope.assembly import assemble
from compilescope.bytecode import bytecode
from compilescope.check_kernel import check_kernel
from compilescope.explorer import save_html, show
from compilescope.facts import Run
from compilescope.interpret import interpret
from compilescope.observe import observe
from compilescope.text import describe
from compilescope.trace import every_rank, from_trace
from compilescope.views import compare, compare_entries, guard_tree, kernel_bars, road, saved_bars, strips, timeline

__all__ = [
    "Run",
    "assemble",
    "bytecode",
    "check_kernel",
    "compare",
    "compare_entries",
    "describe",
    "every_rank",
    "from_trace",
    "guard_tree",
    "interpret",
    "kernel_bars",
    "observe",
    "road",
    "save_html",
    "saved_bars",
    "show",
    "strips",
    "timeline",
    "would_recompile",
]
