"""The distribution that is drawn from, and the draws."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.generation import drawing
from memjax.generation.drawing import Drawing, row_keys

PROBABILITIES = np.array([0.5, 0.25, 0.15, 0.07, 0.03])


def kept(**settings):
    logits = jnp.log(jnp.asarray(PROBABILITIES, jnp.float32))[None]
    filtered = np.asarray(jax.nn.softmax(Drawing(**settings).filter(logits)))[0]
    return filtered


def test_no_filter_leaves_the_distribution():
    np.testing.assert_allclose(kept(), PROBABILITIES, rtol=1e-5)
    np.testing.assert_allclose(kept(top_p=1.0, top_k=5), PROBABILITIES, rtol=1e-5)


def test_top_k_keeps_the_likeliest():
    np.testing.assert_allclose(kept(top_k=2), [2 / 3, 1 / 3, 0, 0, 0], rtol=1e-5)


@pytest.mark.parametrize(('top_p', 'count'), [(0.01, 1), (0.5, 1), (0.6, 2), (0.75, 2), (0.9, 3), (0.95, 4), (0.98, 5)])
def test_nucleus_is_the_smallest_set_with_the_mass(top_p, count):
    expected = np.where(np.arange(5) < count, PROBABILITIES, 0)
    # 0.5 and 0.75 are reached exactly; float32 sums of the logarithms may miss that by a rounding.
    np.testing.assert_allclose(kept(top_p=top_p - 1e-4), expected / expected.sum(), rtol=1e-5)


def test_nucleus_does_not_depend_on_the_order_of_tokens():
    order = np.array([3, 0, 4, 2, 1])
    logits = jnp.log(jnp.asarray(PROBABILITIES, jnp.float32))[None]
    direct = Drawing(top_p=0.8).filter(logits)[:, order]
    np.testing.assert_array_equal(direct, Drawing(top_p=0.8).filter(logits[:, order]))


def test_temperature_sharpens():
    np.testing.assert_allclose(kept(temperature=0.5), PROBABILITIES**2 / (PROBABILITIES**2).sum(), rtol=1e-5)


def test_a_large_vocabulary_is_filtered_alike(monkeypatch):
    logits = jnp.round(4 * jax.random.normal(jax.random.key(0), (3, 40))) / 2  # with ties
    compared = [Drawing(top_p=p, top_k=k).filter(logits) for p in (0.05, 0.5, 0.9) for k in (None, 20)]
    monkeypatch.setattr(drawing, '_COMPARED', 0)
    for each, (p, k) in zip(compared, itertools.product((0.05, 0.5, 0.9), (None, 20)), strict=True):
        np.testing.assert_array_equal(each, Drawing(top_p=p, top_k=k).filter(logits))


def test_a_rows_draws_are_of_the_seed_its_number_and_the_count_alone():
    logits = jnp.zeros((4, 1000))
    draw = Drawing(top_k=900).draw
    counts = jnp.array([0, 1, 2, 0])
    drawn = draw(row_keys(7, range(4)), counts, logits)
    assert len(set(np.asarray(drawn).tolist())) == 4
    np.testing.assert_array_equal(draw(row_keys(7, range(2, 4)), counts[2:], logits[2:]), drawn[2:])
    assert (draw(row_keys(8, range(4)), counts, logits) != drawn).any()
    np.testing.assert_array_equal(Drawing(top_k=1).draw(row_keys(0, range(5)), counts, jnp.eye(5)), range(5))


@pytest.mark.parametrize('wrong', [{'temperature': 0}, {'top_k': 0}, {'top_p': 0}, {'top_p': 1.5}])
def test_what_cannot_be_drawn_from_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Drawing(**wrong)
