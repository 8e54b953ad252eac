from __future__ import annotations

import hashlib
import json

import jax
import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.errors import ConfigError, TrainingError
from memjax.evaluation.beginning import beginning_of
from memjax.evaluation.dynamic import analyze_dynamic, make_rule, score_while_training
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import load_run
from memjax.models.factory import build_model, init_params


@pytest.fixture
def run(tiny_config, data_dir, finished):
    """The finished run's workdir and its config, with one row."""
    workdir = finished(tiny_config, data_dir)
    config = load_run(workdir).config
    config.eval.batch_size = 1
    return workdir, config


def digests(folder):
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.rglob('*') if path.is_file()}


def test_at_a_rate_of_0_it_is_evaluation_and_the_run_stays(run, data_dir):
    workdir, config = run
    before = digests(workdir / 'checkpoints')
    found = analyze_dynamic(workdir, data_dir, config, 'test', learning_rate=0.0)
    assert found['dynamic']['nll_nats'] == pytest.approx(found['nll_nats'], rel=1e-6)
    assert found['dynamic']['bpc'] == pytest.approx(found['bpc'], rel=1e-6)
    assert found['dynamic']['updates'] == 26 + 10
    assert (found['optimizer'], found['learning_rate'], found['protocol']['rows']) == ('adam', 0, 1)
    assert found['curve'][-1]['targets'] == found['scored'] == 285
    assert found['curve'][-1]['dynamic'] == pytest.approx(found['curve'][-1]['static'], rel=1e-6)
    assert digests(workdir / 'checkpoints') == before
    assert json.loads((workdir / 'eval' / 'dynamic_test.json').read_text()) == found
    assert (workdir / 'eval' / 'dynamic_test.png').read_bytes().startswith(b'\x89PNG')


def test_an_update_changes_what_follows_and_nothing_before(tiny_config, data_dir):
    config = tiny_config
    config.model.update(name='transformer_xl', compressed_memory_length=0)
    config.training.gradient_clip = 10.0
    config.eval.batch_size = 1
    params = jax.jit(lambda key: init_params(build_model(config.model), 8, key))(jax.random.key(0))
    kept = jax.tree.map(np.array, params)
    split = beginning_of(open_corpus(config.data, data_dir).splits['test'], 12)
    dynamic = score_while_training(config, params, split, make_rule(config.training, 'sgd', 0.5))
    static = Scorer(config).score(params, split, keep_tokens=True).per_token
    assert dynamic.targets.tolist() == [8, 4]
    assert dynamic.nll[0] == pytest.approx(static[:8].sum(), rel=1e-5)
    assert abs(dynamic.nll[1] - static[8:].sum()) > 1e-3
    moved = jax.tree.map(lambda new, old: np.abs(new - old).max(), dynamic.params, kept)
    assert max(jax.tree.leaves(moved)) > 1e-3
    jax.tree.map(np.testing.assert_array_equal, params, kept)


def test_what_cannot_be_is_refused(run, data_dir):
    workdir, config = run
    with pytest.raises(ConfigError, match="optimizer='lion' is none of adam, sgd"):
        analyze_dynamic(workdir, data_dir, config, 'test', 0.1, 'lion')
    with pytest.raises(ConfigError, match='must not be negative'):
        analyze_dynamic(workdir, data_dir, config, 'test', -1.0)
    config.eval.window_stride = 1
    with pytest.raises(ConfigError, match='dynamic evaluation reads segments'):
        analyze_dynamic(workdir, data_dir, config, 'test', 0.1)


@pytest.mark.slow
def test_a_rate_that_breaks_it_is_told(run, data_dir):
    workdir, config = run
    config.training.update(gradient_clip=1e30, compression_gradient_clip=1e30)
    with pytest.raises(TrainingError, match='lower the learning rate'):
        analyze_dynamic(workdir, data_dir, config, 'test', 1e30, 'sgd')
