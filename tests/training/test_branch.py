from __future__ import annotations

import shutil

import jax
import numpy as np
import pytest

from memjax.errors import CheckpointError, ConfigError, WorkdirError
from memjax.evaluation.loading import load_run
from memjax.runs import metrics_file
from memjax.training.loop import train
from memjax.training.optimizer import training_step, updates_done


@pytest.fixture(scope='module')
def make_trunk(tmp_path_factory):
    """Makes the run that branches leave, once: every step is an update until 4, every second one after."""
    made = {}

    def make(config, data_dir):
        if not made:
            made['workdir'] = tmp_path_factory.mktemp('trunk')
            train(config, made['workdir'], data_dir)
        return made['workdir']

    return make


@pytest.fixture
def trunk(tiny_config, data_dir, make_trunk):
    tiny_config.training.checkpoints_to_keep = 5
    return make_trunk(tiny_config, data_dir)


def branch(config, trunk, step, **training):
    config.name = 'branch'
    config.training.update(branch_from=str(trunk), branch_step=step, **training)
    return config


def lines(workdir, after):
    timed = ('tokens_per_second', 'data_wait_share')
    return [
        {name: value for name, value in record.items() if name not in timed}
        for record in metrics_file.read(workdir / 'metrics.jsonl')
        if record['step'] > after
    ]


def assert_same(ours, theirs):
    # Two programs, so the last bits differ; without its moments an update would differ in the first.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), ours, theirs)


@pytest.mark.parametrize('step', [4, *(pytest.param(step, marks=pytest.mark.slow) for step in (6, 8))])
def test_a_branch_that_changes_nothing_is_the_run_itself(trunk, tiny_config, data_dir, tmp_path, step):
    train(branch(tiny_config, trunk, step), tmp_path / 'branch', data_dir)
    ours, theirs = load_run(tmp_path / 'branch'), load_run(trunk)
    jax.tree.map(np.testing.assert_array_equal, ours.params, theirs.params)
    assert (ours.step, ours.host['cursor'], ours.host['tokens']) == (12, theirs.host['cursor'], theirs.host['tokens'])
    # A first line is of what was read since the branch began, which at steps 4 and 8 is less than the other's is of.
    first, *others = lines(tmp_path / 'branch', 0)
    same_line, *expected = lines(trunk, first['step'] - 1)
    assert others == expected != []
    assert (first == same_line) == (step == 6)


@pytest.mark.slow
def test_the_first_line_of_a_branch_is_of_its_own_steps(trunk, tiny_config, data_dir, tmp_path):
    config = branch(tiny_config, trunk, 4, num_steps=6)
    train(config, tmp_path / 'one', data_dir)
    config.training.log_every = 1
    train(config, tmp_path / 'two', data_dir)
    (whole, _), (first, second, _) = lines(tmp_path / 'one', 0), lines(tmp_path / 'two', 0)
    begin = load_run(trunk, step=4).host['tokens']
    counts = first['tokens'] - begin, second['tokens'] - first['tokens']
    assert whole['loss'] == pytest.approx(np.average([first['loss'], second['loss']], weights=counts), rel=1e-6)
    assert whole['grad_norm'] == pytest.approx((first['grad_norm'] + second['grad_norm']) / 2, rel=1e-6)
    assert whole['tokens'] == second['tokens']


@pytest.mark.slow
def test_moments_memory_and_place_survive_a_change_of_period(trunk, tiny_config, data_dir, tmp_path):
    train(branch(tiny_config, trunk, 4, update_period=1, num_steps=6), tmp_path / 'branch', data_dir)
    train(
        branch(tiny_config, trunk, 4, update_period=3, update_period_start=6, num_steps=12),
        tmp_path / 'again',
        data_dir,
    )
    # Both made an update at each of the steps 5 and 6, one without and one with accumulation.
    assert_same(load_run(tmp_path / 'branch').params, load_run(tmp_path / 'again', step=6).params)
    # Out of a run without accumulation, into one with it, it is that run still.
    train(branch(tiny_config, tmp_path / 'branch', 6), tmp_path / 'last', data_dir)
    assert_same(load_run(tmp_path / 'last').params, load_run(tmp_path / 'again').params)


@pytest.mark.slow
def test_a_branch_that_was_stopped_goes_on_from_its_own_checkpoint(trunk, tiny_config, data_dir, tmp_path):
    config = branch(tiny_config, trunk, 4, learning_rate=1e-3, learning_rate_end=1e-3, warmup_steps=0)
    train(config, tmp_path / 'whole', data_dir)
    config.training.num_steps = 8
    train(config, tmp_path / 'twice', data_dir)
    config.training.num_steps = 12
    train(config, tmp_path / 'twice', data_dir)
    jax.tree.map(
        np.testing.assert_array_equal, load_run(tmp_path / 'twice').params, load_run(tmp_path / 'whole').params
    )
    assert [record['step'] for record in lines(tmp_path / 'twice', 0)].count(9) == 1


@pytest.mark.parametrize(
    ('step', 'changes', 'error', 'message'),
    [
        (4, {'training.num_steps': 4}, ConfigError, 'training.num_steps=4 must be above training.branch_step=4'),
        (None, {'training.num_steps': 12}, ConfigError, 'training.num_steps=12 must be above 12'),
        (4, {'training.update_period_start': 2}, ConfigError, 'update_period_start=2 must be at least 4'),
        (8, {'training.update_period': 4}, ConfigError, 'does not fit the updates made until step 8: keep 2 from 4 on'),
        (5, {}, CheckpointError, 'no checkpoint 5'),
        (4, {'model.num_layers': 3}, WorkdirError, 'model.num_layers is 2 there, 3 here'),
        (4, {'data.batch_size': 2}, WorkdirError, 'data.batch_size is 4 there, 2 here'),
        (4, {'training.seed': 1}, WorkdirError, 'training.seed is 0 there, 1 here'),
        (None, {'training.branch_step': 4, 'training.branch_from': None}, ConfigError, 'means nothing without'),
        (4, {'training.init_from': 'elsewhere'}, ConfigError, 'init_from'),
    ],
)
def test_what_a_branch_cannot_be_is_told(trunk, tiny_config, data_dir, tmp_path, step, changes, error, message):
    config = branch(tiny_config, trunk, step)
    for name, value in changes.items():
        section, field = name.split('.')
        config[section][field] = value
    with pytest.raises(error, match=message) as told:
        train(config, tmp_path / 'branch', data_dir)
    assert '\n' not in str(told.value)


@pytest.mark.slow
def test_where_no_branch_could_begin_another_run_can(trunk, tiny_config, data_dir, tmp_path):
    config = branch(tiny_config, trunk, 5)
    with pytest.raises(CheckpointError, match='no checkpoint 5'):
        train(config, tmp_path, data_dir)
    train(branch(config, trunk, 8), tmp_path, data_dir)
    assert load_run(tmp_path).step == 12
    with pytest.raises(WorkdirError, match='branch_step is 8 there, 4 here'):
        train(branch(config, trunk, 4), tmp_path, data_dir)


@pytest.mark.slow
def test_a_branch_of_the_newest_checkpoint_stays_one_of_that(trunk, tiny_config, data_dir, tmp_path):
    config = branch(tiny_config, trunk, None, num_steps=14)
    train(config, tmp_path, data_dir)
    assert load_run(tmp_path).config.training.branch_step == 12
    assert config.training.branch_step is None
    config.training.num_steps = 15
    train(config, tmp_path, data_dir)
    assert load_run(tmp_path).step == 15


@pytest.mark.slow
def test_another_text_is_refused_and_another_place_of_the_same_is_not(
    trunk, tiny_config, data_dir, tmp_path, text_folder
):
    config = branch(tiny_config, trunk, 4, num_steps=5)
    shutil.copytree(text_folder, tmp_path / 'texts')
    config.data.path = str(tmp_path / 'texts')
    train(config, tmp_path / 'same', tmp_path / 'data')
    with (tmp_path / 'texts' / 'train' / '2.txt').open('a') as file:
        file.write('and more')
    with pytest.raises(CheckpointError, match='has its place in another text'):
        train(config, tmp_path / 'other', tmp_path / 'other_data')
    # The same holds for a run that goes on.
    config.training.num_steps = 6
    with pytest.raises(CheckpointError, match='has its place in another text'):
        train(config, tmp_path / 'same', tmp_path / 'other_data')


def test_a_directory_without_a_run_is_told(tiny_config, data_dir, tmp_path):
    with pytest.raises(WorkdirError, match='holds no run'):
        train(branch(tiny_config, tmp_path / 'nothing', None), tmp_path / 'branch', data_dir)


@pytest.mark.parametrize(('period', 'start'), [(1, 0), (4, 0), (4, 7), (3, 5)])
def test_updates_done_inverts_the_training_step_of_an_update(tiny_config, period, start):
    tiny_config.training.update(update_period=period, update_period_start=start)
    for update in range(12):
        step = int(training_step(update, tiny_config.training))
        assert updates_done(step, tiny_config.training) == (update, 0)
        ahead = int(training_step(update + 1, tiny_config.training)) - step
        assert [updates_done(step + each, tiny_config.training) for each in range(ahead)] == [
            (update, each) for each in range(ahead)
        ]
