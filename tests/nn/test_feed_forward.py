"""The feed-forward sublayer against its formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.nn.feed_forward import FeedForward

D, F = 4, 6


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


PARAMS = {
    'up': {'kernel': normal((D, F), 0), 'bias': normal((F,), 1)},
    'down': {'kernel': normal((F, D), 2), 'bias': normal((D,), 3)},
}
X = normal((2, 3, D), 4)


@pytest.mark.parametrize('activation', ['relu', 'gelu'])
def test_equals_its_formula(activation):
    hidden = X @ PARAMS['up']['kernel'] + PARAMS['up']['bias']
    hidden = np.maximum(hidden, 0) if activation == 'relu' else np.asarray(jax.nn.gelu(hidden))
    expected = hidden @ PARAMS['down']['kernel'] + PARAMS['down']['bias']
    module = FeedForward(D, F, activation, 0.5, 0.02, jnp.float32)
    np.testing.assert_allclose(module.apply({'params': PARAMS}, X, False), expected, rtol=1e-5, atol=1e-5)


def test_dropout_acts_on_the_hidden_units_and_on_the_output():
    module = FeedForward(D, F, 'relu', 0.5, 0.02, jnp.float32)

    def train(params):
        return np.asarray(module.apply({'params': params}, X, True, rngs={'dropout': jax.random.key(0)}))

    dropped = train(PARAMS) == 0
    assert 0.2 < dropped.mean() < 0.8
    bias_only = {'up': PARAMS['up'], 'down': {'kernel': np.zeros((F, D)), 'bias': np.ones(D, np.float32)}}
    assert set(np.unique(train(bias_only))) == {0.0, 2.0}
    # Were the hidden units all there, an output would be their whole sum, or dropped.
    summing = {'kernel': np.ones((F, D)), 'bias': np.zeros(D)}
    all_ones = {'up': {'kernel': np.zeros((D, F)), 'bias': np.ones(F)}, 'down': summing}
    assert len(np.unique(train(all_ones))) > 2
