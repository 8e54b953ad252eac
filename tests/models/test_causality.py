"""No output depends on a later token, nor on another row. (Across segments: tests of reach, whose matrix has no entry
for a token after the loss.)
"""

import jax
import jax.numpy as jnp
import numpy as np
from tiny_models import CT, CT_MORE, ENCODED, TXL, T, cut, each, text, tiny

ROWS, D = 2, 16


@each([TXL[1], {**CT[4], 'same_length': True}], [TXL[0], *CT, *CT_MORE, *ENCODED])
def test_states_have_no_gradient_to_later_tokens_or_other_rows(variant):
    built = tiny(**variant)
    # Row 0 has a full memory, row 1 a young one.
    _, memory = built.read_text(cut(text(ROWS, 6 * T), starts={(1, 5)}))
    rng = np.random.default_rng(4)
    x = rng.normal(size=(ROWS, T, D)).astype(np.float32)
    weights_D = rng.normal(size=D).astype(np.float32)

    def read_out(x_BxTxD):
        return built.core(built.params, x_BxTxD, jnp.zeros(ROWS, bool), memory)[0] @ weights_D

    jacobian = np.asarray(jax.jit(jax.jacrev(read_out))(x))
    depends = (jacobian != 0).any(axis=-1)
    expected = np.einsum('bc,ts->btcs', np.eye(ROWS), np.tril(np.ones((T, T)))) > 0
    np.testing.assert_array_equal(depends, expected)
