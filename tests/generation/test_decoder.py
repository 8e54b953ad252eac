"""Tokens drawn: the model's own, each row as if alone, with one program for all lengths."""

from __future__ import annotations

import itertools
import math

import jax
import numpy as np
import pytest
from compiled_loops import bodies
from jax.extend.core import jaxprs_in_params
from tiny_models import CT, CT_MORE, ENCODED, RECURRENT, TXL, VOCAB, T, cut, each, model_of, tiny

from memjax.generation import decoder
from memjax.generation.drawing import Drawing, row_keys

GREEDY = Drawing(top_k=1)
LENGTHS = (1, 3 * T + 2, 2 * T)  # less than a segment, some of one more, whole ones


def prompts_of(lengths, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(0, VOCAB, size=length).astype(np.int32) for length in lengths]


def drawn_after(built, prompts, length, drawing=GREEDY, rows=None, steps=decoder.CHUNK):
    read = decoder.read_prompts(built.model, built.params, [[prompt] for prompt in prompts], T)
    keys = row_keys(5, range(len(prompts)) if rows is None else rows)
    decoding = decoder.Decoding(built.model, read, drawing, keys)
    drawn = [np.zeros(0, np.int32) for _ in prompts]
    while not decoding.is_done_B.all():
        drawn = [np.concatenate(pair) for pair in zip(drawn, decoding.advance(length, steps), strict=True)]
    return drawn


# The tests below take the first two, whose programs are compiled then.
@each([CT_MORE[0], TXL[1]], [CT[1], CT[5], CT_MORE[1], *ENCODED[1:3], *RECURRENT[:2]])
def test_greedy_tokens_are_the_likeliest_of_the_segmentwise_forward(variant):
    built, length = tiny(**variant), 3 * T + 1
    prompts = prompts_of(LENGTHS)
    for prompt, drawn in zip(prompts, drawn_after(built, prompts, length), strict=True):
        assert len(drawn) == length
        text = np.concatenate([prompt, drawn])
        whole = np.pad(text, (0, -len(text) % T + 1))[None]
        logits, _ = built.read_text(cut(whole))
        np.testing.assert_array_equal(logits[0, len(prompt) - 1 : len(text) - 1].argmax(axis=-1), drawn)


def test_a_row_does_not_depend_on_the_others_nor_on_the_steps_a_call():
    built, length, drawing = tiny(**TXL[1]), 2 * T + 3, Drawing(temperature=0.8, top_p=0.9)
    prompts = prompts_of(LENGTHS)
    together = drawn_after(built, prompts, length, drawing)
    for row, prompt in enumerate(prompts):
        (alone,) = drawn_after(built, [prompt], length, drawing, rows=range(row, row + 1), steps=3)
        np.testing.assert_array_equal(alone, together[row])


def test_a_stopped_row_draws_no_more_and_the_others_go_on():
    built = tiny(**TXL[1])
    prompts = prompts_of(LENGTHS)
    expected = drawn_after(built, prompts, 9)
    read = decoder.read_prompts(built.model, built.params, [[prompt] for prompt in prompts], T)
    decoding = decoder.Decoding(built.model, read, GREEDY, row_keys(0, range(3)))
    decoding.stop(1)
    drawn = [[], [], []]
    while not decoding.is_done_B.all():
        for row, new in enumerate(decoding.advance(9)):
            drawn[row] += new.tolist()
    assert drawn == [expected[0].tolist(), [], expected[2].tolist()]


def test_a_prompt_that_is_read_once_for_several_samples():
    built, prompts = tiny(**TXL[1]), prompts_of(LENGTHS)[1:2]
    read = decoder.read_prompts(built.model, built.params, [prompts], T)
    read = decoder.repeat_prompts(built.model, read, 3)
    decoding = decoder.Decoding(built.model, read, GREEDY, row_keys(0, range(3)))
    drawn = [[], [], []]
    while not decoding.is_done_B.all():
        for row, new in enumerate(decoding.advance(2 * T)):
            drawn[row] += new.tolist()
    expected = drawn_after(built, prompts * 3, 2 * T)
    assert drawn == [row.tolist() for row in expected]
    assert drawn[0] == drawn[1] == drawn[2]


def test_no_lengths_compile_anew():
    built = tiny(**CT_MORE[0])
    programs = [decoder._apart, decoder._read_segment, decoder._open, decoder._close, decoder._advance]
    drawn_after(built, prompts_of(LENGTHS), 2 * T + 1)
    compiled = [program._cache_size() for program in programs]
    assert min(compiled) > 0
    # Memory from empty to overflowing, prompts from a symbol to many segments, one token and many.
    for lengths, length in (((2, 5, 1), 40), ((9 * T + 1, 1, 3), 1), ((T, 8 * T, T + 1), 9)):
        drawn_after(built, prompts_of(lengths), length)
        assert [program._cache_size() for program in programs] == compiled


def test_prompts_are_held_a_piece_at_a_time():
    taken = []

    def pieces():
        for begin in range(0, 100, 10):
            taken.append(begin)
            yield np.arange(begin, begin + 10)

    blocks = decoder._segments(pieces(), 8)
    np.testing.assert_array_equal(next(blocks), np.arange(8))
    assert taken == [0]
    np.testing.assert_array_equal(np.concatenate([np.arange(8), *blocks]), np.arange(100))
    # A block of its own is left for the open segment, also where segments divide the text.
    assert [len(block) for block in decoder._segments([np.zeros(16)], 8)] == [8, 8]


def loop_of(**overrides):
    """The loop over tokens of a model with a long memory, traced, and the size of one head's slots of one row."""
    model = model_of(**overrides)
    # Not made within the trace: it is kept for other tests.
    params = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tiny(**overrides).params)
    memory = jax.eval_shape(lambda p: decoder._empty_memory(model, p, 2, T), params)
    params = jax.eval_shape(model.apart, params)
    prompt = jax.ShapeDtypeStruct((2, T), np.int32), jax.ShapeDtypeStruct((2,), np.int32)
    past, state = jax.eval_shape(lambda p, m, prompt: decoder._open(model, p, m, prompt), params, memory, prompt[0])
    keys = jax.eval_shape(lambda: row_keys(0, range(2)))
    traced = decoder._advance.trace(model, GREEDY, params, past, state, *prompt, keys, 1, 1)
    slots = past.slots[0]
    return traced, min(math.prod(array.shape[2:]) for array in (slots.keys_BxHxPxK, slots.values_BxHxPxK))


def equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
@pytest.mark.parametrize('variant', [TXL[0], {**CT[1], 'compressed_memory_length': 128}], ids=['txl', 'ct'])
def test_nothing_of_memorys_size_is_made_or_carried_for_a_token(variant, dtype):
    traced, size = loop_of(**variant, memory_length=256, dtype=dtype)
    (loop,) = (equation for equation in traced.jaxpr.eqns if equation.primitive.name == 'while')
    carried = loop.invars[loop.params['cond_nconsts'] + loop.params['body_nconsts'] :]
    assert max(var.aval.size for var in carried) < size
    made = list(equations(loop.params['body_jaxpr'].jaxpr))
    # No projection of memory, no copy of it, no cut of a table.
    assert all(var.aval.size < size for equation in made for var in equation.outvars)
    # Keys and values of memory are there, and multiplied with queries and weights.
    reads = [e for e in made if e.primitive.name == 'dot_general' and any(v.aval.size >= size for v in e.invars)]
    layers = 2
    # Keys, values and encodings of distances.
    assert len(reads) >= 3 * layers


def test_nor_in_the_compiled_loop():
    traced, size = loop_of(**TXL[0], memory_length=256)
    text = traced.lower().compile().as_text()
    passed = ('get-tuple-element(', 'parameter(', 'tuple(', 'bitcast(')
    large, copies = [], []
    for line, elements in itertools.chain(*bodies(text)):
        large += [line] if elements >= size else []
        copies += [line] if ' copy(' in line and elements > VOCAB else []
    assert large  # memory is there
    assert [line for line in large if not any(name in line for name in passed)] == []
    # The segment's own tokens are written in their place.
    assert copies == []
