"""The attention-reconstruction loss of a whole model (Compressive Transformer, Algorithm 2)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from tiny_models import CT, CT_FEW, CT_OTHERS, T, cut, each, text, tiny

H, K = 2, 8
RATE = 2
ROWS = 3
STARTS = {(1, 3)}  # row 1 is young when the others' memory is full
LENGTHS = jnp.array([T, T, 2])  # row 2 ends in padding


@functools.cache
def reader(built):
    """(params, segment, memory) -> output, memory: in training."""
    return jax.jit(built.train)


def situation(built):
    """A memory that is full in rows 0 and 2 only, and the segment that is read next."""
    segments = cut(text(ROWS, 5 * T), starts=STARTS)
    _, memory = built.read_text(segments[:4])
    return memory, segments[4].replace(lengths_B=LENGTHS)


def content_attention(h: np.ndarray, states: np.ndarray, weights: dict) -> np.ndarray:
    """attn(h, m) = softmax((h Q)(m K)^T / sqrt(K)) (m V), one row and head at a time, T x H x K."""
    out = np.zeros((h.shape[0], H, K))
    for head in range(H):
        scores = (h @ weights['query'][:, head]) @ (states @ weights['key'][:, head]).T / np.sqrt(K)
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, head] = exponentials / exponentials.sum(axis=1, keepdims=True) @ (states @ weights['value'][:, head])
    return out


@each(CT_FEW[2:], CT_FEW[:2] + CT_OTHERS)
def test_equals_a_reading_of_the_algorithm(variant):
    built = tiny(**variant)
    memory, segment = situation(built)
    assert memory.levels[0].count_B.tolist() == [8, 4, 8]
    output, after = reader(built)(built.params, segment, memory)
    layers = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), built.params['core']['layers'])
    by_layer = []
    for layer in range(2):
        weights = {name: leaf[layer] for name, leaf in layers['attention'].items()}
        compressor = {name: leaf[layer] for name, leaf in layers['compressor'].items()}
        squares = []
        for row, length in ((0, T), (2, 2)):
            # What entered the memory is what the layer's attention read.
            h = np.asarray(after.levels[0].slots_LxBxMxD[layer, row, -T:], np.float64)
            old = np.asarray(memory.levels[0].slots_LxBxMxD[layer, row, :T], np.float64)
            windows = old.reshape(T // RATE, RATE, -1)
            new = np.einsum('cwd,wde->ce', windows, compressor['kernel']) + compressor['bias']
            difference = content_attention(h, old, weights) - content_attention(h, new, weights)
            squares.append((difference[:length] ** 2).reshape(length, -1))
        by_layer.append(np.concatenate(squares).mean())
    np.testing.assert_allclose(output.stats['compression_loss'], by_layer, rtol=1e-3)
    np.testing.assert_allclose(output.aux['compression_loss'], np.mean(by_layer), rtol=1e-3)


@each(CT_FEW[2:], CT_FEW[:2])
def test_young_rows_and_padding_do_not_change_it(variant):
    built = tiny(**variant)
    memory, segment = situation(built)
    read = reader(built)
    other_tokens = jnp.asarray(text(ROWS, T, seed=9)[:, :T])
    ignored = jnp.array([[False] * T, [True] * T, [False, False, True, True]])
    changed = segment.replace(inputs_BxT=jnp.where(ignored, other_tokens, segment.inputs_BxT))
    assert (changed.inputs_BxT != segment.inputs_BxT).any()
    loss = read(built.params, segment, memory)[0].aux['compression_loss']
    assert loss > 0
    assert read(built.params, changed, memory)[0].aux['compression_loss'] == loss
    everything = segment.replace(lengths_B=jnp.full((ROWS,), T))
    assert read(built.params, everything, memory)[0].aux['compression_loss'] != loss


def test_is_zero_with_a_finite_gradient_while_no_block_is_filled():
    built = tiny(**CT[0])
    segment = cut(text(ROWS, T))[0]
    memory = built.model.init_memory(ROWS)
    # What an earlier document left, however large, is no block.
    memory = jax.tree.map(lambda leaf: jnp.full_like(leaf, 8 if leaf.dtype == jnp.int32 else 1e4), memory)
    loss_and_gradient = jax.jit(
        jax.value_and_grad(lambda params: built.train(params, segment, memory)[0].aux['compression_loss'])
    )
    loss, gradient = loss_and_gradient(built.params)
    assert loss == 0
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))


def test_is_not_computed_in_evaluation_nor_when_there_is_none():
    segment = cut(text(ROWS, T))[0]
    built, without = tiny(**CT[0]), tiny(**CT[0], compression_loss='none')
    for run in (built.read, without.train):
        assert jax.eval_shape(run, built.params, segment, built.model.init_memory(ROWS))[0].aux == {}
