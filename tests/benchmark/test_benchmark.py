"""The benchmarks' arithmetic and processes, with made-up systems whose speeds are known; nothing is timed here."""

import json
import pathlib
import sys

import pytest

from memjax.benchmark import run as module
from memjax.benchmark.growth import SERIES, growth_of, growth_works
from memjax.benchmark.ours import answer
from memjax.benchmark.peers import Peer
from memjax.benchmark.run import alternate, bench, row_of
from memjax.benchmark.work import Timing, Work, Worker
from memjax.errors import BenchmarkError
from memjax.evaluation.likelihood import SEGMENTS_A_CALL

WORK = Work('evaluate', batch_size=2, segment_length=4, memory_length=8, count=3)

# A system whose every timing takes as many seconds as it has slots of memory, in tenths, and which can die.
SYSTEM = """
import json, sys
for line in sys.stdin:
    work = json.loads(line)
    if work['kind'] == 'versions':
        print(json.dumps({'system': '1.0'}), flush=True)
        continue
    if work['memory_length'] == 13:
        sys.exit('bad luck')
    tokens = work['batch_size'] * work['count']
    print(json.dumps({'seconds': SLOWER * work['memory_length'] / 10, 'tokens': tokens, 'bytes': 7}), flush=True)
"""


def system(tmp_path, slower=1):
    program = tmp_path / f'system_{slower}.py'
    program.write_text(SYSTEM.replace('SLOWER', str(slower)))
    return program


def test_a_worker_answers_and_says_what_it_is(tmp_path):
    with Worker('made up', [sys.executable, str(system(tmp_path))], threads=1) as worker:
        timing = worker.time(WORK)
        assert worker.versions() == {'system': '1.0'}
    assert timing == Timing(seconds=0.8, tokens=6, bytes=7)
    assert timing.rate == pytest.approx(7.5)


def test_a_worker_that_dies_is_told_in_its_last_words(tmp_path):
    with (
        Worker('made up', [sys.executable, str(system(tmp_path))], threads=1) as worker,
        pytest.raises(BenchmarkError, match=r'^made up failed at .*: bad luck$'),
    ):
        worker.time(Work('evaluate', batch_size=1, segment_length=1, memory_length=13, count=1))


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
    works = [*module.comparisons(quick).values(), *(work for _, work in growth_works(quick))]
    assert all(work.count % SEGMENTS_A_CALL == 0 for work in works if work.kind == 'evaluate')


def test_every_series_changes_its_own_field():
    for series, changes in SERIES.items():
        values = [getattr(work, series) for name, work in growth_works(quick=False) if name == series]
        assert values == [change[series] for change in changes]


def test_a_whole_benchmark_of_made_up_systems(tmp_path, monkeypatch, capsys):
    folder = tmp_path / 'peers'
    (folder / 'slow' / 'bin').mkdir(parents=True)
    (folder / 'slow' / 'bin' / 'python').symlink_to(sys.executable)
    (folder / 'slow' / 'installed').write_text('nothing')
    monkeypatch.setattr(module, 'TRANSFO_XL', Peer('slow', ('nothing',), system(tmp_path, slower=4)))
    commands = []

    class Ours(Worker):
        def __init__(self, name, command, threads):
            commands.append(command)
            super().__init__(name, [sys.executable, str(system(tmp_path))] if name == 'memjax' else command, threads)

    monkeypatch.setattr(module, 'Worker', Ours)
    out = tmp_path / 'results' / 'bench.json'
    result = bench(out, folder, install=False, threads=1, repeats=1)
    assert commands[0][1:] == ['-m', 'memjax.benchmark.ours']
    assert json.loads(out.read_text()) == result
    assert result['ratios'] == pytest.approx(dict.fromkeys(module.COMPARISONS, 4.0))
    assert result['growth']['slope_ratio'] == pytest.approx(0.25)
    assert out.with_name('bench_growth.png').read_bytes().startswith(b'\x89PNG')
    assert 'eval_txl_vs_transfoxl' in capsys.readouterr().out


def test_the_readmes_speeds_are_those_of_the_committed_file():
    root = pathlib.Path(__file__).parents[2]
    result, readme = json.loads((root / 'results' / 'bench.json').read_text()), (root / 'README.md').read_text()
    assert set(result['ratios']) == set(module.COMPARISONS)
    assert not result['quick'] and 'dirty' not in result['commit']
    for name, ratio in result['ratios'].items():
        ours, other = (row['tokens_per_second'] for row in result['rows'] if row['name'] == name)
        assert f'| {ours:,.0f} | {other:,.0f} | {ratio:.1f} |' in readme
    assert f'by {result["growth"]["slope_ratio"]:.3f} of' in readme


def test_an_implementation_that_is_not_there(tmp_path):
    peer = Peer('absent', ('nothing==1',), tmp_path / 'program.py')
    with pytest.raises(BenchmarkError, match='absent is not installed'):
        peer.python(tmp_path, install=False)


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
