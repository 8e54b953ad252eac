"""The auxiliary losses, as numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.memory.reconstruction import attention_reconstruction_loss, auto_encoding_loss

B, T, H, K = 3, 4, 2, 5
VALID = np.array([True, False, True])
LENGTHS = np.array([4, 4, 2])


def attended(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(B, T, H, K)).astype(np.float32)


def test_is_the_mean_square_over_real_queries_of_valid_rows():
    old, new = attended(0).astype(np.float64), attended(1).astype(np.float64)
    squares = []
    for b in range(B):
        for t in range(T):
            if VALID[b] and t < LENGTHS[b]:
                squares += [(old[b, t, h, k] - new[b, t, h, k]) ** 2 for h in range(H) for k in range(K)]
    assert len(squares) == 6 * H * K
    np.testing.assert_allclose(
        attention_reconstruction_loss(attended(0), attended(1), VALID, LENGTHS), np.mean(squares), rtol=1e-6
    )


def test_ignores_invalid_rows_and_padding():
    def loss_and_gradient(new):
        return jax.value_and_grad(attention_reconstruction_loss, argnums=1)(attended(0), new, VALID, LENGTHS)

    changed = attended(1)
    changed[1] = 1e18
    changed[2, 2:] = -1e18
    loss, gradient = loss_and_gradient(changed)
    expected_loss, expected_gradient = loss_and_gradient(attended(1))
    assert loss == expected_loss
    np.testing.assert_array_equal(gradient, expected_gradient)
    assert (np.asarray(gradient)[1] == 0).all() and (np.asarray(gradient)[2, 2:] == 0).all()
    assert (np.asarray(gradient)[0] != 0).all()


def test_is_zero_with_zero_gradient_when_no_block_is_valid():
    loss, gradient = jax.value_and_grad(attention_reconstruction_loss, argnums=1)(
        attended(0), attended(1), np.zeros(B, bool), LENGTHS
    )
    assert loss == 0
    assert (np.asarray(gradient) == 0).all()


def test_is_float32_for_bfloat16_states():
    loss = attention_reconstruction_loss(
        jnp.asarray(attended(0), jnp.bfloat16), jnp.asarray(attended(1), jnp.bfloat16), VALID, LENGTHS
    )
    assert loss.dtype == jnp.float32


def test_the_sum_is_the_squared_norm_of_a_row_averaged_over_valid_rows():
    old, new = attended(0).astype(np.float64), attended(1).astype(np.float64)
    norms = [((old[b, : LENGTHS[b]] - new[b, : LENGTHS[b]]) ** 2).sum() for b in range(B) if VALID[b]]
    found = attention_reconstruction_loss(attended(0), attended(1), VALID, LENGTHS, 'sum')
    np.testing.assert_allclose(found, np.mean(norms), rtol=1e-6)


def test_auto_encoding_is_what_decoding_loses_of_valid_rows():
    old, decoded = (np.random.default_rng(seed).normal(size=(B, T, K)).astype(np.float32) for seed in (0, 1))
    squares = (old - decoded).astype(np.float64)[VALID] ** 2
    np.testing.assert_allclose(auto_encoding_loss(old, decoded, VALID), squares.mean(), rtol=1e-6)
    np.testing.assert_allclose(auto_encoding_loss(old, decoded, VALID, 'sum'), squares.sum() / 2, rtol=1e-6)
    assert auto_encoding_loss(old, decoded, np.zeros(B, bool)) == 0


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match='unknown reduction'):
        attention_reconstruction_loss(attended(0), attended(1), VALID, LENGTHS, 'max')
