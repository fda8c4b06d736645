"""Widgets that ask Python again: change an argument, edit a line. Without a front end they print their text."""

from compilescope.widgets.edit_and_compare import break_it
from compilescope.widgets.mode_chooser import mode_chooser
from compilescope.widgets.recompile_probe import recompile_probe

__all__ = ["break_it", "mode_chooser", "recompile_probe"]
