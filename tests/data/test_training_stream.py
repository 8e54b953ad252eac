"""Training rows. Token i of a split is the number i, so that a batch says where it was read."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax.data.store import TokenSplit
from memjax.data.streams import TrainingStream
from memjax.errors import DataError


def split_of(lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenSplit(np.arange(offsets[-1], dtype=np.int32), offsets, None, int(offsets[-1]))


def take(stream, steps, cursor=None):
    return list(itertools.islice(stream.batches(cursor), steps))


def assert_same(one, other):
    for name, left, right in zip(one._fields, one, other, strict=True):
        assert np.array_equal(left, right) if name != 'cursor' else left == right, name


def spans_read(batches, row):
    """What a row reads between starts: (first input, last target) of each, the last one perhaps unfinished.

    Checks on the way that tokens follow each other without a gap, and that after padding comes a start.
    """
    spans, may_go_on = [], False
    for batch in batches:
        for s in range(len(batch.start_SxB)):
            length = batch.lengths_SxB[s, row]
            inputs, targets = batch.inputs_SxBxT[s, row], batch.targets_SxBxT[s, row]
            assert 1 <= length <= len(inputs)
            assert batch.weights_SxBxT[s, row].tolist() == [1.0] * length + [0.0] * (len(inputs) - length)
            assert not inputs[length:].any() and not targets[length:].any()
            assert np.array_equal(targets[:length], np.arange(inputs[0] + 1, inputs[0] + 1 + length))
            assert np.array_equal(inputs[:length], targets[:length] - 1)
            if batch.start_SxB[s, row]:
                spans.append([inputs[0], None])
            else:
                assert may_go_on and inputs[0] == spans[-1][1]
            spans[-1][1] = targets[length - 1]
            may_go_on = length == len(inputs)
    return [tuple(span) for span in spans]


# Of these lengths every second or so is shorter than a segment, some have no target at all.
corpora = st.lists(st.integers(0, 12), min_size=2, max_size=6).filter(lambda n: sum(length > 1 for length in n) > 1)
shapes = st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 4), st.integers(1, 3))


def stream_or_none(split, shape, **options):
    """None where the corpus is too small for the shape."""
    try:
        return TrainingStream(split, *shape, seed=3, **options)
    except DataError:
        return None


def test_pieces_are_read_as_documents_and_lose_no_target():
    pieces = TrainingStream(split_of([50]), 2, 4, 1, seed=0, piece_length=12)
    seen = [[], []]
    for batch in take(pieces, 13):  # 49 pairs a row: four pieces of 12 and one of 1, in segments of 4
        for row in range(2):
            read = batch.inputs_SxBxT[0, row, : batch.lengths_SxB[0, row]].tolist()
            assert batch.start_SxB[0, row] == (read[0] % 12 == 0)
            assert batch.targets_SxBxT[0, row, : len(read)].tolist() == [token + 1 for token in read]
            seen[row] += read
    assert [sorted(row) for row in seen] == [list(range(49))] * 2
    assert seen[0] != seen[1]


@settings(deadline=None)
@given(corpora, shapes)
def test_every_row_reads_every_document_once_an_epoch(lengths, shape):
    split = split_of(lengths)
    if (stream := stream_or_none(split, shape)) is None:
        return
    ends = split.document_offsets[1:] - 1
    documents = sorted((b, e) for b, e in zip(split.document_offsets, ends, strict=False) if e > b)
    batches = take(stream, 60)
    for row in range(shape[0]):
        spans = spans_read(batches, row)[:-1]
        for epoch in range(len(spans) // len(documents)):
            assert sorted(spans[epoch * len(documents) : (epoch + 1) * len(documents)]) == documents
        left = spans[len(spans) // len(documents) * len(documents) :]
        assert len(set(left)) == len(left) and set(left) <= set(documents)


@settings(deadline=None)
@given(st.integers(2, 60), shapes)
def test_parts_of_a_single_document_are_read_over_and_over(length, shape):
    split = split_of([length])
    if (stream := stream_or_none(split, shape)) is None:
        return
    B = shape[0]
    batches = take(stream, 60)
    bounds = [(length - 1) * b // B for b in range(B + 1)]
    for row in range(B):
        spans = spans_read(batches, row)
        assert set(spans[:-1]) == {(bounds[row], bounds[row + 1])}


def test_a_document_that_the_others_are_too_short_to_join_is_cut_into_parts():
    batches = take(TrainingStream(split_of([1, 9, 0, 1]), 2, 2, 1, seed=0), 4)
    assert [spans_read(batches, row)[0] for row in (0, 1)] == [(1, 5), (5, 9)]


@settings(deadline=None)
@given(st.one_of(corpora, st.tuples(st.integers(8, 60))), shapes, st.integers(0, 12))
def test_resumed_from_any_cursor_is_unbroken(lengths, shape, steps):
    if (stream := stream_or_none(split_of(lengths), shape)) is None:
        return
    whole = take(stream, steps + 6)
    cursor = whole[steps - 1].cursor if steps else stream.initial_cursor()
    resumed = take(stream_or_none(split_of(lengths), shape), 6, json.loads(json.dumps(cursor)))
    for one, other in zip(whole[steps:], resumed, strict=True):
        assert_same(one, other)


@settings(deadline=None)
@given(st.one_of(corpora, st.tuples(st.integers(8, 60))), shapes, st.sampled_from([1, 2, 4]))
def test_hosts_side_by_side_are_one_host(lengths, shape, count):
    split = split_of(lengths)
    if (one_host := stream_or_none(split, shape)) is None or shape[0] % count:
        return
    hosts = [stream_or_none(split, shape, process_index=i, process_count=count) for i in range(count)]
    for whole, *parts in zip(take(one_host, 8), *(take(host, 8) for host in hosts), strict=True):
        for field in whole._fields[:-1]:
            laid_together = np.concatenate([getattr(part, field) for part in parts], axis=1)
            assert np.array_equal(laid_together, getattr(whole, field))
        assert all(part.cursor == whole.cursor for part in parts)


def test_another_number_of_hosts_goes_on_from_the_cursor():
    split = split_of([30, 20, 25, 9])
    whole = take(TrainingStream(split, 4, 5, 2, seed=1), 10)
    second_of_two = TrainingStream(split, 4, 5, 2, seed=1, process_index=1, process_count=2)
    for one, other in zip(whole[4:], take(second_of_two, 6, whole[3].cursor), strict=True):
        assert np.array_equal(one.inputs_SxBxT[:, 2:], other.inputs_SxBxT)


def test_orders_differ_by_row_epoch_and_seed_and_stay_what_they_are():
    split = split_of([3] * 8)

    def order(seed, row, epoch):
        stream = TrainingStream(split, 2, 2, 1, seed=seed)
        spans = spans_read(take(stream, 8 * (epoch + 1)), row)[8 * epoch :]
        return [int(begin) // 3 for begin, _ in spans]

    orders = [order(seed, row, epoch) for seed in (0, 1) for row in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 8
    # A run that resumes with a later version of this project or of NumPy must find the order that it began with.
    assert orders[0] == [0, 3, 7, 5, 1, 2, 6, 4]
    assert orders[3] == [1, 2, 4, 5, 3, 6, 7, 0]


def test_dtypes():
    batch = take(TrainingStream(split_of([50, 50]), 2, 5, 2, seed=0), 1)[0]
    assert [array.dtype for array in batch[:-1]] == [np.int32, np.int32, np.float32, bool, np.int32]
    assert [array.shape for array in batch[:-1]] == [(2, 2, 5)] * 3 + [(2, 2)] * 2


@pytest.mark.parametrize(('shape', 'fits'), [((4, 5, 5), True), ((4, 5, 6), False), ((101, 1, 1), False)])
def test_more_tokens_a_step_than_the_split_has_are_refused(shape, fits):
    if fits:
        TrainingStream(split_of([60, 40]), *shape, seed=0)
        return
    with pytest.raises(DataError, match=r'rows of .* tokens are .* a step, too many for the 100 of the split'):
        TrainingStream(split_of([60, 40]), *shape, seed=0)


def test_fewer_targets_than_rows_are_refused():
    with pytest.raises(DataError, match='3 rows'):
        TrainingStream(split_of([3]), 3, 1, 1, seed=0)


def test_processes_must_divide_the_rows():
    with pytest.raises(DataError, match='4 rows cannot be shared by 3 processes'):
        TrainingStream(split_of([100]), 4, 2, 1, seed=0, process_count=3)


@pytest.mark.parametrize(
    ('change', 'match'),
    [
        ({'index': [9, 0]}, 'behind the last document'),
        ({'position': [0, 99]}, 'behind the end of a document'),
        ({'position': [-1, 0]}, 'behind the end of a document'),
        ({'index': [0]}, 'not of a stream of 2 rows'),
        ({'more': [0, 0]}, 'not of a stream of 2 rows'),
    ],
)
def test_a_cursor_of_another_stream_is_refused(change, match):
    stream = TrainingStream(split_of([20, 20]), 2, 5, 1, seed=0)
    with pytest.raises(DataError, match=match):
        stream.batches({**stream.initial_cursor(), **change})
