"""What follows a document's start does not depend on what came before it, to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny_models import CT, ENCODED, FEW, OTHERS, VOCAB, T, cut, each, text, tiny

ROWS = 2
SEGMENTS = 9
START = 4  # the segment with which row 1 begins a document; memory is full by then


def other_past(tokens: np.ndarray) -> np.ndarray:
    """Another first document in row 1."""
    changed = tokens.copy()
    changed[1, : START * T] = (changed[1, : START * T] + 1) % VOCAB
    return changed


@each(FEW, OTHERS)
def test_a_start_hides_the_past_of_its_row_only(variant):
    built = tiny(**variant)
    tokens = text(ROWS, SEGMENTS * T)
    logits, _ = built.read_text(cut(tokens, starts={(1, START)}))
    changed, _ = built.read_text(cut(other_past(tokens), starts={(1, START)}))
    assert (changed[1, : START * T] != logits[1, : START * T]).all()
    np.testing.assert_array_equal(changed[1, START * T :], logits[1, START * T :])
    # The other row neither sees the change nor that its neighbour begins anew.
    np.testing.assert_array_equal(changed[0], logits[0])
    unbroken, _ = built.read_text(cut(tokens))
    np.testing.assert_array_equal(unbroken[0], logits[0])
    if variant != ENCODED[0]:  # which has no memory
        assert (unbroken[1, START * T :][:T] != logits[1, START * T :][:T]).any(axis=-1).all()


@each(FEW, OTHERS)
def test_a_start_equals_an_empty_memory_whatever_was_in_it(variant):
    built = tiny(**variant)
    segments = cut(text(ROWS, 5 * T))
    expected, memory = built.read_text(segments)
    rng = np.random.default_rng(5)

    def garbage(leaf):
        if leaf.dtype == jnp.int32:
            return jnp.full_like(leaf, 8)
        return jnp.asarray(1e30 * rng.normal(size=leaf.shape), leaf.dtype)

    logits, _ = built.read_text(segments, memory=jax.tree.map(garbage, memory))
    np.testing.assert_array_equal(logits, expected)


@each([], [CT[2]])
def test_losses_and_gradients_after_a_start_do_not_know_the_past(variant):
    built = tiny(**variant)
    begins = cut(text(ROWS, T))[0]
    pasts = [built.read_text(cut(text(ROWS, START * T, seed)))[1] for seed in (1, 2)]

    def loss(params, memory):
        output, memory = built.train(params, begins, memory)
        return output.nll_BxT.mean() + output.aux['compression_loss'], memory

    step = jax.jit(jax.value_and_grad(loss, has_aux=True))
    ((loss_of_one, after_one), gradient_of_one), ((loss_of_other, after_other), gradient_of_other) = (
        step(built.params, memory) for memory in pasts
    )
    assert loss_of_one == loss_of_other
    for one, other in zip(jax.tree.leaves(gradient_of_one), jax.tree.leaves(gradient_of_other), strict=True):
        np.testing.assert_array_equal(one, other)
    for after in (after_one, after_other):
        assert [level.count_B.tolist() for level in after.levels] == [[T, T], [0, 0]]


@each(FEW)
def test_padding_at_a_documents_end_alters_nothing_after_it(variant):
    built = tiny(**variant)
    tokens = text(ROWS, SEGMENTS * T)
    padded = tokens.copy()
    padded[1, START * T - 2 : START * T] = 0
    assert (padded != tokens).any()

    def read(tokens, real):
        segments = cut(tokens, starts={(1, START)})
        ending = segments[START - 1]
        segments[START - 1] = ending.replace(
            weights_BxT=ending.weights_BxT.at[1, real:].set(0.0), lengths_B=jnp.array([T, real], jnp.int32)
        )
        return built.read_text(segments)[0]

    logits, after_padding = read(tokens, T), read(padded, T - 2)
    real_end = START * T - 2
    np.testing.assert_array_equal(after_padding[1, :real_end], logits[1, :real_end])
    np.testing.assert_array_equal(after_padding[1, START * T :], logits[1, START * T :])
    np.testing.assert_array_equal(after_padding[0], logits[0])
