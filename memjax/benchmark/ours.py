"""This project's side of the benchmarks: `python -m memjax.benchmark.ours` is a system as `work.py` describes it."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import flax
import jax
import numpy as np

from memjax.benchmark.work import Work
from memjax.config import base_config
from memjax.evaluation.likelihood import SEGMENTS_A_CALL, jit_together, segments_at_once
from memjax.generation import decoder
from memjax.generation.drawing import Drawing, row_keys
from memjax.models.contract import LanguageModel, Segment
from memjax.models.factory import build_model, init_params

_UNBOUNDED = 1 << 30


def model_of(work: Work) -> LanguageModel:
    """The model that a piece of work names."""
    section = base_config().model
    section.update(
        name='compressive' if work.compressed_memory_length else 'transformer_xl',
        norm='post',
        compression_loss='none',
        layer_unroll=work.num_layers,
        **{
            field: getattr(work, field)
            for field in (
                'num_layers', 'model_dim', 'num_heads', 'mlp_dim', 'vocab_size', 'memory_length',
                'compressed_memory_length', 'compression_rate', 'compression',
            )
        },
    )  # fmt: skip
    return build_model(section)


@functools.cache
def _evaluation(work: Work) -> Callable[[int], Any]:
    """A function that reads so many segments and returns the last one's losses; memory is full when this returns."""
    model = model_of(work)
    params = jax.jit(lambda key: init_params(model, work.segment_length, key))(jax.random.key(0))
    generator = np.random.default_rng(0)
    shape = (SEGMENTS_A_CALL, work.batch_size, work.segment_length)
    segments = Segment(
        inputs_BxT=generator.integers(work.vocab_size, size=shape, dtype=np.int32),
        targets_BxT=generator.integers(work.vocab_size, size=shape, dtype=np.int32),
        weights_BxT=np.ones(shape, np.float32),
        start_B=np.zeros(shape[:2], bool),
        lengths_B=np.full(shape[:2], work.segment_length, np.int32),
    )

    at_once = segments_at_once(model, work.segment_length)

    @functools.partial(jit_together, at_once=at_once)
    def read(params, segment, memory):
        output, memory = model.apply({'params': params}, segment, memory)
        return output.nll_BxT, memory

    @jax.jit
    def empty(params):
        memory = model.init_memory(work.batch_size)
        return model.apply({'params': params}, memory, at_once * work.segment_length, method='cache')

    memory, params = empty(params), jax.jit(model.apart)(params)

    def run(count: int) -> jax.Array:
        nonlocal memory
        if count % SEGMENTS_A_CALL:
            raise ValueError(
                f'{count} segments are not a multiple of {SEGMENTS_A_CALL}, which evaluation reads in a call'
            )
        for _ in range(count // SEGMENTS_A_CALL):
            losses, memory = read(params, segments, memory)
        return losses.block_until_ready()

    run(SEGMENTS_A_CALL * (math.ceil(model.core.span / work.segment_length / SEGMENTS_A_CALL) + 1))
    return run


@functools.cache
def _decoding(work: Work) -> Callable[[int], Any]:
    """A function that makes so many tokens of each row; memory is full when this returns."""
    model = model_of(work)
    params = jax.jit(lambda key: init_params(model, work.segment_length, key))(jax.random.key(0))
    length = model.core.span + work.segment_length + 1
    prompts = np.random.default_rng(0).integers(work.vocab_size, size=(work.batch_size, length), dtype=np.int32)
    read = decoder.read_prompts(model, params, [[prompt] for prompt in prompts], work.segment_length)
    decoding = decoder.Decoding(model, read, Drawing(top_k=1), row_keys(0, range(work.batch_size)))

    def run(count: int) -> int:
        made = 0
        while made < count:
            made += len(decoding.advance(_UNBOUNDED, min(decoder.CHUNK, count - made))[0])
        return made

    run(work.segment_length)  # once through the end of a segment: everything is compiled
    return run


def _memory_bytes(work: Work) -> int:
    """Of all that is carried: keys and values of the slots, states where they will be compressed, and positions."""
    model = model_of(work)

    def cached(key: jax.Array) -> Any:
        params = init_params(model, work.segment_length, key)
        return model.apply({'params': params}, model.init_memory(work.batch_size), work.segment_length, method='cache')

    memory = jax.eval_shape(cached, jax.random.key(0))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(memory))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Does what a request says."""
    if request['kind'] == 'versions':
        return {'jax': jax.__version__, 'flax': flax.__version__}
    work = Work(**request)
    run = {'evaluate': _evaluation, 'decode': _decoding}[work.kind](dataclasses.replace(work, count=0))
    begin = time.perf_counter()
    run(work.count)
    seconds = time.perf_counter() - begin
    per_row = work.count * (work.segment_length if work.kind == 'evaluate' else 1)
    return {'seconds': seconds, 'tokens': work.batch_size * per_row, 'bytes': _memory_bytes(work)}


if __name__ == '__main__':
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
