from __future__ import annotations

import json
import pathlib

import jax
import numpy as np
import pytest

from memjax.errors import ConfigError, UserError
from memjax.evaluation.loading import load_run
from memjax.runs.workdir import read_config
from memjax.training.loop import train
from memjax.training.optimization_study import study_optimization
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


def test_a_rate_of_nothing_leaves_the_parameters_and_the_others_learn(study):
    workdir, result = study
    before = load_run(workdir).params
    moved = {
        each['name']: max(
            jax.tree.leaves(
                jax.tree.map(
                    lambda new, old: float(np.abs(new - old).max()),
                    load_run(workdir / 'branches' / f'6-{each["name"]}').params,
                    before,
                )
            )
        )
        for each in result['branches']
    }
    assert moved['learning_rate_1e-09'] < 1e-7
    assert moved['as_it_was'] > moved['update_period_2'] > 1e-3


def test_what_is_written_is_what_the_branches_measured(study):
    workdir, result = study
    assert json.loads((workdir / 'eval' / 'optimization_train.json').read_text()) == result
    assert (workdir / 'eval' / 'optimization_train.png').read_bytes().startswith(b'\x89PNG')
    assert (result['step'], result['branch_steps'], result['split'], result['config']) == (6, 8, 'train', 'tiny')
    for each in result['branches']:
        metrics = [
            json.loads(line)
            for line in (workdir / 'branches' / f'6-{each["name"]}' / 'metrics.jsonl').read_text().splitlines()
        ]
        training = {line['step']: line['bpc'] for line in metrics if line['split'] == 'train'}
        assert {point['step']: point['bpc'] for point in each['curve']} == training
        assert list(training) == list(range(7, 15))
        assert each['train']['bpc'] == pytest.approx(np.mean([training[step] for step in range(11, 15)]))
        assert each['validation']['bpc'] == [line['bpc'] for line in metrics if line['split'] == 'validation'][-1]


def test_done_again_nothing_is_trained_again(study, data_dir, capfd):
    workdir, result = study
    stamps = {path: path.stat().st_mtime_ns for path in pathlib.Path(workdir).rglob('metrics.jsonl')}
    again = study_optimization(workdir, data_dir, read_config(workdir), 8, [1e-9], [2])
    assert again == result
    assert {path: path.stat().st_mtime_ns for path in pathlib.Path(workdir).rglob('metrics.jsonl')} == stamps
    assert 'update_period_2' in capfd.readouterr().out


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
    with pytest.raises(ConfigError, match='must stay at 2'):
        study_optimization(tmp_path, data_dir, tiny_config, 8, update_periods=[4])
    assert not (tmp_path / 'branches').exists()
