import math

import numpy as np
import pytest

from memjax.report.intervals import _QUANTILES, mean_and_half_width


def test_a_mean_with_its_interval():
    mean, half_width = mean_and_half_width([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half_width == pytest.approx(4.303 / math.sqrt(3))
    assert mean_and_half_width([0.5, 0.5]) == (0.5, 0.0)


def test_one_seed_has_no_interval():
    assert mean_and_half_width([1.25]) == (1.25, None)


def probability(quantile, degrees):
    """Of a value of Student's t within the quantile, by the integral of its density."""
    factor = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    t = np.linspace(-quantile, quantile, 20_001)
    return np.trapezoid(factor * (1 + t**2 / degrees) ** (-(degrees + 1) / 2), t)


def test_the_quantiles_are_students():
    assert len(_QUANTILES) == 30
    for degrees, quantile in enumerate(_QUANTILES, start=1):
        below, above = probability(quantile - 6e-4, degrees), probability(quantile + 6e-4, degrees)
        assert below < 0.95 < above


def test_many_seeds_have_an_interval_that_is_not_too_narrow():
    mean, half_width = mean_and_half_width([0.0, 1.0] * 40)
    normal = 1.96 * math.sqrt(80 / 79 * 0.25 / 80)
    assert mean == 0.5
    assert normal < half_width < 1.05 * normal
