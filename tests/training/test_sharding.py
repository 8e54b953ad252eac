"""Sharded training: the same numbers on every mesh, and what cannot be split is said."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import types

import jax
import numpy as np
import pytest
from variants import VARIANTS

from memjax.config import base_config, to_json
from memjax.errors import ConfigError
from memjax.evaluation.loading import load_run
from memjax.models.factory import build_model, init_params
from memjax.training import sharding
from memjax.training.loop import train

SCRIPT = pathlib.Path(__file__).parent / 'train_on_meshes.py'


@pytest.fixture
def sharded_config(tiny_config):
    """Rows for 8 devices, and heads and widths for a tensor axis of 2."""
    tiny_config.data.batch_size = 8
    tiny_config.training.update({'segments_per_step': 1, 'num_steps': 8, 'log_every': 4, 'eval_every': None})
    tiny_config.training.update({'update_period': 1, 'checkpoint_every': 100})
    return tiny_config


def as_transformer_xl(config):
    config.model.update({'name': 'transformer_xl', 'memory_length': 12, 'compressed_memory_length': 0})


def assert_meshes_equal_one_device(config, data_dir, tmp_path, meshes):
    train(config, tmp_path / 'one', data_dir)
    (tmp_path / 'config.json').write_text(to_json(config))
    arguments = [tmp_path / 'config.json', data_dir, tmp_path, *meshes]
    result = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    expected = load_run(tmp_path / 'one').params
    for mesh in meshes:
        jax.tree.map(
            lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5),
            load_run(tmp_path / mesh).params,
            expected,
        )
        losses = [
            [json.loads(line)['loss'] for line in (tmp_path / run / 'metrics.jsonl').read_text().splitlines()]
            for run in ('one', mesh)
        ]
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


@pytest.mark.parametrize('model', ['compressive', 'transformer_xl'])
def test_mesh_of_8_devices_equals_1(sharded_config, data_dir, tmp_path, model):
    if model == 'transformer_xl':
        as_transformer_xl(sharded_config)
    assert_meshes_equal_one_device(sharded_config, data_dir, tmp_path, ['2,2,2'])


@pytest.mark.slow
@pytest.mark.parametrize('model', ['compressive', 'transformer_xl'])
def test_every_mesh_equals_1(sharded_config, data_dir, tmp_path, model):
    if model == 'transformer_xl':
        as_transformer_xl(sharded_config)
    assert_meshes_equal_one_device(sharded_config, data_dir, tmp_path, ['8,1,1', '1,8,1', '4,1,2', '1,4,2'])


@pytest.mark.slow
@pytest.mark.parametrize('variant', VARIANTS)
def test_any_model_on_a_mesh_of_8_devices_equals_1(sharded_config, data_dir, tmp_path, variant):
    sharded_config.model.update(VARIANTS[variant])
    if sharded_config.model.compression_loss == 'none' or variant == 'rmt':
        sharded_config.training.segments_per_step = 2
    assert_meshes_equal_one_device(sharded_config, data_dir, tmp_path, ['2,2,2'])


def fake_mesh(**sizes):
    """What placement rules read of a mesh."""
    return types.SimpleNamespace(shape={'data': 1, 'fsdp': 1, 'tensor': 1, **sizes})


def test_dimensions_that_do_not_divide_are_kept_whole_and_listed():
    config = base_config()
    config.model.update({'num_heads': 10, 'head_dim': 41, 'model_dim': 410, 'vocab_size': 267_735})
    model = build_model(config.model)
    params = jax.eval_shape(lambda: init_params(model, 128, jax.random.key(0)))
    unsplit = sharding.unsplit_dimensions(fake_mesh(tensor=4, fsdp=4), params)
    assert 'embed/table: dimension 0 of 267735 on tensor=4' in unsplit
    assert 'embed/table: dimension 1 of 410 on fsdp=4' in unsplit
    assert 'core/layers/attention/query: dimension 2 of 10 on tensor=4' in unsplit
    assert not any('up/kernel: dimension 2' in line for line in unsplit)  # 512 divides
    assert sharding.unsplit_dimensions(fake_mesh(tensor=2, data=8), params) == [
        'embed/table: dimension 0 of 267735 on tensor=2'
    ]


def test_every_large_parameter_has_a_rule():
    config = base_config()
    config.model.update({'compressed_positions': 'separate', 'tie_embeddings': False})
    model = build_model(config.model)
    params = jax.eval_shape(lambda: init_params(model, 128, jax.random.key(0)))
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = sharding.path_name(path)
        ruled = any(axis is not None for axis in sharding._rule(name, leaf.ndim))
        assert ruled or leaf.size <= 4 * 512, name


def test_mesh_that_does_not_use_all_devices_is_refused():
    mesh = base_config().mesh
    mesh.fsdp = 3
    with pytest.raises(ConfigError, match='does not use 1 devices'):
        sharding.make_mesh(mesh)
