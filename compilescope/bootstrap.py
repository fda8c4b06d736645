"""How sure a median is: a bootstrap confidence interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000


def median_interval(values: Sequence[float], confidence: float = 0.99, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval of the median of `values`; the same values give the same interval.

    Source: Efron, "Bootstrap methods: another look at the jackknife", 1979.
    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("There is nothing to take a median of: measure at least one pair.")
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(sample), (RESAMPLES, len(sample)))
    medians = np.median(sample[drawn], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(low), float(high)
