from __future__ import annotations

import json
import math
import os
import pathlib
import signal

import jax
import numpy as np
import pytest

from memjax.errors import ConfigError, TrainingError, UserError
from memjax.evaluation.loading import load_run
from memjax.runs.workdir import read_config
from memjax.training.loop import Training, train
from memjax.training.optimization_study import measured, study_optimization, ways_of
from memjax.training.optimizer import learning_rate


@pytest.fixture(scope='module')
def make_study(tmp_path_factory):
    """A run of 6 steps without accumulation, and its study, made once."""
    made = {}

    def make(config, data_dir):
        if not made:
            workdir = tmp_path_factory.mktemp('studied')
            config.training.update(num_steps=6, update_period=1, update_period_start=0)
            train(config, workdir, data_dir)
            result = study_optimization(workdir, data_dir, read_config(workdir), 8, [1e-9], [2])
            made.update(workdir=workdir, result=result)
        return made['workdir'], made['result']

    return make


@pytest.fixture
def study(tiny_config, data_dir, make_study):
    return make_study(tiny_config, data_dir)


@pytest.mark.slow
def test_branches_differ_in_rate_or_period_alone(study):
    workdir, result = study
    rate = float(learning_rate(read_config(workdir).training)(6))
    assert [
        (each['name'], each['learning_rate'], each['update_period'], each['updates']) for each in result['branches']
    ] == [
        ('as_it_was', rate, 1, 8),
        ('learning_rate_1e-09', 1e-9, 1, 8),
        ('update_period_2', rate, 2, 4),
    ]
    configs = [read_config(path).to_dict() for path in sorted((workdir / 'branches').iterdir())]
    assert len(configs) == 3
    for config in configs:
        assert config.pop('name')
        for name in ('learning_rate', 'learning_rate_end', 'update_period'):
            config['training'].pop(name)
    assert configs[0] == configs[1] == configs[2]


@pytest.mark.slow
def test_a_rate_of_nothing_leaves_the_parameters_and_the_others_learn(study):
    workdir, result = study
    before = load_run(workdir).params
    moved = {
        each['name']: max(
            jax.tree.leaves(
                jax.tree.map(
                    lambda new, old: float(np.abs(new - old).max()),
                    load_run(workdir / 'branches' / f'tiny-6-8-{each["name"]}').params,
                    before,
                )
            )
        )
        for each in result['branches']
    }
    assert moved['learning_rate_1e-09'] < 1e-7
    assert moved['as_it_was'] > moved['update_period_2'] > 1e-3


@pytest.mark.slow
def test_what_is_written_is_what_the_branches_measured(study):
    workdir, result = study
    assert json.loads((workdir / 'eval' / 'optimization_train.json').read_text()) == result
    assert (workdir / 'eval' / 'optimization_train.png').read_bytes().startswith(b'\x89PNG')
    assert (result['step'], result['branch_steps'], result['split'], result['config']) == (6, 8, 'train', 'tiny')
    for each in result['branches']:
        metrics = [
            json.loads(line)
            for line in (workdir / 'branches' / f'tiny-6-8-{each["name"]}' / 'metrics.jsonl').read_text().splitlines()
        ]
        training = {line['step']: line['bpc'] for line in metrics if line['split'] == 'train'}
        assert {point['step']: point['bpc'] for point in each['curve']} == training
        assert list(training) == list(range(7, 15))
        assert each['train']['bpc'] == pytest.approx(np.mean([training[step] for step in range(11, 15)]))
        assert each['validation']['bpc'] == [line['bpc'] for line in metrics if line['split'] == 'validation'][-1]


@pytest.mark.slow
def test_done_again_nothing_is_trained_again(study, data_dir, capfd):
    workdir, result = study
    stamps = {path: path.stat().st_mtime_ns for path in pathlib.Path(workdir).rglob('metrics.jsonl')}
    again = study_optimization(workdir, data_dir, read_config(workdir), 8, [1e-9], [2])
    assert again == result
    assert {path: path.stat().st_mtime_ns for path in pathlib.Path(workdir).rglob('metrics.jsonl')} == stamps
    assert 'update_period_2' in capfd.readouterr().out


@pytest.mark.slow
def test_from_another_directory_and_to_another_length(study, data_dir, monkeypatch):
    workdir, result = study
    monkeypatch.chdir(workdir.parent)
    relative = pathlib.Path(workdir.name)
    assert study_optimization(relative, data_dir, read_config(workdir), 8, [1e-9], [2]) == result
    shorter = study_optimization(relative, data_dir, read_config(workdir), 2, [1e-9], step=6)
    assert shorter['branch_steps'] == 2
    assert [[point['step'] for point in each['curve']] for each in shorter['branches']] == [[7, 8], [7, 8]]
    (workdir / 'eval' / 'optimization_train.json').write_text(json.dumps(result))


@pytest.mark.slow
def test_a_study_that_is_stopped_at_the_end_of_a_branch_stops(tiny_config, data_dir, tmp_path, monkeypatch):
    tiny_config.training.update(num_steps=3, update_period=1, update_period_start=0)
    train(tiny_config, tmp_path, data_dir)
    validate = Training.validate

    def stopped(self, params):
        os.kill(os.getpid(), signal.SIGTERM)
        return validate(self, params)

    monkeypatch.setattr(Training, 'validate', stopped)
    with pytest.raises(SystemExit) as stop:
        study_optimization(tmp_path, data_dir, tiny_config, 2, [1e-9])
    assert stop.value.code == 143
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / 'branches').iterdir()] == ['tiny-3-2-as_it_was']
    assert len(study_optimization(tmp_path, data_dir, tiny_config, 2, [1e-9])['branches']) == 2


def test_means_are_over_steps_and_lines_without_a_loss_count_nothing():
    def line(step, loss, split='train'):
        return {'step': step, 'split': split, 'loss': loss, 'ppl': None if loss is None else math.exp(loss)}

    # A hundred steps from 50 on, a line each 40: the last one is of 30 steps, that at 120 was padding alone.
    records = [line(80, 9.0), line(120, None), line(140, 3.0), line(150, 7.0), line(150, 2.5, 'validation')]
    found = measured(records, 50, 100)
    assert found['train'] == pytest.approx({'loss': (20 * 3.0 + 10 * 7.0) / 30, 'ppl': math.exp(130 / 30)})
    assert found['validation'] == {'loss': 2.5, 'ppl': math.exp(2.5)}
    assert [point['step'] for point in found['curve']] == [80, 140, 150]
    with pytest.raises(TrainingError, match='nothing was scored in the last half'):
        measured([line(80, 9.0), line(150, None), line(150, 2.5, 'validation')], 50, 100)


@pytest.mark.slow
def test_what_cannot_be_studied_is_told_before_anything_is_trained(study, tiny_config, data_dir, tmp_path):
    workdir, _ = study
    config = read_config(workdir)
    with pytest.raises(ConfigError, match='give learning rates, update periods or both'):
        study_optimization(workdir, data_dir, config, 8)
    branches = sorted(path.name for path in (workdir / 'branches').iterdir())
    with pytest.raises(ConfigError, match=r'learning_rate=0\.0 must be above 0'):
        study_optimization(workdir, data_dir, config, 8, [0.0], step=4)
    with pytest.raises(UserError, match='no checkpoint 5'):
        study_optimization(workdir, data_dir, config, 8, [1e-9], step=5)
    assert sorted(path.name for path in (workdir / 'branches').iterdir()) == branches
    tiny_config.training.update(num_steps=6, update_period=2, update_period_start=4)
    train(tiny_config, tmp_path, data_dir)
    with pytest.raises(ConfigError, match='does not fit the updates'):
        study_optimization(tmp_path, data_dir, tiny_config, 8, update_periods=[4])
    assert not (tmp_path / 'branches').exists()
    tiny_config.training.update(decay_steps=6, learning_rate_end=0.0)
    with pytest.raises(ConfigError, match='the learning rate is 0 at step 6'):
        study_optimization(tmp_path, data_dir, tiny_config, 8, [1e-9])


def test_ways_that_are_the_same_are_tried_once(tiny_config):
    training = tiny_config.training
    rate = float(learning_rate(training)(3))
    assert [way.name for way in ways_of(training, 3, [rate, 1e-4, 1.0000001e-4], [1, 2])] == [
        'as_it_was', 'learning_rate_0.0001', 'learning_rate_0.00010000001', 'update_period_2',
    ]  # fmt: skip
