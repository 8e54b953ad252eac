"""Memories that are neither cached nor compressed: memory tokens and LSTM cells."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny_models import RECURRENT, TXL, T, Tiny, cut, each, model_of, stacked, text, tiny

ROWS, D = 2, 16


def states(seed: int, length: int = T) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, length, D)).astype(np.float32)


@each([RECURRENT[0]], [RECURRENT[2]])
def test_memory_tokens_are_read_before_and_written_after_the_segment(variant):
    built = tiny(**variant)
    # The same weights without memory tokens: what those do is done here by hand.
    plain_variant = {**variant, 'name': 'transformer_xl', 'num_memory_tokens': 0, 'memory_length': 0}
    core = {name: leaf for name, leaf in built.params['core'].items() if name != 'memory_tokens'}
    plain = Tiny(model_of(**plain_variant), {**built.params, 'core': core})
    count = variant['num_memory_tokens']
    tokens = jnp.broadcast_to(built.params['core']['memory_tokens'], (ROWS, count, D))
    built = Tiny(model_of(**{**variant, 'memory_length': 0}), built.params)
    memory, empty = built.model.init_memory(ROWS), plain.model.init_memory(ROWS)
    for seed in range(3):
        x = states(seed)
        y, memory = built.core(built.params, x, jnp.zeros(ROWS, bool), memory)
        by_hand, _ = plain.core(plain.params, jnp.concatenate([tokens, x, tokens], axis=1), jnp.ones(ROWS, bool), empty)
        np.testing.assert_allclose(y, by_hand[:, count:-count], rtol=1e-5, atol=1e-5)
        tokens = by_hand[:, -count:]
        np.testing.assert_allclose(memory.written_BxMxD, tokens, rtol=1e-5, atol=1e-5)


def test_the_text_alone_is_cached_beside_memory_tokens():
    built = tiny(**RECURRENT[0])
    _, memory = built.core(built.params, states(0), jnp.ones(ROWS, bool), built.model.init_memory(ROWS))
    cached = memory.cached.levels[0]
    assert cached.count_B.tolist() == [T] * ROWS
    x = states(0)
    norm = jax.tree.map(lambda leaf: leaf[0], built.params['core']['layers']['attention_norm']['LayerNorm_0'])
    centred = x - x.mean(-1, keepdims=True)
    first_inputs = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * norm['scale'] + norm['bias']
    np.testing.assert_allclose(cached.slots_LxBxMxD[0, :, -T:], first_inputs, rtol=1e-4, atol=1e-4)


@each([RECURRENT[0], RECURRENT[1], TXL[1]], [RECURRENT[2]])
def test_the_gradient_goes_through_what_is_carried_unless_it_is_cached(variant):
    built = tiny(**variant)
    segments = stacked(cut(text(ROWS, 3 * T)))

    def last_loss(table):
        """Of the third segment, by the embeddings that the first one reads."""
        params = {**built.params, 'embed': {'table': built.params['embed']['table']}}

        def read(memory, xs):
            segment, index = xs
            own = {**params, 'embed': {'table': jnp.where(index == 0, table, params['embed']['table'])}}
            output, memory = built.model.apply({'params': own}, segment, memory)
            return memory, output.nll_BxT.sum()

        _, losses = jax.lax.scan(read, built.model.init_memory(ROWS), (segments, jnp.arange(3)))
        return losses[2]

    gradient = np.asarray(jax.jit(jax.grad(last_loss))(built.params['embed']['table']))
    assert (gradient != 0).any() == (variant['name'] in ('rmt', 'lstm'))


def test_lstm_equals_a_loop():
    built = tiny(**RECURRENT[1])
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), built.params['core'])
    x = states(0, 9)
    y, memory = built.core(built.params, x, jnp.ones(ROWS, bool), built.model.init_memory(ROWS))

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    expected = x.astype(np.float64)
    for index in range(2):
        weights = params[f'layers_{index}']['cell']
        cell, hidden, out = np.zeros((ROWS, D)), np.zeros((ROWS, D)), []
        for t in range(9):
            gates = {
                gate: expected[:, t] @ weights[f'i{gate}']['kernel']
                + hidden @ weights[f'h{gate}']['kernel']
                + weights[f'h{gate}']['bias']
                for gate in 'ifgo'
            }
            cell = sigmoid(gates['f']) * cell + sigmoid(gates['i']) * np.tanh(gates['g'])
            hidden = sigmoid(gates['o']) * np.tanh(cell)
            out.append(hidden)
        expected = np.stack(out, axis=1)
        np.testing.assert_allclose(memory.cell_LxBxD[index], cell, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
