"""Windows: every target exactly once. Token i of a split is the number i, so that a window says what it read."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax.data.store import TokenSplit
from memjax.data.streams import WindowStream


def split_of(lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenSplit(np.arange(offsets[-1], dtype=np.int32), offsets, None, int(offsets[-1]))


@st.composite
def shapes(draw):
    length = draw(st.integers(1, 7))
    return draw(st.integers(1, 9)), length, draw(st.integers(1, length))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), shapes())
def test_every_target_exactly_once_with_as_much_context_as_there_is(lengths, shape):
    split = split_of(lengths)
    B, T, stride = shape
    stream = WindowStream(split, B, T, stride)
    begins = {target: b for b, e in itertools.pairwise(split.document_offsets.tolist()) for target in range(b + 1, e)}
    scored = []
    segments = list(stream)
    assert len(segments) == stream.num_segments == len(stream)
    for segment in segments:
        assert segment.start_B.all()
        assert ((segment.target_index_BxT >= 0) == (segment.weights_BxT == 1)).all()
        for row in range(B):
            length = segment.lengths_B[row]
            read = segment.inputs_BxT[row, :length]
            np.testing.assert_array_equal(segment.targets_BxT[row, :length], read + 1)
            assert not segment.weights_BxT[row, length:].any()
            for t in np.flatnonzero(segment.weights_BxT[row]):
                target = int(segment.targets_BxT[row, t])
                scored.append((int(segment.target_index_BxT[row, t]), target))
                # Its context: all of its document before it, or at least what a stride leaves of a window.
                assert begins[target] <= read[0]
                assert read[0] == begins[target] or t + 1 > T - stride
    assert scored == list(enumerate(begins))
    assert stream.num_targets == split.num_targets == len(begins)


def test_a_stride_of_one_scores_one_target_a_window_after_the_first():
    segments = list(WindowStream(split_of([8]), 2, 4, 1))
    assert [segment.inputs_BxT.tolist() for segment in segments] == [
        [[0, 1, 2, 3], [1, 2, 3, 4]],
        [[2, 3, 4, 5], [3, 4, 5, 6]],
    ]
    assert [segment.weights_BxT.astype(int).tolist() for segment in segments] == [
        [[1, 1, 1, 1], [0, 0, 0, 1]],
        [[0, 0, 0, 1], [0, 0, 0, 1]],
    ]
