"""A memory whose keys and values are kept: the same numbers, and no slot projected twice."""

import re

import jax
import numpy as np
import pytest
from compiled_loops import bodies
from tiny_models import CT, CT_MORE, FEW, OTHERS, RECURRENT, TXL, T, cut, each, model_of, text, tiny

from memjax.evaluation.flops import count_flops
from memjax.evaluation.likelihood import jit_together
from memjax.models.factory import empty_segment, init_params

SEGMENTS = 9
STARTS = {(1, 5)}
CLOSE = {'rtol': 1e-5, 'atol': 1e-5}


def cached(built, memory):
    return built.model.apply({'params': built.params}, memory, T, method='cache')


@each(FEW, OTHERS)
def test_equals_a_memory_of_states(variant):
    built = tiny(**variant)
    segments = cut(text(2, SEGMENTS * T), starts=STARTS)
    expected, _ = built.read_text(segments)
    logits, _ = built.read_text(segments, cached(built, built.model.init_memory(2)))
    np.testing.assert_allclose(logits, expected, **CLOSE)
    apart = built.model.apart(built.params)
    logits, _ = built.read_text(segments, cached(built, built.model.init_memory(2)), apart)
    np.testing.assert_allclose(logits, expected, **CLOSE)
    # Also from the middle of a text on.
    _, memory = built.read_text(segments[:4])
    logits, _ = built.read_text(segments[4:], cached(built, memory))
    np.testing.assert_allclose(logits, expected[:, 4 * T :], **CLOSE)


@each([CT[4], RECURRENT[0]], [TXL[0], CT[0]])
def test_token_by_token_too(variant):
    built = tiny(**variant)
    tokens = text(2, 6 * T)
    expected, _ = built.read_text(cut(tokens))
    state = built.open(cached(built, built.model.init_memory(2)), T)
    for place in range(6 * T):
        logits_BxV, state = built.step(tokens[:, place], state)
        np.testing.assert_allclose(logits_BxV, expected[:, place], **CLOSE)


@each([TXL[1], RECURRENT[0]])
def test_is_refused_in_training(variant):
    built = tiny(**variant)
    with pytest.raises(ValueError, match='not for training'):
        built.train(built.params, cut(text(2, T))[0], cached(built, built.model.init_memory(2)))


@each([CT_MORE[0]])
def test_parameters_apart_need_it(variant):
    built = tiny(**variant)
    with pytest.raises(ValueError, match='apart are for a cached memory'):
        built.model.apply({'params': built.model.apart(built.params)}, cut(text(2, T))[0], built.model.init_memory(2))


@each([TXL[1]], [CT[0]])
def test_parameters_apart_are_not_cut_or_laid_out_anew_in_a_loop_over_segments(variant):
    _, params, segment, memory = segment_of(True, **variant)
    model = model_of(**variant)
    several = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((3, *leaf.shape), leaf.dtype), segment)
    read = jit_together(lambda p, s, m: model.apply({'params': p}, s, m))

    def made(params):
        """Instructions of the compiled loop whose result is as large as one of a layer's kernels, or all layers'."""
        kernels = {16 * 16, 16 * 32, 2 * 16 * 16, 2 * 16 * 32}
        (body,) = bodies(read.lower(params, several, memory).compile().as_text())
        passed = ('get-tuple-element(', 'parameter(', 'tuple(', 'bitcast(')
        return [line for line, size in body if size in kernels and not any(name in line for name in passed)]

    assert made(params)  # what this test looks for is there without it
    assert made(jax.eval_shape(model.apart, params)) == []


def segment_of(is_cached: bool, **overrides) -> tuple:
    """A function that reads a segment, and the shapes of what it takes."""
    model = model_of(**overrides)
    params = jax.eval_shape(lambda: init_params(model, T, jax.random.key(0)))
    memory = jax.eval_shape(lambda: model.init_memory(1))
    if is_cached:
        memory = jax.eval_shape(lambda p, m: model.apply({'params': p}, m, T, method='cache'), params, memory)
    segment = jax.eval_shape(lambda: empty_segment(1, T))
    return lambda p, s, m: model.apply({'params': p}, s, m)[0].nll_BxT, params, segment, memory


def flops(is_cached: bool, **overrides) -> int:
    return count_flops(*segment_of(is_cached, **overrides))


def test_levels_that_are_held_are_not_laid_side_by_side():
    lengths = {'memory_length': 2 * T, 'compressed_memory_length': 3 * T}

    def joined(is_cached: bool) -> int:
        """Arrays put together that have a place for every slot of all levels, and more than a number in it."""
        function, *shapes = segment_of(is_cached, name='compressive', **lengths)
        program = str(jax.make_jaxpr(function)(*shapes))
        made = re.findall(r':f32\[([\d,]+)\] = concatenate', program)
        return sum(5 * T in tuple(map(int, shape.split(',')))[:-1] for shape in made)

    assert (joined(False), joined(True)) == (1, 0)


@pytest.mark.parametrize('name', ['transformer_xl', 'compressive'])
def test_a_slot_costs_no_more_than_its_scores_and_its_value(name):
    length = 'memory_length' if name == 'transformer_xl' else 'compressed_memory_length'
    layers, model_dim, more = 2, 16, 40

    def a_slot(is_cached: bool) -> float:
        small, large = (flops(is_cached, name=name, **{length: slots}) for slots in (8, 8 + more))
        return (large - small) / more / layers

    attended = 3 * 2 * T * model_dim  # content, position and value, for each query
    assert a_slot(True) == attended
    # A slot of states costs its key, its value, and its position's encoding besides.
    assert a_slot(False) == attended + 3 * 2 * model_dim * model_dim
