import math

import pytest

from memjax.report.intervals import mean_and_half_width


# Quantiles as tables of Student's t print them.
@pytest.mark.parametrize(
    ('values', 'quantile'), [([1.0, 3.0], 12.706), ([1.0, 2.0, 3.0], 4.303), ([0, 1, 1, 2], 3.182)]
)
def test_a_mean_with_its_interval(values, quantile):
    count = len(values)
    mean, half_width = mean_and_half_width(values)
    assert mean == sum(values) / count
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    assert half_width == pytest.approx(quantile * spread / math.sqrt(count), rel=2e-4)


def test_equal_values_have_no_width():
    assert mean_and_half_width([0.5, 0.5]) == (0.5, 0.0)


def test_one_seed_has_no_interval():
    assert mean_and_half_width([1.25]) == (1.25, None)


def test_many_seeds_have_an_interval_that_is_not_too_narrow():
    mean, half_width = mean_and_half_width([0.0, 1.0] * 40)
    normal = 1.96 * math.sqrt(80 / 79 * 0.25 / 80)
    assert mean == 0.5
    assert normal < half_width < 1.05 * normal
