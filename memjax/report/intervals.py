"""The mean of a few seeds, and the interval in which the mean of all seeds lies, by Student's t distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scipy.special import stdtrit


def mean_and_half_width(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half the width of its 95 % interval, which takes the values for a normal distribution's.

    Args:
      values: one a seed, at least one.

    Returns:
      The mean, and s t / sqrt(n) with s the standard deviation of the n values; None for one value alone.
    """
    mean = statistics.fmean(values)
    if len(values) == 1:
        return mean, None
    quantile = float(stdtrit(len(values) - 1, 0.975))  # of Student's t
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))
