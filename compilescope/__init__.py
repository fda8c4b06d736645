"""See what torch.compile did, as data and as pictures."""

from compilescope.asking import would_recompile
from compilescope.explorer import save_html, show
from compilescope.facts import Run
from compilescope.observe import observe
from compilescope.text import describe
from compilescope.trace import every_rank, from_trace

__all__ = ["Run", "describe", "every_rank", "from_trace", "observe", "save_html", "show", "would_recompile"]
