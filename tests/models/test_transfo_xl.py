"""Weights under TransfoXL's names; that they mean the same there is the oracle's to show."""

from __future__ import annotations

import pathlib

import jax
import numpy as np
import pytest

from memjax.config import base_config
from memjax.errors import ConfigError, DataError
from memjax.evaluation.convert import read_tensors
from memjax.models.factory import build_model, init_params
from memjax.models.transfo_xl import to_params, to_tensors

GOLDEN = pathlib.Path(__file__).parent / 'golden'
TABLE, BIAS = 'transformer.word_emb.emb_layers.0.weight', 'crit.out_layers.0.bias'


def make(**fields):
    """The model section of the golden weights, and the shapes of its parameters."""
    model = base_config().model
    model.update(name='transformer_xl', norm='post', vocab_size=13, num_layers=3, num_heads=3, head_dim=6)
    model.update(model_dim=12, mlp_dim=20, memory_length=8, compressed_memory_length=0, **fields)
    return model, jax.eval_shape(lambda: init_params(build_model(model), 4, jax.random.key(0)))


ADAPTIVE = {'adaptive_cutoffs': (4, 9), 'adaptive_div': 2, 'tied_projections': 'all_but_first'}


@pytest.mark.parametrize('name', ['tied', 'untied', 'adaptive'])
def test_published_tensors_come_back_as_they_were(name):
    model, abstract = make(untie_r=name != 'tied', **(ADAPTIVE if name == 'adaptive' else {}))
    tensors = read_tensors(GOLDEN / f'transfo_xl_{name}.safetensors')
    params = to_params(tensors, abstract, model)
    assert jax.tree.map(np.shape, params) == jax.tree.map(lambda leaf: leaf.shape, abstract)
    back = to_tensors(params, model)
    assert tensors.keys() - back.keys() == {'transformer.pos_emb.inv_freq'}
    for tensor in back:
        assert back[tensor].flags.c_contiguous
        np.testing.assert_array_equal(back[tensor], tensors[tensor], strict=True)


def test_bands_of_one_width_are_one_tensor_there():
    model, abstract = make(adaptive_cutoffs=(4, 9), embedding_dim=6)
    leaves, structure = jax.tree.flatten(abstract)
    rng = np.random.default_rng(0)
    params = structure.unflatten([rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves])
    tensors = to_tensors(params, model)
    np.testing.assert_array_equal(tensors[TABLE][4:9], params['embed']['table_1'])
    np.testing.assert_array_equal(tensors[BIAS][9:], params['head']['bias_2'])
    assert tensors['transformer.word_emb.emb_projs.0'].shape == (12, 6)
    jax.tree.map(np.testing.assert_array_equal, to_params(tensors, abstract, model), params)


def test_a_shared_tensor_may_be_there_under_either_name():
    model, abstract = make(untie_r=True, **ADAPTIVE)
    tensors = read_tensors(GOLDEN / 'transfo_xl_adaptive.safetensors')
    expected = to_params(tensors, abstract, model)
    name = next(name for name in tensors if name.endswith('_projs.1'))
    other = {'crit.out_projs.1', 'transformer.word_emb.emb_projs.1'} - {name}
    tensors[other.pop()] = tensors.pop(name)
    jax.tree.map(np.testing.assert_array_equal, to_params(tensors, abstract, model), expected)


def test_an_output_matrix_of_its_own_goes_both_ways():
    model, abstract = make(tie_embeddings=False)
    tensors = read_tensors(GOLDEN / 'transfo_xl_tied.safetensors')
    own = tensors['crit.out_layers.0.weight'] = 2 * tensors[TABLE]
    params = to_params(tensors, abstract, model)
    np.testing.assert_array_equal(params['head']['kernel'], own)
    np.testing.assert_array_equal(to_tensors(params, model)['crit.out_layers.0.weight'], own)


def test_copies_of_shared_tensors_are_taken_if_they_are_copies():
    model, abstract = make()
    tensors = read_tensors(GOLDEN / 'transfo_xl_tied.safetensors')
    tensors['crit.out_layers.0.weight'] = tensors[TABLE]
    tensors['transformer.layers.1.dec_attn.r_w_bias'] = tensors['transformer.r_w_bias']
    to_params(tensors, abstract, model)
    tensors['crit.out_layers.0.weight'] = 2 * tensors[TABLE]
    tensors['transformer.layers.1.dec_attn.r_w_bias'] = 2 * tensors['transformer.r_w_bias']
    with pytest.raises(DataError) as refused:
        to_params(tensors, abstract, model)
    assert f'crit.out_layers.0.weight differs from {TABLE}, with which' in str(refused.value)
    assert 'layers.1.dec_attn.r_w_bias differs from transformer.r_w_bias, with which' in str(refused.value)


def test_all_that_does_not_fit_is_named_in_one_message():
    model, abstract = make()
    tensors = read_tensors(GOLDEN / 'transfo_xl_tied.safetensors')
    up = 'transformer.layers.2.pos_ff.CoreNet.0.weight'
    del tensors[BIAS], tensors['transformer.layers.1.dec_attn.o_net.weight']
    tensors[up] = tensors[up].T
    tensors['transformer.layers.0.pos_ff.layer_norm.bias'] = np.full(12, np.nan)
    tensors['crit.cluster_weight'] = tensors['transformer.layers.3.dec_attn.r_net.weight'] = np.zeros((2, 12))
    with pytest.raises(DataError) as refused:
        to_params(tensors, abstract, model)
    assert str(refused.value) == (
        f'the tensors do not fit the config: {BIAS} is missing; '
        'transformer.layers.1.dec_attn.o_net.weight is missing; '
        'crit.cluster_weight is unknown; transformer.layers.3.dec_attn.r_net.weight is unknown; '
        'transformer.layers.0.pos_ff.layer_norm.bias is not finite; '
        f'{up} is 12 x 20, not 20 x 12'
    )


REFUSED = [('norm', 'pre'), ('activation', 'gelu'), ('name', 'compressive'), ('position_encoding', 'shaw')]


@pytest.mark.parametrize(('field', 'value'), REFUSED)
def test_a_model_that_transfo_xl_cannot_be_is_refused(field, value):
    model, abstract = make()
    model[field] = value
    with pytest.raises(ConfigError, match=f"model.{field}='{value}': a TransfoXL model has"):
        to_params({}, abstract, model)
    with pytest.raises(ConfigError, match=f"model.{field}='{value}'"):
        to_tensors({}, model)
