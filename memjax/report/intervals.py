"""The mean of a few seeds, and the interval in which the mean of all seeds lies, by Student's t distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# The 97.5 % quantiles of Student's t for 1, 2, .. 30 degrees of freedom (Student, "The probable error of a mean",
# Biometrika 6, 1908; to three decimals, as tables print them).
_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def mean_and_half_width(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half the width of its 95 % interval, which takes the values for a normal distribution's.

    Args:
      values: one a seed, at least one. Beyond 31 the quantile of 31 serves: the interval is then a little too wide.

    Returns:
      The mean, and s t / sqrt(n) with s the standard deviation of the n values; None for one value alone.
    """
    mean = statistics.fmean(values)
    if len(values) == 1:
        return mean, None
    quantile = _QUANTILES[min(len(values) - 1, len(_QUANTILES)) - 1]
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))
