"""Projections, and the content-only attention of the reconstruction loss; the four-term score is in tests/models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.nn.attention import RelativeAttention

B, T, N, D, H, K = 2, 3, 5, 8, 2, 4


def attention(dtype: str = 'float32') -> RelativeAttention:
    return RelativeAttention(
        num_heads=H, head_dim=K, model_dim=D, scheme='slots', has_far_table=False, attention_dropout_rate=0.0,
        init_scale=0.3, dtype=jnp.dtype(dtype),
    )  # fmt: skip


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


PARAMS = {
    'params': {
        **{name: normal((D, H, K), seed) for seed, name in enumerate(('query', 'key', 'value', 'position'))},
        'output': normal((H, K, D), 4),
    }
}
X, STATES = normal((B, T, D), 5), normal((B, N, D), 6)


def frozen_content(params, x, states):
    return attention().apply(params, x, states, method='frozen_content')


def test_content_attention_equals_loops():
    weights = {name: leaf.astype(np.float64) for name, leaf in PARAMS['params'].items()}
    expected = np.zeros((B, T, H, K))
    for b in range(B):
        for t in range(T):
            for h in range(H):
                query = X[b, t] @ weights['query'][:, h]
                scores = [query @ (STATES[b, n] @ weights['key'][:, h]) / np.sqrt(K) for n in range(N)]
                exponentials = np.exp(np.array(scores) - max(scores))
                for n in range(N):
                    expected[b, t, h] += exponentials[n] / exponentials.sum() * (STATES[b, n] @ weights['value'][:, h])
    np.testing.assert_allclose(frozen_content(PARAMS, X, STATES), expected, rtol=1e-4, atol=1e-5)


def test_content_attention_has_a_gradient_to_the_states_only():
    gradients = jax.jit(jax.grad(lambda *args: jnp.square(frozen_content(*args)).sum(), argnums=(0, 1, 2)))
    to_params, to_x, to_states = gradients(PARAMS, X, STATES)
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves((to_params, to_x)))
    assert (np.asarray(to_states) != 0).all()


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_projections_are_in_the_compute_dtype(dtype):
    keys, values = attention(dtype).apply(PARAMS, STATES, method='project')
    assert keys.dtype == values.dtype == jnp.dtype(dtype)
    expected = np.einsum('bnd,dhk->bhnk', STATES, PARAMS['params']['key'])
    np.testing.assert_allclose(np.asarray(keys, np.float32), expected, rtol=0.05, atol=0.05)
