"""A published model as a run; that its tensors mean what they should is tests/models/test_transfo_xl.py's."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from safetensors.flax import save_file

from memjax.config import to_json
from memjax.data.prepare import open_corpus
from memjax.errors import CheckpointError, DataError, WorkdirError
from memjax.evaluation.convert import convert_run, read_tensors
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import load_run
from memjax.evaluation.run import evaluate_run
from memjax.evaluation.sweep import sweep_run
from memjax.generation.generate import sample_run
from memjax.models.factory import build_model, init_params
from memjax.models.transfo_xl import to_tensors
from memjax.training.loop import train


@pytest.fixture
def config(tiny_config):
    """A Transformer-XL as published ones are, of bytes."""
    tiny_config.model.update(name='transformer_xl', norm='post', compressed_memory_length=0, init_scale=0.2)
    tiny_config.training.update(num_steps=2, eval_every=None)
    return tiny_config


@pytest.fixture
def params(config):
    return jax.jit(lambda: init_params(build_model(config.model), 8, jax.random.key(1)))()


@pytest.fixture(params=['.safetensors', '.npz'])
def source(request, config, params, tmp_path):
    path, tensors = tmp_path / f'model{request.param}', to_tensors(params, config.model)
    save_file(tensors, path) if request.param == '.safetensors' else np.savez(path, **tensors)
    return path


def test_a_converted_model_is_evaluated_swept_sampled_and_trained_on(
    source, config, params, tmp_path, data_dir, capsys
):
    workdir = tmp_path / 'run'
    convert_run(source, workdir, config)
    assert capsys.readouterr().out.startswith(f'{workdir}: ')
    run = load_run(workdir)
    jax.tree.map(np.testing.assert_array_equal, run.params, params)
    assert (run.step, run.host['converted_from']) == (0, source.name)

    if source.suffix == '.npz':
        return  # the same parameters: what follows is the same
    result = evaluate_run(workdir, data_dir, config, 'validation')
    score = Scorer(config).score(params, open_corpus(config.data, data_dir).splits['validation'])
    assert (result['nll_nats'], result['train_tokens']) == (score.nll_nats, 0)
    assert (
        sweep_run(workdir, data_dir, config, 'memory_length', [8], 'validation')['results'][0]['bpc'] == result['bpc']
    )
    assert list(sample_run(workdir, data_dir, config, 'the', 3, 1.0, None, None, 0))

    config.training.init_from = str(workdir)
    train(config, tmp_path / 'further', data_dir)
    assert load_run(tmp_path / 'further').step == 2
    config.training.init_from = None
    with pytest.raises(CheckpointError, match=r'checkpoint 0 in .* is of another model'):
        train(config, workdir, data_dir)


def test_bfloat16_is_read_exactly(config, params, tmp_path):
    halves = {name: jax.numpy.asarray(array, 'bfloat16') for name, array in to_tensors(params, config.model).items()}
    save_file(halves, tmp_path / 'model.safetensors')
    for name, array in read_tensors(tmp_path / 'model.safetensors').items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, np.asarray(halves[name], np.float32))


def test_a_workdir_with_a_run_is_left_alone_and_half_a_conversion_is_not_trusted(source, config, params, tmp_path):
    workdir = tmp_path / 'run'
    other = config.copy_and_resolve_references()
    convert_run(source, workdir, config)
    (workdir / 'config.json').unlink()  # as if killed before it was there
    tensors = to_tensors(jax.tree.map(lambda leaf: 2 * leaf, params), config.model)
    np.savez(tmp_path / 'twice.npz', **tensors)
    convert_run(tmp_path / 'twice.npz', workdir, other)
    jax.tree.map(lambda found, leaf: np.testing.assert_array_equal(found, 2 * leaf), load_run(workdir).params, params)
    with pytest.raises(WorkdirError, match='holds a run already'):
        convert_run(source, workdir, config)
    assert json.loads((workdir / 'config.json').read_text()) == json.loads(to_json(config))


def test_a_file_that_is_no_weights_is_one_line(tmp_path, config):
    broken = {'a.safetensors': b'\x10\x00\x00\x00\x00\x00\x00\x00{"no', 'a.npz': b'PK\x03\x04nothing', 'a.bin': b'x'}
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
    np.savez(tmp_path / 'pickled.npz', a=np.array([{}], dtype=object))
    for name in (*broken, 'pickled.npz', 'absent.npz', 'absent.safetensors'):
        with pytest.raises(DataError, match=f'/{name}') as refused:
            convert_run(tmp_path / name, tmp_path / 'run', config)
        assert '\n' not in str(refused.value)
    assert not (tmp_path / 'run').exists()


def test_tensors_of_another_model_leave_no_run(tmp_path, source, config):
    config.model.num_layers = 3
    with pytest.raises(DataError, match=r'model\.\w+: the tensors do not fit the config: .*layers\.2\..* is missing'):
        convert_run(source, tmp_path / 'run', config)
    assert not (tmp_path / 'run').exists()
