"""The benchmarks' arithmetic and processes, with made-up systems whose speeds are known; nothing is timed here."""

import sys

import pytest
from made_up import program

from memjax.benchmark.comparisons import comparisons
from memjax.benchmark.growth import SERIES, growth_of, growth_works
from memjax.benchmark.ours import answer, model_of
from memjax.benchmark.run import alternate, row_of
from memjax.benchmark.work import Timing, Work, Worker
from memjax.errors import BenchmarkError
from memjax.evaluation.likelihood import SEGMENTS_A_CALL

WORK = Work('evaluate', batch_size=2, segment_length=4, memory_length=8, count=3)


def test_a_worker_answers_and_says_what_it_is(tmp_path):
    with Worker('made up', [sys.executable, str(program(tmp_path))], threads=1) as worker:
        timing = worker.time(WORK)
        assert worker.versions() == {'system': '1.0'}
    assert timing == Timing(seconds=0.8, tokens=6, bytes=7)
    assert timing.rate == pytest.approx(7.5)


def test_a_worker_that_dies_is_told_in_its_last_words(tmp_path):
    with (
        Worker('made up', [sys.executable, str(program(tmp_path))], threads=1) as worker,
        pytest.raises(BenchmarkError, match=r'^made up failed at .*: bad luck$'),
    ):
        worker.time(Work('evaluate', batch_size=1, segment_length=1, memory_length=13, count=1))


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(BenchmarkError, match=r'^made up cannot be started'):
        Worker('made up', [str(tmp_path / 'nothing')], threads=1)


def test_workers_take_turns_and_the_first_turn_does_not_count():
    class Recorder:
        def __init__(self, name):
            self.name = name
            self.calls = 0

        def time(self, work):
            order.append(self.name)
            self.calls += 1
            return Timing(seconds=self.calls, tokens=10)

    order = []
    timings = alternate(WORK, (Recorder('a'), Recorder('b')), repeats=3)
    assert order == ['a', 'b'] * 4
    assert [timing.seconds for timing in timings['a']] == [2, 3, 4]
    row = row_of('name', 'a', WORK, timings['a'])
    assert row['tokens_per_second'] == pytest.approx(10 / 3)  # the median
    assert (row['system'], row['memory_length'], row['count']) == ('a', 8, 3)


def test_growths_slope_is_milliseconds_a_segment_for_each_slot():
    def timings():
        for system, slope in (('ours', 0.01), ('other', 0.1)):
            for length in (100, 200, 400):
                work = Work('evaluate', batch_size=1, segment_length=8, memory_length=length, count=5)
                seconds = (2 + slope * length) / 1e3 * work.count
                yield 'memory_length', system, work, [Timing(seconds, 1, length)] * 3
        yield 'batch_size', 'ours', WORK, [Timing(0.03, 1, 5), Timing(0.06, 1, 5), Timing(0.9, 1, 5)]

    growth = growth_of(timings())
    assert growth['slopes'] == pytest.approx({'ours': 0.01, 'other': 0.1})
    assert growth['slope_ratio'] == pytest.approx(0.1)
    last = growth['points'][-1]
    assert last == {'series': 'batch_size', 'system': 'ours', 'value': 2, 'milliseconds': 20, 'memory_bytes': 5}


@pytest.mark.parametrize('quick', [False, True])
def test_whole_calls_are_timed(quick):
    works = [*(each.work for each in comparisons(quick).values()), *(work for _, work in growth_works(quick))]
    assert all(work.count % SEGMENTS_A_CALL == 0 for work in works if work.kind == 'evaluate')


def test_every_series_changes_its_own_field():
    for series, changes in SERIES.items():
        values = [getattr(work, series) for name, work in growth_works(quick=False) if name == series]
        assert values == [change[series] for change in changes]


def test_our_side_does_the_work_it_is_asked_for():
    tiny = {'num_layers': 2, 'model_dim': 8, 'num_heads': 2, 'mlp_dim': 8, 'vocab_size': 5}
    request = {'kind': 'evaluate', 'batch_size': 2, 'segment_length': 4, 'memory_length': 8, 'count': 8, **tiny}
    done = answer(request)
    assert done['tokens'] == 2 * 4 * 8
    # Two layers, two rows, eight slots: keys and values of width 8 in float32; and positions and counts.
    states = 2 * 2 * 8 * 8 * 4
    assert 2 * states < done['bytes'] < 3 * states
    decoded = answer({**request, 'kind': 'decode', 'count': 5})
    assert decoded['tokens'] == 2 * 5
    compressed = answer({**request, 'compressed_memory_length': 4, 'compression_rate': 2})
    assert compressed['bytes'] > done['bytes'] + 3 * states // 2 - 1


def test_our_side_compresses_as_it_is_asked_to():
    def model(compression):
        lengths = {'segment_length': 8, 'memory_length': 8, 'compressed_memory_length': 8}
        return model_of(Work('evaluate', 1, count=8, compression_rate=2, compression=compression, **lengths))

    assert model('mean') == model('mean') != model('conv')
