"""The training loop: what it writes, how it stops and goes on, what it refuses."""

from __future__ import annotations

import functools
import json
import os
import signal

import jax
import numpy as np
import pytest
from variants import VARIANTS

from memjax.config import to_json
from memjax.errors import CheckpointError, ConfigError, DataError, TrainingError, WorkdirError
from memjax.evaluation.loading import load_run
from memjax.models.factory import build_model, empty_segment, init_params
from memjax.runs.checkpoint import Checkpoints
from memjax.runs.workdir import exclusive
from memjax.training import loop
from memjax.training.loop import Training, train
from memjax.training.optimizer import make_optimizer
from memjax.training.step import init_state, make_step


class KilledError(Exception):
    """Stands for a process that is gone."""


def kill():
    raise KilledError


def metrics(workdir):
    """Every line of metrics, less what depends on the clock."""
    lines = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
    for line in lines:
        line.pop('tokens_per_second', None)
        line.pop('data_wait_share', None)
    return lines


def assert_same_run(workdir, other):
    assert metrics(workdir) == metrics(other)
    for ours, theirs in zip(
        jax.tree.leaves(load_run(workdir).params), jax.tree.leaves(load_run(other).params), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


_TRAININGS = {}


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch):
    """Lets trainings of one config share what is fixed for them, so that it is traced and compiled once.

    Processes that share nothing are in test_killed_processes.py.
    """

    def shared(config, corpus):
        key = to_json(config)
        if key not in _TRAININGS:
            _TRAININGS[key] = Training(config.copy_and_resolve_references(), corpus)
        return _TRAININGS[key]

    monkeypatch.setattr(loop, 'Training', shared)


@pytest.fixture
def before_step(monkeypatch):
    """A function: has something happen when a training is about to make its n-th step."""

    def arrange(number, action):
        step, calls = Training.step, []

        def wrapped(self, state, batch):
            calls.append(None)
            if len(calls) == number:
                action()
            return step(self, state, batch)

        monkeypatch.setattr(Training, 'step', wrapped)

    return arrange


@pytest.fixture(scope='module')
def unbroken(tmp_path_factory, request):
    """Makes the run that was never stopped, once."""
    made = {}

    def make(config, data_dir):
        if not made:
            made['workdir'] = tmp_path_factory.mktemp('unbroken')
            train(config, made['workdir'], data_dir)
        return made['workdir']

    return make


def test_run_leaves_metrics_checkpoints_and_config(tiny_config, data_dir, unbroken):
    workdir = unbroken(tiny_config, data_dir)
    lines = metrics(workdir)
    assert [(line['step'], line['split']) for line in lines] == [
        (3, 'train'),
        (6, 'train'),
        (6, 'validation'),
        (9, 'train'),
        (12, 'train'),
        (12, 'validation'),
    ]
    assert set(lines[0]) == {
        'step', 'split', 'loss', 'bpc', 'tokens', 'learning_rate', 'grad_norm', 'compression_grad_norm',
        'compression_loss',
    }  # fmt: skip
    raw = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
    assert all(0 <= line['data_wait_share'] <= 1 for line in raw if line['split'] == 'train')
    assert lines[0]['bpc'] == pytest.approx(lines[0]['loss'] / np.log(2))
    assert lines[-1]['loss'] < lines[0]['loss']
    assert lines[-1]['compression_loss'] > 0 if 'compression_loss' in lines[-1] else lines[-2]['compression_loss'] > 0
    # Of 12 steps of 2 x 4 x 8 places, some are padding at documents' ends.
    assert 12 * 64 * 0.9 < lines[-1]['tokens'] < 12 * 64
    assert (workdir / 'config.json').read_text() == to_json(tiny_config)
    assert list((workdir / 'tensorboard').iterdir())
    checkpoints = Checkpoints(workdir / 'checkpoints')
    assert checkpoints.good_steps()[-1] == 12
    assert checkpoints.host(12)['tokens'] == lines[-1]['tokens']


def test_learning_rate_of_the_log_follows_training_steps(tiny_config, data_dir, unbroken):
    rates = [line['learning_rate'] for line in metrics(unbroken(tiny_config, data_dir)) if line['split'] == 'train']
    fields = tiny_config.training
    # Steps 2, 5, 8, 11 of a warmup of 2 and a cosine until 20.
    progress = (np.array([2, 5, 8, 11]) - 2) / 18
    cosine = (
        fields.learning_rate_end
        + (fields.learning_rate - fields.learning_rate_end) * (1 + np.cos(np.pi * progress)) / 2
    )
    np.testing.assert_allclose(rates, cosine, rtol=1e-5)


def test_half_loss_scores_the_second_half_of_each_segment_alone(tiny_config):
    model = build_model(tiny_config.model)
    optimizer = make_optimizer(tiny_config.training)
    params = init_params(model, 8, jax.random.key(0))
    batch = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), empty_segment(4, 8))  # S = 2
    state = init_state(model, optimizer, params, 4, [])
    by_hand = batch.replace(weights_BxT=np.where(np.arange(8) < 4, 0.0, batch.weights_BxT).astype(np.float32))
    halved = jax.jit(make_step(model, optimizer, seed=0, half_loss=True))
    half = halved(state, batch)
    whole = jax.jit(make_step(model, optimizer, seed=0))
    expected = whole(state, by_hand)
    assert half.sums.scored == expected.sums.scored == 2 * 4 * 4
    # To the bit in one program; in another one the compiler may order sums otherwise.
    jax.tree.map(np.testing.assert_array_equal, half.params, halved(state, by_hand).params)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-8), half.params, expected.params)
    assert half.sums.nll != whole(state, batch).sums.nll


def test_a_finished_run_is_evaluated_again_for_other_lengths_only(tiny_config, data_dir, tmp_path):
    tiny_config.training.update(num_steps=2, eval_every=None)
    tiny_config.eval.after_training = 'test'
    train(tiny_config, tmp_path, data_dir)
    path = tmp_path / 'eval' / 'test.json'
    first = path.read_text()
    train(tiny_config, tmp_path, data_dir)
    assert path.read_text() == first
    tiny_config.eval.compressed_memory_length = 8
    train(tiny_config, tmp_path, data_dir)
    assert json.loads(path.read_text())['protocol']['compressed_memory_length'] == 8


@pytest.mark.parametrize('killed_before_step', [2, 6, 8, 12])
def test_killed_and_resumed_equals_never_stopped(
    tiny_config, data_dir, tmp_path, unbroken, before_step, killed_before_step
):
    whole = unbroken(tiny_config, data_dir)
    before_step(killed_before_step, kill)
    with pytest.raises(KilledError):
        train(tiny_config, tmp_path, data_dir)
    train(tiny_config, tmp_path, data_dir)
    assert_same_run(tmp_path, whole)


@pytest.mark.slow
@pytest.mark.parametrize('variant', VARIANTS)
def test_any_model_resumes_as_if_never_stopped(tiny_config, data_dir, tmp_path, before_step, variant):
    tiny_config.model.update(VARIANTS[variant])
    train(tiny_config, tmp_path / 'whole', data_dir)
    before_step(7, kill)
    with pytest.raises(KilledError):
        train(tiny_config, tmp_path / 'broken', data_dir)
    train(tiny_config, tmp_path / 'broken', data_dir)
    assert_same_run(tmp_path / 'broken', tmp_path / 'whole')


@pytest.mark.parametrize(('number', 'code'), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_saves_and_exits_then_resumes_as_if_never_stopped(
    tiny_config, data_dir, tmp_path, unbroken, before_step, number, code
):
    # In the middle of a log interval, and of an accumulation of gradients.
    before_step(7, lambda: os.kill(os.getpid(), number))
    with pytest.raises(SystemExit) as exited:
        train(tiny_config, tmp_path, data_dir)
    assert exited.value.code == code
    assert Checkpoints(tmp_path / 'checkpoints').latest_good() == 7
    train(tiny_config, tmp_path, data_dir)
    assert_same_run(tmp_path, unbroken(tiny_config, data_dir))


def test_damaged_newest_checkpoint_is_passed_over_and_made_again(tiny_config, data_dir, tmp_path, unbroken, caplog):
    tiny_config.training.num_steps = 8
    train(tiny_config, tmp_path, data_dir)
    victim = max((tmp_path / 'checkpoints' / '8').rglob('*'), key=lambda path: path.stat().st_size * path.is_file())
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(bytes(content))
    tiny_config.training.num_steps = 12
    train(tiny_config, tmp_path, data_dir)
    assert 'checkpoint 8' in caplog.text
    final = load_run(tmp_path).params
    whole = load_run(unbroken(tiny_config, data_dir)).params
    jax.tree.map(np.testing.assert_array_equal, final, whole)


def test_finished_run_says_so_and_changes_nothing(tiny_config, data_dir, tmp_path, unbroken, caplog):
    workdir = unbroken(tiny_config, data_dir)
    before = metrics(workdir)
    train(tiny_config, workdir, data_dir)
    assert 'is finished' in caplog.text
    assert metrics(workdir) == before


def test_workdir_of_another_model_is_refused(tiny_config, data_dir, unbroken):
    workdir = unbroken(tiny_config, data_dir)
    tiny_config.model.num_layers = 3
    with pytest.raises(WorkdirError, match=r'model\.num_layers'):
        train(tiny_config, workdir, data_dir)


def test_second_training_on_a_workdir_is_refused(tiny_config, data_dir, tmp_path):
    with exclusive(tmp_path), pytest.raises(WorkdirError, match='another training'):
        train(tiny_config, tmp_path, data_dir)


def test_nothing_is_written_when_the_batch_exceeds_the_corpus(tiny_config, data_dir, tmp_path):
    tiny_config.data.batch_size = 1000
    with pytest.raises(DataError, match=r'data\.batch_size'):
        train(tiny_config, tmp_path / 'run', data_dir)
    assert not (tmp_path / 'run').exists()


def test_vocabulary_larger_than_the_model_is_refused(tiny_config, data_dir, tmp_path):
    tiny_config.model.vocab_size = 255
    with pytest.raises(ConfigError, match='256 symbols'):
        train(tiny_config, tmp_path / 'run', data_dir)
    assert not (tmp_path / 'run').exists()


def test_non_finite_state_is_never_saved_and_names_step_and_row(tiny_config, data_dir, tmp_path):
    tiny_config.training.update({'learning_rate': 1e30, 'warmup_steps': 0, 'checkpoint_every': 1, 'log_every': 1})
    with pytest.raises(TrainingError, match=r'not finite at step \d+, row \d of the batch'):
        train(tiny_config, tmp_path, data_dir)
    params = load_run(tmp_path).params
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


def test_init_from_begins_with_the_other_runs_parameters(tiny_config, data_dir, tmp_path, unbroken):
    start = unbroken(tiny_config, data_dir)
    tiny_config.training.update({'init_from': str(start), 'num_steps': 1, 'warmup_steps': 0})
    # A step too small to change any float32.
    tiny_config.training.update({'learning_rate': 1e-30, 'learning_rate_end': 0.0})
    train(tiny_config, tmp_path / 'next', data_dir)
    jax.tree.map(np.testing.assert_array_equal, load_run(tmp_path / 'next').params, load_run(start).params)


def test_init_from_another_model_is_refused(tiny_config, data_dir, tmp_path, unbroken):
    tiny_config.training.init_from = str(unbroken(tiny_config, data_dir))
    tiny_config.model.mlp_dim = 48
    with pytest.raises(CheckpointError, match='another model'):
        train(tiny_config, tmp_path / 'next', data_dir)
