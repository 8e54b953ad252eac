"""Whole benchmarks of made-up systems: some work, some are not there, some die, some cannot do the work."""

import json
import sys

import made_up
import pytest

from memjax.benchmark import run as module
from memjax.benchmark.comparisons import Comparison
from memjax.benchmark.peers import Peer
from memjax.benchmark.run import bench
from memjax.benchmark.work import Work, Worker
from memjax.errors import BenchmarkError

WORK = Work('evaluate', batch_size=1, segment_length=8, memory_length=8, count=8)
UNLUCKY = Work('evaluate', batch_size=1, segment_length=8, memory_length=13, count=8)


@pytest.fixture
def environments(tmp_path):
    return tmp_path / 'peers'


@pytest.fixture
def run_with(tmp_path, environments, monkeypatch):
    """Runs bench with comparisons, the growth's peer, and the program that stands for ours."""

    def run(comparisons, growth_with, ours=None, repeats=1):
        class Stand(Worker):
            def __init__(self, name, command, threads):
                if name == 'memjax':
                    assert command[1:] == ['-m', 'memjax.benchmark.ours']
                    command = [sys.executable, str(ours or made_up.program(tmp_path))]
                super().__init__(name, command, threads)

        monkeypatch.setattr(module, 'Worker', Stand)
        monkeypatch.setattr(module, 'comparisons', lambda quick: comparisons)
        monkeypatch.setattr(module, 'table', lambda result: [f'{name} {ratio}' for name, ratio in ratios(result)])
        monkeypatch.setattr(module, 'TRANSFO_XL', growth_with)
        return bench(tmp_path / 'results' / 'bench.json', environments, install=False, threads=1, repeats=repeats)

    def ratios(result):
        return result['ratios'].items()

    return run


def test_every_system_is_compared_with_ours(tmp_path, environments, run_with, capsys):
    slow = made_up.installed(tmp_path, environments, 'slow', slower=4)
    slower = made_up.installed(tmp_path, environments, 'slower', slower=6)
    result = run_with(
        {'a': Comparison(slow, WORK), 'b': Comparison(slower, WORK), 'c': Comparison(slower, WORK, 'not built')}, slow
    )
    out = tmp_path / 'results' / 'bench.json'
    assert json.loads(out.read_text()) == result
    assert result['ratios'] == {'a': pytest.approx(4.0), 'b': pytest.approx(6.0), 'c': None}
    assert result['missing'] == {'c': 'not built'}
    assert [(row['name'], row['system']) for row in result['rows']] == [
        ('a', 'memjax'), ('a', 'slow'), ('b', 'memjax'), ('b', 'slower'),
    ]  # fmt: skip
    assert result['machine'].items() >= {'system': '1.0', 'slow': '1.0', 'slower': '1.0'}.items()
    assert result['requirements'] == {'slow': ['nothing'], 'slower': ['nothing']}
    assert result['growth']['slope_ratio'] == pytest.approx(0.25)
    assert {point['series'] for point in result['growth']['points'] if point['system'] == 'slow'} == {'memory_length'}
    assert out.with_name('bench_growth.png').read_bytes().startswith(b'\x89PNG')
    assert capsys.readouterr().out.splitlines()[-4:-1] == ['a 4.0', 'b 6.0', 'c None']


def test_growth_is_timed_in_turns_too(tmp_path, environments, run_with, monkeypatch):
    slow = made_up.installed(tmp_path, environments, 'slow', slower=4)
    timed, time = [], Worker.time
    monkeypatch.setattr(Worker, 'time', lambda self, work: timed.append((self.name, work)) or time(self, work))
    run_with({'a': Comparison(slow, WORK)}, slow, repeats=2)
    # Once before it counts, then as often as asked for.
    assert [name for name, work in timed if work.memory_length == 3840] == ['memjax', 'slow'] * 3


def test_one_that_is_not_there_and_one_that_dies_leave_the_others(tmp_path, environments, run_with, capsys):
    absent = Peer('absent', ('nothing==1',), tmp_path / 'program.py')
    dies = made_up.installed(tmp_path, environments, 'dies', slower=2)
    slow = made_up.installed(tmp_path, environments, 'slow', slower=4)
    comparisons = {
        'a': Comparison(absent, WORK),
        'b': Comparison(dies, WORK),
        'c': Comparison(dies, UNLUCKY),
        'd': Comparison(dies, WORK),
        'e': Comparison(slow, WORK),
    }
    ours = made_up.program(tmp_path, name='ours')
    ours.write_text(ours.read_text().replace('13', '14'))  # ours does not die of what kills the other
    result = run_with(comparisons, absent, ours)
    assert result['ratios'] == {'a': None, 'b': pytest.approx(2), 'c': None, 'd': None, 'e': pytest.approx(4)}
    assert set(result['missing']) == {'a', 'c', 'd'}
    assert 'absent is not installed' in result['missing']['a'] and 'bad luck' in result['missing']['c']
    assert str(tmp_path) not in json.dumps(result['missing'])
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and told[0].startswith('absent is not') and told[1].startswith('dies failed')
    # The growth of ours needs no other.
    assert set(result['growth']['slopes']) == {'memjax'} and result['growth']['slope_ratio'] is None


def test_one_that_dies_in_the_growth_leaves_ours(tmp_path, environments, run_with, capsys):
    slow = made_up.installed(tmp_path, environments, 'slow', slower=4)
    slow.program.write_text(slow.program.read_text().replace('13', '960'))
    result = run_with({'a': Comparison(slow, WORK)}, slow)
    assert result['ratios'] == {'a': pytest.approx(4.0)}
    assert set(result['growth']['slopes']) == {'memjax'}
    assert 'bad luck' in capsys.readouterr().err


def test_without_any_other_there_is_no_result(tmp_path, run_with):
    absent = Peer('absent', ('nothing==1',), tmp_path / 'program.py')
    with pytest.raises(BenchmarkError, match='no other implementation runs: absent is not installed'):
        run_with({'a': Comparison(absent, WORK)}, absent)
    assert not (tmp_path / 'results').exists()


def test_a_failure_of_ours_is_not_taken_for_the_others(tmp_path, environments, run_with):
    slow = made_up.installed(tmp_path, environments, 'slow')
    slow.program.write_text(slow.program.read_text().replace('13', '14'))
    with pytest.raises(BenchmarkError, match=r'^memjax failed .*memory_length.: 13'):
        run_with({'a': Comparison(slow, WORK), 'b': Comparison(slow, UNLUCKY)}, slow)
