"""Sampling: the distribution that is drawn from, and that it is evaluation's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.sampling import Reader, filter_logits, sample_tokens
from memjax.models.factory import build_model, init_params

PROBABILITIES = np.array([0.5, 0.25, 0.15, 0.07, 0.03])


def kept(**settings):
    logits = jnp.log(jnp.asarray(PROBABILITIES, jnp.float32))[None]
    filtered = np.asarray(jax.nn.softmax(filter_logits(logits, **{'temperature': 1.0, **settings})))[0]
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
    direct = filter_logits(logits, 1.0, top_p=0.8)[:, order]
    np.testing.assert_array_equal(direct, filter_logits(logits[:, order], 1.0, top_p=0.8))


def test_temperature_sharpens():
    np.testing.assert_allclose(kept(temperature=0.5), PROBABILITIES**2 / (PROBABILITIES**2).sum(), rtol=1e-5)


@pytest.fixture
def model_and_params(tiny_config):
    model = build_model(tiny_config.model)
    params = init_params(model, 8, jax.random.key(0))
    return model, jax.tree.map(lambda leaf: leaf * 4 if leaf.ndim > 1 else leaf, params)


def test_probabilities_equal_evaluations_on_the_same_text(tiny_config, data_dir, model_and_params):
    model, params = model_and_params
    split = open_corpus(tiny_config.data, data_dir).splits['test']
    tiny_config.eval.batch_size = 1
    expected = Scorer(tiny_config).score(params, split, keep_tokens=True).per_token[:60]
    tokens = np.asarray(split.tokens[:61], np.int32)
    # A prompt of 21 symbols: two whole segments at once, then five tokens of the third and on, one by one.
    reader = Reader(model, params, 8)
    logits = {15: reader.read_segments(tokens[:21])}
    for place in range(16, 60):
        logits[place] = reader.read(int(tokens[place]))
    got = [float(jax.nn.logsumexp(logits[place]) - logits[place][tokens[place + 1]]) for place in sorted(logits)]
    np.testing.assert_allclose(got, expected[15:], rtol=0, atol=1e-5)


def test_samples_depend_on_the_seed_alone_and_follow_the_filter(model_and_params):
    model, params = model_and_params
    prompt = np.arange(10, dtype=np.int32)

    def sample(seed, top_k=None):
        return sample_tokens(Reader(model, params, 8), prompt, 12, 1.0, top_k, None, seed)

    np.testing.assert_array_equal(sample(0), sample(0))
    assert (sample(0) != sample(1)).any()
    # The likeliest token each time, whatever the seed.
    np.testing.assert_array_equal(sample(0, top_k=1), sample(1, top_k=1))


def test_prompt_of_whole_segments_and_prompt_shorter_than_one(model_and_params):
    model, params = model_and_params
    for length in (1, 8):
        drawn = sample_tokens(Reader(model, params, 8), np.arange(length), 3, 1.0, 1, None, 0)
        # The same three tokens by reading everything one by one.
        reader, logits, expected = Reader(model, params, 8), None, []
        for token in range(length):
            logits = reader.read(token)
        for _ in range(3):
            expected.append(int(jnp.argmax(logits)))
            logits = reader.read(expected[-1])
        np.testing.assert_array_equal(drawn, expected)
