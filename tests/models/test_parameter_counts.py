"""The published sizes, by part (shapes alone, nothing is allocated)."""

import jax
import numpy as np
import pytest
from tiny_models import CT, TXL, VOCAB, each, tiny

from memjax.config import base_config
from memjax.models.factory import build_model, init_params


def shapes(**overrides) -> dict:
    section = base_config().model
    section.update({'name': 'transformer_xl', 'compressed_memory_length': 0, **overrides})
    model = build_model(section)
    return jax.eval_shape(lambda key: init_params(model, 8, key), jax.random.key(0))


def count(tree) -> int:
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


PUBLISHED = {
    'enwik8, 12 layers': (
        {'num_layers': 12, 'model_dim': 512, 'num_heads': 8, 'mlp_dim': 2048},
        {'layer': 3_412_480, 'embedding': 104_448, 'u and v': 1_024, 'total': 41_055_436},
    ),
    'enwik8, 24 layers': (
        {'num_layers': 24, 'model_dim': 1024, 'num_heads': 8, 'mlp_dim': 3072},
        {'layer': 11_542_528, 'embedding': 208_896, 'u and v': 2_048, 'total': 277_231_820},
    ),
}


@pytest.mark.parametrize('fields, expected', PUBLISHED.values(), ids=PUBLISHED.keys())
def test_transformer_xl_has_the_published_number(fields, expected):
    params = shapes(**fields, vocab_size=204, norm='post', memory_length=512)
    assert count(params['core']['layers']) == fields['num_layers'] * expected['layer']
    assert count(params['embed']) == expected['embedding']
    assert count(params['head']) == 204
    assert count([params['core']['u'], params['core']['v']]) == expected['u and v']
    assert count(params) == expected['total']


SMALL = {'num_layers': 3, 'num_heads': 2, 'head_dim': 5, 'model_dim': 16, 'mlp_dim': 32, 'vocab_size': VOCAB}


def test_an_untied_head_adds_its_matrix():
    assert count(shapes(**SMALL, tie_embeddings=False)) - count(shapes(**SMALL)) == VOCAB * 16


def test_untied_u_and_v_are_one_pair_a_layer():
    tied, untied = shapes(**SMALL), shapes(**SMALL, untie_r=True)
    assert tied['core']['u'].shape == tied['core']['v'].shape == (2, 5)
    assert untied['core']['layers']['u'].shape == untied['core']['layers']['v'].shape == (3, 2, 5)
    assert count(untied) - count(tied) == 2 * (3 - 1) * 2 * 5


def test_the_norm_first_adds_a_last_norm():
    assert count(shapes(**SMALL, norm='pre')) - count(shapes(**SMALL, norm='post')) == 2 * 16


def test_a_compressor_adds_a_kernel_and_a_bias_a_layer():
    ct = {'name': 'compressive', 'memory_length': 8, 'compressed_memory_length': 8, 'compression_rate': 4}
    plain = count(shapes(**SMALL))
    assert count(shapes(**SMALL, **ct)) - plain == 3 * (4 * 16 * 16 + 16)
    assert count(shapes(**SMALL, **ct, compression='mean')) == plain


def test_separate_positions_add_a_projection_a_layer_and_one_v():
    ct = {'name': 'compressive', 'memory_length': 8, 'compressed_memory_length': 8, 'compression_rate': 4}
    added = count(shapes(**SMALL, **ct, compressed_positions='separate')) - count(shapes(**SMALL, **ct))
    assert added == 3 * 16 * 2 * 5 + 2 * 5


@each([TXL[0], CT[0]])
def test_attention_has_no_biases(variant):
    attention = tiny(**variant).params['core']['layers']['attention']
    assert set(attention) == {'query', 'key', 'value', 'position', 'output'}
