"""Filling a table: what is missing is run, what is unfinished resumed, what is done left; and what it costs is said."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from memjax import config as config_lib
from memjax.errors import UserError
from memjax.report import reproduce as reproducing
from memjax.report.experiments import Experiment, Row, Table, settings
from memjax.report.reproduce import listing, reproduce
from memjax.report.states import newest_step

ONE, OTHER, NEEDLE = Experiment('demo_ct'), Experiment('demo_txl'), Experiment('needle_ct')
FLAT = Experiment('demo_ct', ('--config.model.num_layers=1',), 'flat')
TABLE = Table('x1', 'made up', 'Paper, Table 1', 'bpc', (Row('one', '1.0', tiny=ONE), Row('other', '1.1', tiny=FLAT)))
SWEEP = Table(
    'x2', 'made up', 'Paper, Table 2', 'bpc',
    tuple(Row(f'at {n}', tiny=ONE, sweeps='memory_length', full_at=8 * n, tiny_at=n) for n in (128, 256)),
)  # fmt: skip
PROBE = Table('x3', 'made up', '', 'accuracy', (Row('probe', tiny=NEEDLE),), kind='needle_test')


class Launchers:
    """Stands in for the processes: a training leaves a checkpoint, an evaluation leaves its file."""

    def __init__(self, score_of):
        self._score_of = score_of
        self.calls, self.codes = [], {}

    def __call__(self, command):
        launcher, flags = pathlib.Path(command[1]).stem, dict(flag.split('=', 1) for flag in command[2:])
        workdir = pathlib.Path(flags['--workdir'])
        name, _, seed = workdir.name.rpartition('-')
        self.calls.append((launcher, workdir.name))
        code = self.codes.pop((launcher, workdir.name), 0)
        if code:
            return code
        experiment = next(each for each in (ONE, OTHER, FLAT, NEEDLE) if each.run_name == name)
        score = self._score_of(experiment, int(seed))
        if launcher == 'train':
            assert command[2:-2] == experiment.arguments(int(seed))
            assert command[-1] == '--data_dir=/data'
            if newest_step(workdir) < score['step']:
                checkpoint(workdir, score['step'])
            return 0
        kind = {'eval': 'test', 'needle': 'needle_test', 'sweep': f'sweep_{flags.get("--what")}_test'}[launcher]
        if launcher == 'needle':
            score |= {'accuracy': 0.5, 'bins': [{'from': 8, 'to': 12, 'questions': 3, 'accuracy': 0.5}]}
        if launcher == 'sweep':
            scores = [score | {flags['--what']: int(value)} for value in flags['--values'].split(',')]
            score = {'what': flags['--what'], 'split': 'test', 'results': [at(each, each) for each in scores]}
        (workdir / 'eval').mkdir(exist_ok=True)
        (workdir / 'eval' / f'{kind}.json').write_text(json.dumps(score))
        (workdir / 'eval' / f'{kind}.png').write_bytes(b'a figure')
        return 0


def at(score, swept):
    return score | {'protocol': score['protocol'] | {'memory_length': swept['memory_length']}}


def checkpoint(workdir, step):
    (workdir / 'checkpoints' / str(step)).mkdir(parents=True)
    (workdir / 'checkpoints' / f'{step}.sha256').write_text('')


@pytest.fixture
def launchers(score_of):
    return Launchers(score_of)


@pytest.fixture
def fill(launchers, results_dir, tmp_path, capsys):
    """A function: fills a table with the stand-in; returns what was called, the exit code, and what was said."""

    def run(table, seeds=1, scale='tiny', call=launchers, **options):
        launchers.calls.clear()
        code = 0
        try:
            reproduce(table, scale, seeds, '/data', results_dir, tmp_path / 'runs', call=call, **options)
        except SystemExit as exit_:
            code = exit_.code
        return list(launchers.calls), code, capsys.readouterr().out

    return run


def test_what_is_missing_is_run_and_nothing_is_done_again(fill, results_dir):
    calls, code, said = fill(TABLE, seeds=2)
    assert code == 0
    assert calls == [
        (launcher, run)
        for run in ('demo_ct-0', 'flat-0', 'demo_ct-1', 'flat-1')
        for launcher in ('train', 'eval')
    ]  # fmt: skip
    assert said.index('to be run: 4 of 4') < said.index('$ ')
    written = {path.name: path.stat().st_mtime_ns for path in (results_dir / 'runs').iterdir()}
    assert {name for name in written if name.endswith('.json')} == {
        'demo_ct-0-test.json', 'flat-0-test.json', 'demo_ct-1-test.json', 'flat-1-test.json',
    }  # fmt: skip
    calls, code, said = fill(TABLE, seeds=2)
    assert (calls, code) == ([], 0)
    assert 'nothing is left to be run' in said
    assert written == {path.name: path.stat().st_mtime_ns for path in (results_dir / 'runs').iterdir()}
    assert fill(TABLE, seeds=3)[0] == [
        ('train', 'demo_ct-2'), ('eval', 'demo_ct-2'), ('train', 'flat-2'), ('eval', 'flat-2'),
    ]  # fmt: skip


def test_a_collected_result_says_how_it_was_made(fill, results_dir, score_of):
    fill(TABLE, seeds=1)
    data = json.loads((results_dir / 'runs' / 'flat-0-test.json').read_text())
    assert data.pop('command') == (
        'python launch/train.py --config=configs/demo_ct.py --config.name=flat --config.model.num_layers=1 '
        '--config.training.seed=0'
    )
    assert data.pop('settings') == settings(FLAT.load())
    assert data == json.loads(json.dumps(score_of(FLAT)))
    assert (results_dir / 'runs' / 'flat-0-test.png').read_bytes() == b'a figure'


def test_each_kind_of_result_has_its_launcher_and_a_run_is_shared(fill, results_dir, tmp_path):
    fill(TABLE)
    calls, code, _ = fill(SWEEP)
    assert (calls, code) == ([('train', 'demo_ct-0'), ('sweep', 'demo_ct-0')], 0)  # training finds itself finished
    swept = json.loads((results_dir / 'runs' / 'demo_ct-0-sweep_memory_length_test.json').read_text())
    assert [result['memory_length'] for result in swept['results']] == [128, 256]
    calls, code, _ = fill(PROBE)
    assert (calls, code) == ([('train', 'needle_ct-0'), ('needle', 'needle_ct-0')], 0)


def test_a_sweep_with_a_value_too_few_is_unfinished(fill, results_dir):
    fill(SWEEP)
    path = results_dir / 'runs' / 'demo_ct-0-sweep_memory_length_test.json'
    data = json.loads(path.read_text())
    data['results'].pop()
    path.write_text(json.dumps(data))
    assert 'unfinished  demo_ct-0-sweep' in fill(SWEEP, dry_run=True)[2]


def test_a_crash_leaves_the_others_and_is_tried_again(fill, launchers, results_dir):
    launchers.codes = {('train', 'demo_ct-0'): -9, ('eval', 'flat-1'): 1}
    calls, code, said = fill(TABLE, seeds=2)
    assert code == 1
    assert len(calls) == 7
    assert 'crashed: demo_ct-0-test.json, flat-1-test.json' in said
    assert {path.name for path in (results_dir / 'runs').glob('*.json')} == {'flat-0-test.json', 'demo_ct-1-test.json'}
    calls, code, _ = fill(TABLE, seeds=2)
    assert (code, {run for _, run in calls}) == (0, {'demo_ct-0', 'flat-1'})


@pytest.mark.parametrize(('exit_code', 'expected'), [(130, 130), (143, 143), (-15, 143), (-2, 130), (2, 2)])
def test_a_stop_or_a_users_error_ends_all(fill, launchers, exit_code, expected):
    launchers.codes = {('train', 'flat-0'): exit_code}
    calls, code, _ = fill(TABLE, seeds=2)
    assert code == expected
    assert calls == [('train', 'demo_ct-0'), ('eval', 'demo_ct-0'), ('train', 'flat-0')]


def test_an_evaluation_that_is_not_what_was_wanted_is_no_result(fill, launchers, results_dir, score_of, tmp_path):
    where = tmp_path / 'runs' / 'demo_ct-0' / 'eval'
    where.mkdir(parents=True)
    (where / 'test.json').write_text(json.dumps(score_of(ONE, step=20)))
    calls, _, _ = fill(TABLE)
    assert calls[:2] == [('train', 'demo_ct-0'), ('eval', 'demo_ct-0')]
    assert json.loads((results_dir / 'runs' / 'demo_ct-0-test.json').read_text())['step'] == 1080


def test_a_result_of_another_experiment_is_not_replaced(fill, put, score_of, results_dir):
    put('demo_ct-0-test.json', score_of(ONE, step=20))
    with pytest.raises(UserError, match=r'demo_ct-0-test\.json is of another experiment \(step 20, not 1,080\)'):
        fill(TABLE)
    put('demo_ct-0-test.json', score_of(ONE))
    plan = {'parameters': 1235, 'train_tokens': 1, 'train_flops': 1, 'settings': ''}
    (results_dir / 'plans.json').write_text(json.dumps({'plans': {'demo_ct': plan}}))
    with pytest.raises(UserError, match='parameters 1,234, not 1,235'):
        fill(TABLE)


def test_a_table_without_rows_of_a_scale(fill):
    with pytest.raises(UserError, match=r'^x1 has no full rows: --scale=tiny has$'):
        fill(TABLE, scale='full')


def test_the_forecast(fill, put, score_of, results_dir, tmp_path):
    plans = {
        name: {'parameters': 1234, 'train_tokens': tokens, 'train_flops': 10**6 * tokens, 'settings': ''}
        for name, tokens in (('demo_ct', 1_080_000), ('flat', 540_000))
    }
    (results_dir / 'plans.json').write_text(json.dumps({'plans': plans}))
    put('demo_ct-0-test.json', score_of(ONE))
    checkpoint(tmp_path / 'runs' / 'demo_ct-1', 540)
    (tmp_path / 'runs' / 'demo_ct-1' / 'checkpoints' / '700').mkdir()  # without a digest
    calls, _, said = fill(TABLE, seeds=2, dry_run=True)
    assert calls == []
    # The committed file: 100 s for 5,000,000 tokens, and an evaluation of 60 s.
    assert said.splitlines() == [
        'x1, tiny: made up',
        '  done        demo_ct-0-test.json',
        '  missing     flat-0-test.json: 540,000 tokens, 5.40e11 FLOPs, time unknown',
        '  unfinished  demo_ct-1-test.json, at step 540 of 1,080: 540,000 tokens, 5.40e11 FLOPs, time unknown here '
        '(about 1 min where demo_ct-0-test.json was made)',
        '  missing     flat-1-test.json: 540,000 tokens, 5.40e11 FLOPs, time unknown',
        'to be run: 3 of 4; 1.62 million tokens, 1.62e12 FLOPs; an unknown time',
    ]
    where = tmp_path / 'runs' / 'flat-7'
    (where / 'eval').mkdir(parents=True)
    (where / 'eval' / 'test.json').write_text(json.dumps(score_of(FLAT, train_tokens=1000, train_seconds=1.0)))
    (tmp_path / 'runs' / 'demo_ct-1' / 'metrics.jsonl').write_text('{"step": 3, "tokens_per_second": 100.0}\n')
    said = fill(TABLE, seeds=2, dry_run=True)[2].splitlines()
    assert said[2].endswith('FLOPs, about 10 min')  # 540 s and an evaluation of 60 s
    assert said[3].endswith('FLOPs, about 90 min')
    assert said[-1].endswith('; about 110 min')


def test_the_list(fill, put, score_of, results_dir, tmp_path):
    put('demo_ct-1-test.json', score_of(ONE, 1))
    put('flat-0-test.json', score_of(FLAT, step=3))
    checkpoint(tmp_path / 'runs' / 'demo_ct-2', 540)
    assert listing([TABLE, SWEEP], results_dir, tmp_path / 'runs', seeds=3).splitlines() == [
        'x1  made up; Paper, Table 1',
        '  one       1.0  tiny: done 1, unfinished 2, missing 0',
        '  other     1.1  tiny: of another experiment 0, missing 1, 2',
        '',
        'x2  made up; Paper, Table 2',
        '  at 128       -  tiny: unfinished 2, missing 0, 1',
        '  at 256       -  tiny: unfinished 2, missing 0, 1',
    ]


def test_a_process_is_asked_to_stop_when_this_one_is(tmp_path):
    child = tmp_path / 'child.py'
    child.write_text(
        'import pathlib, signal, sys, time\n'
        f'folder = pathlib.Path({str(tmp_path)!r})\n'
        'def stop(number, frame):\n'
        '    (folder / "saved").write_text(""); sys.exit(143)\n'
        'signal.signal(signal.SIGTERM, stop)\n'
        '(folder / "ready").write_text("")\n'
        'time.sleep(60)\n'
    )
    parent = f'import sys; from memjax.report.reproduce import _call; _call([sys.executable, {str(child)!r}])'
    process = subprocess.Popen([sys.executable, '-c', parent])
    try:
        while not (tmp_path / 'ready').exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
    finally:
        process.kill()
    assert (tmp_path / 'saved').exists()


@pytest.mark.slow
def test_real_runs_are_killed_resumed_and_not_done_again(tiny_config, tmp_path, results_dir, capsys):
    tiny_config.name = 'small'
    tiny_config.model.dropout_rate = tiny_config.model.attention_dropout_rate = 0.0
    tiny_config.training.num_steps = tiny_config.training.decay_steps = 400
    tiny_config.training.eval_every = 400
    tiny_config.training.checkpoint_every = 20
    (tmp_path / 'small.py').write_text(
        'from memjax.config import from_json\n'
        f'def get_config():\n    return from_json({config_lib.to_json(tiny_config)!r})\n'
    )
    small = Experiment(str(tmp_path / 'small'))
    pooled = Experiment(str(tmp_path / 'small'), ('--config.model.compression=max',), 'pooled')
    pooled = Experiment(pooled.config, (*pooled.flags, '--config.model.compression_loss=none'), pooled.name)
    table = Table('x1', 'made up', 'Paper', 'bpc', (Row('small', tiny=small), Row('pooled', tiny=pooled)))
    runs, commands = tmp_path / 'runs', []

    def call(command):
        workdir = next(flag for flag in command if flag.startswith('--workdir='))
        commands.append((pathlib.Path(command[1]).stem, pathlib.Path(workdir).name))
        if len(commands) > 1:
            return reproducing._call(command)
        process = subprocess.Popen(command)
        while newest_step(runs / 'small-0') < 20:
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        return process.wait()

    def run():
        reproduce(table, 'tiny', 1, tmp_path / 'data', results_dir, runs, call=call)

    with pytest.raises(SystemExit) as exit_:
        run()
    assert exit_.value.code == 1
    assert commands == [('train', 'small-0'), ('train', 'pooled-0'), ('eval', 'pooled-0')]
    reached = newest_step(runs / 'small-0')
    assert 20 <= reached < 400
    done = results_dir / 'runs' / 'pooled-0-test.json'
    before = done.stat().st_mtime_ns
    capsys.readouterr()

    commands.append('again')
    run()
    assert f'unfinished  small-0-test.json, at step {reached} of 400' in capsys.readouterr().out
    assert commands[4:] == [('train', 'small-0'), ('eval', 'small-0')]
    assert done.stat().st_mtime_ns == before
    steps = [json.loads(line)['step'] for line in (runs / 'small-0' / 'metrics.jsonl').read_text().splitlines()]
    assert steps == sorted(steps)
    for name in ('small', 'pooled'):
        result = json.loads((results_dir / 'runs' / f'{name}-0-test.json').read_text())
        assert (result['config'], result['step'], result['scored']) == (name, 400, result['targets'])

    commands.clear()
    run()
    assert commands == []
