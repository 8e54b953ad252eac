"""The kernel gives what the layer gives, for any split of its work."""

from __future__ import annotations

import concurrent.futures
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import CT, CT_MORE, ENCODED, RECURRENT, TXL, VOCAB, T, cut, each, model_of, text, tiny

from memjax.generation import decoder
from memjax.generation.drawing import Drawing, row_keys
from memjax.kernels import layer, library

CLOSE = {'rtol': 1e-5, 'atol': 1e-5}
SEGMENTS = 6  # memory is full, and has moved


def stepwise(model, built, tokens_BxN, segment_length=T):
    """Logits of a text, token by token, from an empty memory."""
    params = {'params': built.params}
    step = jax.jit(lambda tokens_B, state: model.apply(params, tokens_B, state, method='step'))
    memory = jax.jit(lambda: model.apply(params, model.init_memory(len(tokens_BxN)), segment_length, method='cache'))()
    state = jax.jit(lambda memory: model.apply(params, memory, segment_length, method='open'))(memory)
    logits = []
    for place in range(tokens_BxN.shape[1]):
        logits_BxV, state = step(tokens_BxN[:, place], state)
        logits.append(np.asarray(logits_BxV))
    return np.stack(logits, axis=1)


def by_kernel(model, num_threads):
    return model.clone(core=model.core.clone(read_token=functools.partial(layer.read_token, num_threads=num_threads)))


# 24 and 3: numbers that no register's lanes divide, and heads that no number of threads here divides.
ODD = {'model_dim': 24, 'num_heads': 3, 'mlp_dim': 37}


@each(
    [
        TXL[1] | ODD,
        CT[0] | {'activation': 'gelu', 'untie_r': True},
        {**TXL[0], 'same_length': True, 'clamp_length': 5, 'num_heads': 1, 'model_dim': 20},
        ENCODED[1],
        ENCODED[0],
    ],
    [
        {**TXL[1], 'head_dim': 12},
        CT[3] | ODD | {'activation': 'gelu'},
        *CT_MORE[1:2],
        ENCODED[2],
        ENCODED[3],
        TXL[0] | ODD,
    ],
)
@pytest.mark.parametrize('num_threads', [1, 3, 8])
def test_equals_segments_across_their_ends(variant, num_threads):
    built = tiny(**variant)
    assert layer.suits(built.model.core.config)
    tokens = text(3, SEGMENTS * T)
    expected, _ = built.read_text(cut(tokens))
    got = stepwise(by_kernel(built.model, num_threads), built, tokens[:, :-1])
    np.testing.assert_allclose(got, expected, **CLOSE)


def with_queries_times(size, **fields):
    built = tiny(**fields)
    params = jax.tree.map(jnp.copy, built.params)
    params['core']['layers']['attention']['query'] *= size
    return type(built)(built.model, params)


@pytest.mark.parametrize('num_threads', [0, 2])
def test_equals_segments_of_a_model_that_is_worth_threads(num_threads):
    # With queries as large as the states are wide, rounding decides between two keys.
    built = with_queries_times(0.1, **TXL[1], model_dim=128, mlp_dim=512, num_heads=2, memory_length=150)
    tokens = text(1, 12 * 16)
    expected, _ = built.read_text(cut(tokens, 16))
    got = stepwise(by_kernel(built.model, num_threads), built, tokens[:, :-1], segment_length=16)
    np.testing.assert_allclose(got, expected, **CLOSE)


def test_more_rows_than_parts():
    built = tiny(**TXL[1] | ODD)
    tokens = text(15, 4 * T)  # 45 heads in all
    expected, _ = built.read_text(cut(tokens))
    np.testing.assert_allclose(stepwise(by_kernel(built.model, 2), built, tokens[:, :-1]), expected, **CLOSE)


def test_whatever_the_default_precision():
    built = tiny(**ENCODED[0])
    tokens = text(2, 2 * T)
    expected, _ = built.read_text(cut(tokens))
    with jax.enable_x64(True):
        got = stepwise(by_kernel(built.model, 1), built, tokens[:, :-1].astype(np.int32))
    np.testing.assert_allclose(got, expected, **CLOSE)


def test_shapes_that_do_not_belong_together_are_refused():
    built = tiny(**TXL[0])
    state = decoding_of(built, [np.arange(2), np.arange(3)])
    model, variables = by_kernel(built.model, 1), {'params': state._params}
    with pytest.raises(ValueError, match=r'an array of shape \(1, 16\) should be \(2, 16\)'):
        model.apply(variables, jnp.zeros(1, jnp.int32), state._past, state._state.tail, method='extend')


@pytest.mark.parametrize('size', [1e-3, 30.0])
def test_scores_of_any_size(size):
    """Nearly equal weights, and such that one key has them all."""
    built = with_queries_times(size, **TXL[0])
    tokens = text(2, SEGMENTS * T)
    expected, _ = built.read_text(cut(tokens))
    got = stepwise(by_kernel(built.model, 2), built, tokens[:, :-1])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 if size > 1 else 1e-5)


def test_several_callers_at_once():
    built = tiny(**TXL[1])
    model = by_kernel(built.model, 4)
    tokens = text(2, SEGMENTS * T)[:, :-1]
    expected = stepwise(model, built, tokens)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: stepwise(model, built, tokens), range(4)):
            np.testing.assert_allclose(got, expected, **CLOSE)


def decoding_of(built, prompts):
    read = decoder.read_prompts(built.model, built.params, [[prompt] for prompt in prompts], T)
    return decoder.Decoding(built.model, read, Drawing(top_k=1), row_keys(0, range(len(prompts))))


def reads_by_kernel(model):
    return getattr(model.core, 'read_token', None) is layer.read_token


@each([TXL[0], CT[0]])
def test_decoding_draws_the_same_without_it(variant, monkeypatch):
    built, prompts = tiny(**variant), [np.arange(7) % VOCAB, np.arange(2)]
    decoding = decoding_of(built, prompts)
    assert reads_by_kernel(decoding._model)
    drawn = [decoding.advance(30) for _ in range(12)]
    monkeypatch.setattr(library, 'load', lambda: None)
    without = decoding_of(built, prompts)
    assert not reads_by_kernel(without._model)
    again = [without.advance(30) for _ in range(12)]
    for row in range(2):
        one, other = (np.concatenate([step[row] for step in steps]) for steps in (drawn, again))
        assert len(one) == 30
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ('variant', 'batch_size'),
    [
        (CT[1], 1),
        (CT[2], 1),
        (CT_MORE[0], 1),
        ({**TXL[0], 'dtype': 'bfloat16'}, 1),
        (TXL[0], layer.MOST_ROWS + 1),
        (RECURRENT[0], 1),
        (RECURRENT[1], 1),
    ],
)
def test_what_it_cannot_do_is_left_to_xla(variant, batch_size):
    params = {'leaf': jnp.zeros(1)}
    model = model_of(**variant)
    assert not reads_by_kernel(layer.with_kernel(model, params, batch_size))


class Elsewhere:
    def __init__(self, *platforms):
        self._devices = {type('Device', (), {'platform': platform})() for platform in platforms}

    def devices(self):
        return self._devices


def test_only_on_one_cpu():
    model = model_of(**TXL[0])
    for params in (Elsewhere('gpu'), Elsewhere('cpu', 'cpu')):
        assert not reads_by_kernel(layer.with_kernel(model, params, 1))
    assert reads_by_kernel(layer.with_kernel(model, Elsewhere('cpu'), layer.MOST_ROWS))


def test_without_a_compiler_a_direct_call_says_so(monkeypatch):
    monkeypatch.setattr(library, 'load', lambda: None)
    with pytest.raises(RuntimeError, match='not compiled'):
        layer.read_token(*[None] * 7)


@each([TXL[0], CT[0]])
def test_neither_memory_nor_the_segment_is_copied_for_a_token(variant):
    decoding = decoding_of(tiny(**variant), [np.arange(2)])
    program = decoder._advance.lower(
        decoding._model, Drawing(top_k=1), decoding._params, decoding._past, decoding._state, *decoding._prompt,
        decoding._keys_B, 5, 5,
    ).compile().as_text()  # fmt: skip
    computations = re.split(r'\n(?=\S)', program)
    (body,) = (part for part in computations if 'memjax_read_token' in part)
    assert body.count('memjax_read_token') == 2  # layers
    smallest = decoding._state.tail.layers[0].keys_BxHxTxK.size
    copies = re.findall(r'= \w+\[([\d,]*)\]\S* copy\(', body)
    assert all(np.prod([int(size) for size in copy.split(',') if size], dtype=int) < smallest for copy in copies)
    # It is told that keys and values are written where they are read.
    assert body.count('output_to_operand_aliasing') == 2
