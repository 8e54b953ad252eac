"""The order of documents too many to be listed."""

from __future__ import annotations

import numpy as np
import pytest
from test_training_stream import assert_same, split_of, take

from memjax.data.streams import TrainingStream, training
from memjax.data.streams.order import LargeOrder


@pytest.mark.parametrize('size', [1, 2, 3, 5, 16, 17, 1000])
def test_it_is_a_permutation(size):
    order = LargeOrder(size, [0, 1, 2])
    assert sorted(order[i] for i in range(len(order))) == list(range(size))
    with pytest.raises(IndexError):
        order[size]


def test_it_is_mixed_and_another_one_for_other_numbers():
    orders = np.array([[LargeOrder(1000, [0, row, 0])[i] for i in range(1000)] for row in range(3)])
    for order in orders:
        # Of a random permutation about one item stays in its place, and neighbours are 333 apart on average.
        assert (order == np.arange(1000)).sum() < 6
        assert abs(np.abs(np.diff(order)).mean() - 333) < 40
    assert (orders[0] == orders[1]).sum() < 8


def test_a_stream_of_many_documents_reads_each_once_an_epoch_and_resumes(monkeypatch):
    monkeypatch.setattr(training, '_MANY_SPANS', 5)
    stream = TrainingStream(split_of([3] * 7), 2, 2, 1, seed=3)
    batches = take(stream, 14)
    for row in range(2):
        begins = [int(batch.inputs_SxBxT[0, row, 0]) for batch in batches]
        assert sorted(begins[:7]) == sorted(begins[7:]) == list(range(0, 21, 3))
    for before, after in zip(take(stream, 3, batches[4].cursor), batches[5:], strict=False):
        assert_same(before, after)


def test_the_padding_of_short_documents_is_what_the_docstring_says():
    stream = TrainingStream(split_of([7] * 40), 4, 4, 1, seed=0)  # 6 pairs, so 6 of 8 places
    lengths = np.stack([batch.lengths_SxB for batch in take(stream, 20)])
    assert lengths.mean() / 4 == 6 / 8
