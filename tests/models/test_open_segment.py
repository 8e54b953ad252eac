"""Reading token by token equals reading by segments."""

import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import CT, CT_MORE, FEW, OTHERS, RECURRENT, TXL, T, Tiny, cut, each, levels_of, text, tiny

from memjax.memory import fifo

SEGMENTS = 8  # enough for a compressed memory that overflows
CLOSE = {'rtol': 1e-5, 'atol': 1e-5}


def read_by_token(built: Tiny, tokens: np.ndarray, memory: fifo.Memory, segment_length: int = T) -> np.ndarray:
    state = built.open(memory, segment_length)
    logits = []
    for place in range(tokens.shape[1] - 1):
        logits_BxV, state = built.step(tokens[:, place], state)
        logits.append(np.asarray(logits_BxV))
    return np.stack(logits, axis=1)


def check(built: Tiny, segment_length: int = T) -> None:
    tokens = text(2, SEGMENTS * T)
    expected, memory = built.read_text(cut(tokens, segment_length))
    assert all((level.count_B == level.length).all() for level in levels_of(memory))
    np.testing.assert_allclose(
        read_by_token(built, tokens, built.model.init_memory(2), segment_length), expected, **CLOSE
    )


@each(FEW, OTHERS)
def test_equals_segments_across_their_ends(variant):
    check(tiny(**variant))


@each(
    [
        {**TXL[1], 'same_length': True, 'clamp_length': 5, 'layer_unroll': 2},
        {**CT[4], 'remat': True, 'untie_r': True, 'tie_embeddings': False},
    ],
    [
        {**CT[1], 'same_length': True},
        {**CT[0], 'compression': 'mean', 'compression_loss': 'none', 'compressed_memory_length': 3},
    ],
)
def test_equals_segments_with_other_options(variant):
    check(tiny(**variant))


@pytest.mark.slow
@pytest.mark.parametrize('segment_length', [1, 2, 8])
def test_equals_segments_of_another_length(segment_length):
    check(tiny(**TXL[0]), segment_length)


@each([TXL[1], CT[2]])
def test_goes_on_from_a_memory_where_one_row_begins_a_document(variant):
    built = tiny(**variant)
    tokens = text(2, SEGMENTS * T)
    segments = cut(tokens, starts={(1, 5)})
    expected, _ = built.read_text(segments)
    _, memory = built.read_text(segments[:5])
    memory = fifo.forget(memory, jnp.array([False, True]))
    np.testing.assert_allclose(read_by_token(built, tokens[:, 5 * T :], memory), expected[:, 5 * T :], **CLOSE)


@each([CT[0]], [TXL[0], CT_MORE[1], RECURRENT[0]])
def test_in_bfloat16_as_near_as_its_rounding(variant):
    built = tiny(**variant, dtype='bfloat16')
    tokens = text(2, SEGMENTS * T)
    expected, _ = built.read_text(cut(tokens))
    np.testing.assert_allclose(
        read_by_token(built, tokens, built.model.init_memory(2)), expected, rtol=0.05, atol=0.05 * expected.std()
    )
