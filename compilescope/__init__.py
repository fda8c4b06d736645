"""See what torch.compile did, as data and as pictures."""

from compilescope.facts import Run
from compilescope.observe import observe

__all__ = ["Run", "observe"]
