"""How far back a loss depends on the text, exactly: every token is changed in turn, and every loss looked at.

A query sees its segment and what memory stands for, n_m + c n_cm tokens before the segment; what it sees there saw as
much again, one layer lower. With lengths that are multiples of the segment L layers reach L (n_m + c n_cm) back from
the segment's first token (Transformer-XL, section 3.2; Compressive Transformer, section 3.3).
"""

import numpy as np
import pytest
from tiny_models import CT, CT_OTHERS, TXL, VOCAB, Tiny, cut, each, text, tiny

T = 2
LAYERS = 2
LENGTH = 36
M, C, RATE = 4, 4, 2


def moved(built: Tiny, starts: tuple[int, ...] = ()) -> np.ndarray:
    """[p, t]: whether the loss at t changes if the input at p does; documents begin at the segments `starts`."""
    rows = np.repeat(text(1, LENGTH), LENGTH + 1, axis=0)
    segments = cut(rows, T, {(row, start) for row in range(LENGTH + 1) for start in starts})
    memory = built.model.init_memory(LENGTH + 1)
    nll = []
    for index, segment in enumerate(segments):
        inputs = np.array(segment.inputs_BxT)
        for place in range(T):
            row = index * T + place
            inputs[row, place] = (inputs[row, place] + 1) % VOCAB
        # The target stays, whatever the input at its place becomes.
        output, memory = built.read(built.params, segment.replace(inputs_BxT=inputs), memory)
        nll.append(np.asarray(output.nll_BxT))
    nll_RxN = np.concatenate(nll, axis=1)
    return nll_RxN[:-1] != nll_RxN[-1]


def within_reach(*spans: int, starts: tuple[int, ...] = ()) -> np.ndarray:
    """[p, t]: whether p is what layer L at t can have seen, given what each layer's memory spans."""
    reaches = np.zeros((LENGTH, LENGTH), bool)
    for t in range(LENGTH):
        first = t
        for span in reversed(spans):
            first = first // T * T - span
        document = max([0, *(start * T for start in starts if start * T <= t)])
        reaches[max(first, document) : t + 1, t] = True
    return reaches


def distances(reaches: np.ndarray) -> set[int]:
    """The farthest token that moves a loss, counted from the loss's segment, for losses late in the text."""
    return {t // T * T - int(np.flatnonzero(reaches[:, t])[0]) for t in range(LENGTH - 2 * T, LENGTH)}


@each(TXL[:1], TXL[1:])
def test_transformer_xl_reaches_its_memory_a_layer(variant):
    reaches = moved(tiny(**variant, memory_length=M))
    np.testing.assert_array_equal(reaches, within_reach(M, M))
    assert distances(reaches) == {LAYERS * M}


@each([CT[0], CT[4]], [CT[2], *CT_OTHERS])
def test_compressive_transformer_reaches_what_its_slots_stand_for(variant):
    reaches = moved(tiny(**variant, memory_length=M, compressed_memory_length=C))
    np.testing.assert_array_equal(reaches, within_reach(*[M + RATE * C] * LAYERS))
    assert distances(reaches) == {LAYERS * (M + RATE * C)}


def test_each_layer_reaches_as_far_as_its_own_rate_says():
    rates = {'compression_rate_by_layer': (1, 2), 'compression': 'mean'}
    reaches = moved(tiny(**CT[0], memory_length=M, compressed_memory_length=C, **rates))
    np.testing.assert_array_equal(reaches, within_reach(M + C, M + 2 * C))


def test_levels_reach_by_the_products_of_their_rates():
    levels = {'compression_rate': 1, 'higher_memory_lengths': (2,), 'higher_compression_rates': (2,)}
    reaches = moved(tiny(**CT[0], memory_length=2, compressed_memory_length=2, **levels))
    span = 2 + 1 * 2 + 1 * 2 * 2
    np.testing.assert_array_equal(reaches, within_reach(span, span))


@pytest.mark.slow
def test_mean_pooling_reaches_as_far_as_a_convolution():
    reaches = moved(tiny(**CT[0], memory_length=M, compressed_memory_length=C, compression='mean'))
    assert distances(reaches) == {LAYERS * (M + RATE * C)}


@pytest.mark.parametrize('memory_length', [3, *(pytest.param(length, marks=pytest.mark.slow) for length in (0, 1))])
def test_a_memory_that_is_no_multiple_of_the_segment_reaches_as_far_as_it_is_long(memory_length):
    reaches = moved(tiny(**TXL[0], memory_length=memory_length))
    np.testing.assert_array_equal(reaches, within_reach(memory_length, memory_length))


def test_a_band_reaches_its_width_a_layer():
    reaches = moved(tiny(**TXL[0], memory_length=M, same_length=True))
    for t in range(LENGTH):
        assert np.flatnonzero(reaches[:, t]).tolist() == list(range(max(0, t - LAYERS * (M - 1)), t + 1))


@each([TXL[0], CT[0], CT[4]])
def test_a_documents_start_cuts_the_reach_to_nothing(variant):
    starts = (6, 13)
    built = tiny(**variant, memory_length=M, compressed_memory_length=C)
    reaches = moved(built, starts)
    span = M + RATE * C if 'compressed_positions' in variant else M
    np.testing.assert_array_equal(reaches, within_reach(span, span, starts=starts))
    for start in starts:
        assert not reaches[: start * T, start * T :].any()
