"""The same text read in another way: other segments, other rows, a scan, another model that must agree."""

import jax
import numpy as np
import pytest
from tiny_models import CT, CT_FEW, TXL, T, cut, each, model_of, stacked, text, tiny

from memjax.models.factory import init_params

# Logits are about 5; float32 sums of another order differ by a few 1e-6.
CLOSE = {'rtol': 1e-5, 'atol': 1e-5}


@each([CT[2]], [TXL[0], CT[0], CT[4]])
def test_a_scan_over_segments_equals_a_loop(variant):
    built = tiny(**variant)
    segments = cut(text(2, 6 * T), starts={(1, 4)})
    logits, memory = built.read_text(segments)

    def body(memory, segment):
        output, memory = built.model.apply({'params': built.params}, segment, memory, False, True)
        return memory, output.logits_BxTxV

    scan = jax.jit(lambda memory, segments: jax.lax.scan(body, memory, segments))
    scanned_memory, scanned = scan(built.model.init_memory(2), stacked(segments))
    np.testing.assert_allclose(np.concatenate(list(scanned), axis=1), logits, **CLOSE)
    for leaf, expected in zip(jax.tree.leaves(scanned_memory), jax.tree.leaves(memory), strict=True):
        np.testing.assert_allclose(leaf, expected, **CLOSE)


def test_unrolled_layers_equal_layers_one_by_one():
    plain, unrolled = tiny(**CT[2]), tiny(**CT[2], layer_unroll=2)
    segments = cut(text(2, 4 * T))
    np.testing.assert_allclose(unrolled.read_text(segments)[0], plain.read_text(segments)[0], **CLOSE)
    for built, unroll in ((plain, 1), (unrolled, 2)):
        program = jax.make_jaxpr(built.read)(built.params, segments[0], built.model.init_memory(2))
        assert f'unroll={unroll}\n' in str(program)


@pytest.mark.parametrize('segment_length', [pytest.param(2, marks=pytest.mark.slow), 4, 8])
@each(TXL[1:], TXL[:1])
def test_segments_of_any_length_equal_one_full_pass(variant, segment_length):
    built = tiny(**variant, memory_length=32)
    tokens = text(2, 32)
    at_once, _ = built.read_text(cut(tokens, 32))
    logits, _ = built.read_text(cut(tokens, segment_length))
    np.testing.assert_allclose(logits, at_once, **CLOSE)


@each([], CT_FEW)
def test_before_anything_is_compressed_segments_of_any_length_agree(variant):
    built = tiny(**variant, memory_length=16)
    tokens = text(2, 24)
    at_once, _ = built.read_text(cut(tokens[:, :17], 16))
    for segment_length in (2, 8):
        logits, memory = built.read_text(cut(tokens, segment_length))
        assert memory.levels[1].count_B.tolist() == [4, 4]
        np.testing.assert_allclose(logits[:, :16], at_once, **CLOSE)


@each([CT[5]], [CT[0]])
def test_compression_to_the_mean_of_one_is_a_longer_memory(variant):
    compressive = tiny(**variant, compression='mean', compression_rate=1)
    plain = tiny(name='transformer_xl', norm=variant['norm'], memory_length=8 + 6)
    segments = cut(text(2, 10 * T), starts={(1, 6)})
    logits, _ = compressive.read_text(segments)
    expected, _ = plain.read_text(segments, params=compressive.params)
    np.testing.assert_allclose(logits, expected, **CLOSE)


@each([TXL[1], CT[2]], [CT[0], CT[4]])
def test_rows_do_not_know_of_each_other(variant):
    built = tiny(**variant)
    tokens = text(2, 8 * T)
    starts = {(0, 4), (1, 2), (1, 7)}
    together, _ = built.read_text(cut(tokens, starts=starts))
    for row in range(2):
        own = {(0, segment) for other, segment in starts if other == row}
        alone, _ = built.read_text(cut(tokens[row : row + 1], starts=own))
        np.testing.assert_allclose(together[row], alone[0], **CLOSE)


@each(TXL[1:], TXL[:1])
def test_a_longer_memory_reads_with_the_same_parameters(variant):
    short, long = tiny(**variant), tiny(**variant, memory_length=32)
    segments = cut(text(2, 6 * T))
    logits, _ = short.read_text(segments)
    longer, _ = long.read_text(segments, params=short.params)
    # As long as nothing has been dropped there is no difference; from then on there is.
    np.testing.assert_allclose(longer[:, : 3 * T], logits[:, : 3 * T], **CLOSE)
    assert (np.abs(longer[:, 3 * T :] - logits[:, 3 * T :]).max(axis=-1) > 1e-3).all()


@pytest.mark.parametrize('length', [0, 3, 12])
@each([CT[2]], [CT[0], CT[4]])
def test_another_compressed_memory_reads_with_the_same_parameters(variant, length):
    trained, other = tiny(**variant), tiny(**variant, compressed_memory_length=length)
    segments = cut(text(2, 8 * T))
    logits, _ = trained.read_text(segments)
    others, _ = other.read_text(segments, params=trained.params)
    # Memory is full after two segments; each one from then on adds two slots to the compressed memory.
    agree = (2 + min(length, 6) // 2 + 1) * T
    np.testing.assert_allclose(others[:, :agree], logits[:, :agree], **CLOSE)
    assert (np.abs(others[:, agree:] - logits[:, agree:]).max(axis=-1) > 1e-4).all()


@each([CT[1]])
def test_parameters_do_not_depend_on_lengths(variant):
    other = {'memory_length': 16, 'compressed_memory_length': 0, 'clamp_length': 3, 'same_length': True}
    shapes = [
        jax.eval_shape(lambda key, model=model: init_params(model, 8, key), jax.random.key(0))
        for model in (model_of(**variant), model_of(**variant, **other))
    ]
    assert shapes[0] == shapes[1]
