"""All cases, in the order in which they are compared."""

import cases_that_compute
import cases_that_move
from case import CASES, Case

__all__ = ["CASES", "Case", "cases_that_compute", "cases_that_move"]
