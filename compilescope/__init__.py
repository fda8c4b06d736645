"""See what torch.compile did, as data and as pictures."""

from compilescope.explorer import save_html, show
from compilescope.facts import Run
from compilescope.observe import observe

__all__ = ["Run", "observe", "save_html", "show"]
