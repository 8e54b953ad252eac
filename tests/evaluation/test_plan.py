"""Costs from shapes: against sums made by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from variants import VARIANTS

from memjax.config import base_config, from_file
from memjax.evaluation.flops import count_flops
from memjax.evaluation.plan import plan


@pytest.mark.parametrize(('name', 'parameters'), [('enwik8_txl_12l', 41_055_436), ('enwik8_txl_24l', 277_231_820)])
def test_parameters_of_the_published_models(name, parameters, request):
    planned = plan(from_file(request.config.rootpath / 'configs' / f'{name}.py'))
    assert planned['parameters'] == parameters
    assert sum(planned['parameters_by_module'].values()) == parameters


def test_temporal_range_and_memory_of_the_papers_enwik8_model(request):
    planned = plan(from_file(request.config.rootpath / 'configs' / 'enwik8_ct.py'))
    assert planned['temporal_range'] == 24 * (768 + 3 * 1152) == 101_376
    config = from_file(request.config.rootpath / 'configs' / 'enwik8_ct.py')
    rows, slots = config.data.batch_size, 768 + 1152
    states = 24 * rows * slots * 1024 * 4
    ages_and_counts = 24 * rows * 1152 * 4 + 2 * rows * 4 + rows * 4  # and segments read
    assert planned['memory_state_bytes'] == states + ages_and_counts


def test_flops_of_a_small_transformer_xl_by_hand():
    config = base_config()
    config.data.segment_length = T = 8
    config.model.update({'name': 'transformer_xl', 'num_layers': 3, 'num_heads': 2, 'model_dim': 16, 'mlp_dim': 32})
    config.model.update({'memory_length': 24, 'compressed_memory_length': 0, 'vocab_size': 50})
    L, D, F, V, M, N = 3, 16, 32, 50, 24, 32
    # Multiply-adds of one segment: q and o; k and v of memory and segment; W_R R; four terms in two products; values.
    attention = 2 * T * D * D + 2 * (M + T) * D * D + N * D * D + 2 * T * N * D + T * N * D
    total = L * (attention + 2 * T * D * F) + T * D * V
    assert plan(config)['flops_per_token'] == 2 * total // T


def test_scan_counts_its_body_once_a_step_and_products_count_twice_their_size():
    a = jnp.zeros((3, 4))
    b = jnp.zeros((4, 5))

    def repeated(a, b):
        return jax.lax.scan(lambda carry, _: (carry + (a @ b).sum(), None), 0.0, length=7)[0]

    assert count_flops(jnp.matmul, a, b) == 2 * 3 * 4 * 5
    assert count_flops(jax.jit(repeated), a, b) == 7 * 2 * 3 * 4 * 5


def test_convolutions_are_counted():
    x, kernel = jnp.zeros((2, 10, 6)), jnp.zeros((3, 6, 8))

    def convolve(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1,), 'VALID', dimension_numbers=('NWC', 'WIO', 'NWC'))

    assert count_flops(convolve, x, kernel) == 2 * (2 * 8 * 8) * (3 * 6)


@pytest.mark.parametrize('variant', VARIANTS)
def test_every_model_can_be_planned(tiny_config, variant):
    tiny_config.model.update(VARIANTS[variant])
    planned = plan(tiny_config)
    assert planned['parameters'] == sum(planned['parameters_by_module'].values())
    assert 2 * planned['flops_per_token'] < planned['training_flops_per_token'] < 5 * planned['flops_per_token']
    ranges = {
        'rates by layer': (8 + 2 * 4) + (8 + 4 * 4), 'levels': 2 * (8 + 2 * 4 + 2 * 2 * 2), 'rmt': None, 'lstm': None,
        'random': 2 * (8 + 2 * 4), 'dilated': 2 * (8 + 2 * 4),
    }  # fmt: skip
    assert planned['temporal_range'] == ranges.get(variant, 2 * 8)
