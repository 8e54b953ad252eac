"""The background thread of an iterator that runs ahead."""

from __future__ import annotations

import threading
import time

import pytest

from memjax.data.streams import prefetched


def alive():
    return [thread for thread in threading.enumerate() if thread.name == 'prefetch']


def wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def test_the_same_items_in_order_and_the_thread_ends():
    assert list(prefetched(iter(range(100)), 3)) == list(range(100))
    assert not alive()


def test_it_runs_ahead_by_its_size_and_no_further():
    made = []

    def items():
        for i in range(100):
            made.append(i)
            yield i

    ahead = prefetched(items(), 4)
    assert next(ahead) == 0
    # One given out, four waiting, one in the hand of the thread.
    assert wait_for(lambda: len(made) == 6)
    time.sleep(0.1)
    assert len(made) == 6
    ahead.close()


def test_an_exception_comes_after_the_items_before_it():
    def items():
        yield 1
        yield 2
        raise ZeroDivisionError('in the thread')

    ahead = prefetched(items(), 5)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(ZeroDivisionError, match='in the thread'):
        next(ahead)
    assert not alive()


@pytest.mark.parametrize('how', ['close', 'drop', 'raise'])
def test_the_thread_stops_and_closes_its_iterator(how):
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    iterator = items()  # kept, so that only its close() can end it
    ahead = prefetched(iterator, 2)
    next(ahead)
    assert alive()
    if how == 'close':
        ahead.close()
    elif how == 'drop':
        del ahead
    else:
        with pytest.raises(KeyboardInterrupt):
            ahead.throw(KeyboardInterrupt)
    assert closed.is_set()
    assert not alive()
