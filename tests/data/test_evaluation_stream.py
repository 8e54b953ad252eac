"""Evaluation: every target exactly once. Token i of a split is the number i, so that a segment says what it read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax.data.store import TokenSplit
from memjax.data.streams import EvaluationStream


def split_of(lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenSplit(np.arange(offsets[-1], dtype=np.int32), offsets, None, int(offsets[-1]))


def targets_of(split):
    """Positions of all targets, in the order of the text: every symbol but the first of each document."""
    offsets = split.document_offsets
    return [position for b, e in itertools.pairwise(offsets.tolist()) for position in range(b + 1, e)]


corpora = st.lists(st.integers(0, 30), min_size=1, max_size=6)
shapes = st.tuples(st.integers(1, 9), st.integers(1, 7), st.integers(0, 20))


@settings(deadline=None, max_examples=150)
@given(corpora, shapes)
def test_every_target_exactly_once(lengths, shape):
    split = split_of(lengths)
    stream = EvaluationStream(split, *shape)
    segments = list(stream)
    assert len(segments) == stream.num_segments == len(stream)
    scored = {}
    for segment in segments:
        for row, t in np.argwhere(segment.weights_BxT > 0).tolist():
            index = int(segment.target_index_BxT[row, t])
            assert index not in scored
            scored[index] = int(segment.targets_BxT[row, t])
            assert segment.inputs_BxT[row, t] == scored[index] - 1
            assert segment.weights_BxT[row, t] == 1
        assert ((segment.target_index_BxT >= 0) == (segment.weights_BxT > 0)).all()
    assert [scored[index] for index in sorted(scored)] == targets_of(split)
    assert sorted(scored) == list(range(stream.num_targets))
    assert stream.num_targets == split.num_targets == len(scored)


@settings(deadline=None, max_examples=150)
@given(corpora, shapes)
def test_rows_are_unbroken_and_warmed_up(lengths, shape):
    split = split_of(lengths)
    B, T, warmup = shape
    stream = EvaluationStream(split, B, T, warmup)
    assert stream.warmup == -(-warmup // T) * T
    rows = [{'since_start': 0, 'next': None, 'scored': False, 'finished': False, 'must_start': True} for _ in range(B)]
    for segment in stream:
        for row, state in enumerate(rows):
            length = int(segment.lengths_B[row])
            inputs, targets = segment.inputs_BxT[row], segment.targets_BxT[row]
            assert (
                not inputs[length:].any() and not targets[length:].any() and not segment.weights_BxT[row, length:].any()
            )
            if length == 0:
                assert segment.start_B[row]
                state['finished'] = True
                continue
            assert not state['finished']
            assert np.array_equal(targets[:length], inputs[:length] + 1)
            assert np.array_equal(inputs[:length], np.arange(inputs[0], inputs[0] + length))
            document = np.searchsorted(split.document_offsets, inputs[0], side='right') - 1
            begin = int(split.document_offsets[document])
            assert (inputs[0] - begin) % T == 0  # on the document's own grid
            assert targets[length - 1] < split.document_offsets[document + 1]
            if segment.start_B[row]:
                state['since_start'] = 0
            else:
                assert not state['must_start'] and inputs[0] == state['next']
            weights = set(segment.weights_BxT[row, :length].tolist())
            assert len(weights) == 1
            if weights == {1.0} and not state['scored']:
                # Before the first scored token the row has read the warm-up, and no more than that.
                assert state['since_start'] == min(inputs[0] - begin, stream.warmup)
            assert weights == {1.0} or not state['scored']  # warm-up comes only first
            state['scored'] |= weights == {1.0}
            state['since_start'] += length
            state['next'] = targets[length - 1]
            state['must_start'] = length < T


@settings(deadline=None)
@given(corpora, shapes)
def test_runs_are_as_equal_as_can_be(lengths, shape):
    B, T, _ = shape
    scored = np.zeros(B, int)
    for segment in EvaluationStream(split_of(lengths), B, T, 0):
        scored += segment.weights_BxT.any(axis=1)
    assert scored.max() - scored.min() <= 1


def test_a_row_alone_needs_no_warmup_and_starts_with_each_document():
    segments = list(EvaluationStream(split_of([5, 4]), 1, 3, 100))
    assert [segment.start_B.tolist() for segment in segments] == [[True], [False], [True]]
    assert [segment.lengths_B.tolist() for segment in segments] == [[3], [1], [3]]
    assert [segment.target_index_BxT.tolist() for segment in segments] == [[[0, 1, 2]], [[3, -1, -1]], [[4, 5, 6]]]


def test_more_rows_than_segments():
    segments = list(EvaluationStream(split_of([7]), 5, 3, 3))
    # Two segments for five rows: the second is warmed up by the first.
    assert sum(segment.weights_BxT.sum() for segment in segments) == 6
    assert sorted(segment.lengths_B.sum() for segment in segments) == [3, 6]


def test_a_split_without_targets_has_no_segments():
    assert list(EvaluationStream(split_of([1, 1]), 2, 3, 3)) == []


def test_it_can_be_iterated_over_again():
    stream = EvaluationStream(split_of([9, 3]), 2, 2, 2)
    for one, other in zip(stream, stream, strict=True):
        assert all(np.array_equal(left, right) for left, right in zip(one, other, strict=True))


@pytest.mark.parametrize('dtype', [np.uint8, np.uint16])
def test_dtypes(dtype):
    split = split_of([9, 3])
    split = TokenSplit(split.tokens.astype(dtype), split.document_offsets, None, 12)
    segment = next(iter(EvaluationStream(split, 2, 2, 2)))
    assert [array.dtype for array in segment] == [np.int32, np.int32, np.float32, bool, np.int32, np.int64]
