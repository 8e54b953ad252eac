"""Compression functions against explicit loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.memory.compression import SELECTIONS, Compression, Decompression, random_scores, slot_ages

B, T, D = 2, 6, 4


def block(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(B, T, D)).astype(np.float32)


def variables(module: Compression, block_BxTxD: np.ndarray) -> dict:
    """Random values for every parameter there is."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), block_BxTxD)
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)


def looped(kind: str, block_BxTxD: np.ndarray, rate: int, params: dict) -> np.ndarray:
    slots = np.zeros((B, T // rate, D))
    for b in range(B):
        for slot in range(T // rate):
            window = [block_BxTxD[b, slot * rate + place].astype(np.float64) for place in range(rate)]
            if kind == 'mean':
                slots[b, slot] = sum(window) / rate
            elif kind == 'max':
                slots[b, slot] = np.max(window, axis=0)
            else:
                slots[b, slot] = params['bias']
                for place in range(rate):
                    slots[b, slot] += window[place] @ params['kernel'][place].astype(np.float64)
    return slots


@pytest.mark.parametrize('rate', [1, 2, 3, 6])
@pytest.mark.parametrize('kind', ['mean', 'max', 'conv'])
def test_equals_a_loop_over_windows(kind, rate):
    module = Compression(kind, rate, jnp.float32)
    params = variables(module, block())
    np.testing.assert_allclose(
        module.apply(params, block()), looped(kind, block(), rate, params.get('params', {})), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize('rate', [1, 2, 3, 6])
def test_the_dilated_convolution_mixes_states_a_rate_apart_first(rate):
    module = Compression('dilated_conv', rate, jnp.float32)
    params = variables(module, block())
    weights = params['params']
    mixed = np.zeros((B, T, D), np.float64)
    for place in range(T):
        mixed[:, place] = weights['dilated_bias'] + block()[:, place] @ weights['dilated_kernel'][1].astype(np.float64)
        if place >= rate:
            mixed[:, place] += block()[:, place - rate] @ weights['dilated_kernel'][0].astype(np.float64)
    expected = looped('conv', np.maximum(mixed, 0), rate, weights)
    np.testing.assert_allclose(module.apply(params, block()), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('kind', SELECTIONS)
def test_a_selection_keeps_the_highest_scores_in_order_of_time(kind):
    scores = np.array([[3, 0, 5, 1, 4, 2], [9, 8, 7, 6, 5, 4]], np.float32)
    slots = Compression(kind, 2, jnp.float32).apply({}, block(), scores)
    np.testing.assert_array_equal(slots[0], block()[0, [0, 2, 4]])
    np.testing.assert_array_equal(slots[1], block()[1, [0, 1, 2]])
    ages = jnp.broadcast_to(2 * jnp.arange(T, 0, -1), (B, T))
    assert slot_ages(kind, 2, ages, scores).tolist() == [[12, 8, 4], [12, 10, 8]]
    assert slot_ages('conv', 2, ages, None).tolist() == [[11, 7, 3]] * B


def test_random_scores_differ_by_segment_and_layer_and_not_by_batch():
    key, segments = jax.random.key(0), jnp.array([3, 0, 3])
    scores = random_scores(key, segments, jnp.int32(1), 200)
    np.testing.assert_array_equal(scores[0], scores[2])
    np.testing.assert_array_equal(scores[1:2], random_scores(key, segments[1:2], jnp.int32(1), 200))
    for other in (scores[1], random_scores(key, segments, jnp.int32(0), 200)[0]):
        assert abs(np.corrcoef(scores[0], other)[0, 1]) < 0.25
    assert 0.4 < float(scores.mean()) < 0.6


def test_decompression_makes_each_slot_so_many_states():
    module = Decompression(3, jnp.float32)
    slots = block()[:, :2]
    params = variables(module, slots)
    kernel, bias = params['params']['kernel'], params['params']['bias']
    found = module.apply(params, slots)
    assert found.shape == (B, 6, D)
    for place in range(6):
        np.testing.assert_allclose(
            found[:, place], slots[:, place // 3] @ kernel[place % 3] + bias, rtol=1e-5, atol=1e-5
        )


def test_the_convolution_is_the_one_of_lax():
    module = Compression('conv', 3, jnp.float32)
    params = variables(module, block())
    convolved = jax.lax.conv_general_dilated(
        block(),
        params['params']['kernel'],
        window_strides=(3,),
        padding='VALID',
        dimension_numbers=('NWC', 'WIO', 'NWC'),
    )
    np.testing.assert_allclose(
        module.apply(params, block()), convolved + params['params']['bias'], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize('kind, shapes', [('mean', {}), ('max', {}), ('conv', {'kernel': (2, D, D), 'bias': (D,)})])
def test_only_the_convolution_has_parameters(kind, shapes):
    params = variables(Compression(kind, 2, jnp.float32), block()).get('params', {})
    assert {name: leaf.shape for name, leaf in params.items()} == shapes


def test_the_convolution_starts_at_the_scale_of_its_input():
    wide = np.random.default_rng(0).normal(size=(8, 64, 128)).astype(np.float32)
    slots, _ = Compression('conv', 4, jnp.float32).init_with_output(jax.random.key(0), wide)
    assert 0.8 < float(jnp.std(slots)) < 1.2


@pytest.mark.parametrize('kind', ['mean', 'max', 'conv'])
def test_a_block_that_does_not_divide_is_refused(kind):
    with pytest.raises(ValueError, match='6 states does not divide by compression rate 4'):
        Compression(kind, 4, jnp.float32).init(jax.random.key(0), block())


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match='unknown compression'):
        Compression('median', 2, jnp.float32).init(jax.random.key(0), block())


@pytest.mark.parametrize('kind', ['mean', 'max', 'conv'])
def test_bfloat16_slots_come_from_float32_parameters(kind):
    module = Compression(kind, 2, jnp.bfloat16)
    params = module.init(jax.random.key(0), block())
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    assert module.apply(params, block()).dtype == jnp.bfloat16


def test_the_mean_of_many_bfloat16_states_is_rounded_once():
    # Summed in bfloat16, 256 + 1 + .. + 1 would stay at 256.
    states = jnp.concatenate([jnp.full((1, 1, 1), 256.0), jnp.ones((1, 255, 1))], axis=1).astype(jnp.bfloat16)
    mean = Compression('mean', 256, jnp.bfloat16).apply({}, states)
    np.testing.assert_allclose(np.asarray(mean, np.float32), 511 / 256, rtol=2**-8)
