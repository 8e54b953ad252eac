"""Tiny models for the tests of this folder: built and compiled once a process, no parameter at zero."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.config import base_config
from memjax.memory import fifo
from memjax.models.contract import LanguageModel, Output, Segment
from memjax.models.factory import build_model, init_params

T = 4  # segment length, unless a test says otherwise
VOCAB = 11

TINY = {
    'num_layers': 2, 'num_heads': 2, 'model_dim': 16, 'mlp_dim': 32, 'vocab_size': VOCAB,
    'memory_length': 8, 'compressed_memory_length': 6, 'compression_rate': 2,
}  # fmt: skip

# The fields that decide which parameters there are.
SHAPING = {
    'name',
    'norm',
    'compressed_positions',
    'compression',
    'compression_loss',
    'compression_rate',
    'compression_rate_by_layer',
    'higher_compression_rates',
    'higher_memory_lengths',
    'num_layers',
    'head_dim',
    'largest_distance',
    'mlp_dim',
    'model_dim',
    'num_heads',
    'num_memory_tokens',
    'position_encoding',
    'untie_r',
    'tie_embeddings',
    'vocab_size',
}

TXL = [{'name': 'transformer_xl', 'norm': norm} for norm in ('pre', 'post')]
CT = [
    {'name': 'compressive', 'norm': norm, 'compressed_positions': scheme}
    for norm in ('pre', 'post')
    for scheme in ('slots', 'separate', 'time')
]
# Compiling all eight would be slow; the few have every scheme and both norms.
CT_FEW, CT_OTHERS = CT[::2], CT[1::2]
# Beyond the paper's model: rates by layer with a selection, a second compressed level, and the other functions.
CT_MORE = [
    {'name': 'compressive', **fields}
    for fields in (
        {'compression': 'most_used', 'compressed_positions': 'time', 'compression_rate_by_layer': (2, 4)},
        {'higher_memory_lengths': (3,), 'higher_compression_rates': (2,), 'compression_loss': 'auto_encoding'},
        {'compression': 'random', 'compressed_positions': 'separate'},
        {'compression': 'dilated_conv', 'norm': 'post'},
    )
]
# Other encodings of positions; the first without memory, as a vanilla Transformer is.
ENCODED = [
    {'name': 'transformer_xl', 'position_encoding': 'absolute', 'memory_length': 0},
    {'name': 'transformer_xl', 'position_encoding': 'shaw', 'largest_distance': 5, 'norm': 'post'},
    {'name': 'transformer_xl', 'position_encoding': 'absolute'},
    {'name': 'compressive', 'position_encoding': 'shaw', 'largest_distance': 30},
]
# Other ways to carry something from segment to segment.
RECURRENT = [
    {'name': 'rmt', 'num_memory_tokens': 2},
    {'name': 'lstm'},
    {'name': 'rmt', 'num_memory_tokens': 3, 'memory_length': 0, 'norm': 'post'},
]
FEW = [TXL[1], CT[0], CT[4], *CT_MORE[:2], *RECURRENT[:2]]
OTHERS = [TXL[0], *CT[1:4], CT[5], *CT_MORE[2:], *ENCODED, RECURRENT[2]]


def each(fast: Sequence[dict[str, Any]], slow: Sequence[dict[str, Any]] = ()) -> pytest.MarkDecorator:
    """Runs a test for every one of some models, as its argument `variant`; for `slow` ones in the slow tier only."""

    def case(variant: dict[str, Any], *marks: pytest.MarkDecorator):
        return pytest.param(variant, id='-'.join(map(str, variant.values())), marks=marks)

    cases = [*(case(variant) for variant in fast), *(case(variant, pytest.mark.slow) for variant in slow)]
    return pytest.mark.parametrize('variant', cases)


@dataclasses.dataclass(frozen=True, eq=False)
class Tiny:
    """A model with parameters and its compiled functions."""

    model: LanguageModel
    params: dict

    @functools.cached_property
    def read(self) -> Callable[..., tuple[Output, fifo.Memory]]:
        """(params, segment, memory) -> output with logits, memory; as in evaluation."""
        return jax.jit(
            lambda params, segment, memory: self.model.apply({'params': params}, segment, memory, False, True)
        )

    @functools.cached_property
    def step(self) -> Callable:
        """(tokens, open segment) -> logits, open segment."""
        return jax.jit(lambda tokens, state: self.model.apply({'params': self.params}, tokens, state, method='step'))

    @functools.cached_property
    def open(self) -> Callable:
        """(memory, segment length) -> open segment."""
        return jax.jit(
            lambda memory, length: self.model.apply({'params': self.params}, memory, length, method='open'),
            static_argnums=1,
        )

    def core(self, params: dict, x_BxTxD: jax.Array, start_B: jax.Array, memory: fifo.Memory):
        """The core's states and memory, all tokens real; not compiled."""
        lengths_B = jnp.full((x_BxTxD.shape[0],), x_BxTxD.shape[1])
        args = (x_BxTxD, start_B, memory, lengths_B, False)
        return self.model.apply({'params': params}, *args, method=lambda model, *args: model.core(*args))[:2]

    def train(self, params: dict, segment: Segment, memory: fifo.Memory, key: jax.Array | None = None):
        """As `read`, but as in training; not compiled."""
        rngs = None if key is None else {'dropout': key}
        return self.model.apply({'params': params}, segment, memory, True, True, rngs=rngs)

    def read_text(
        self, segments: Sequence[Segment], memory: fifo.Memory | None = None, params: dict | None = None
    ) -> tuple[np.ndarray, fifo.Memory]:
        """Logits of all segments, B x N x V, and the last memory."""
        memory = self.model.init_memory(segments[0].inputs_BxT.shape[0]) if memory is None else memory
        logits = []
        for segment in segments:
            output, memory = self.read(self.params if params is None else params, segment, memory)
            logits.append(np.asarray(output.logits_BxTxV))
        return np.concatenate(logits, axis=1), memory


@functools.cache
def tiny(**overrides: Any) -> Tiny:
    """The model of TINY with some fields of the model section changed; equal shapes get equal parameters."""
    shaping = {field: value for field, value in overrides.items() if field in SHAPING}
    return Tiny(model_of(**overrides), random_params(**shaping))


def model_of(**overrides: Any) -> LanguageModel:
    """The model alone."""
    section = base_config().model
    section.update({**TINY, **overrides})
    if section.name != 'compressive':
        section.compressed_memory_length = 0
    return build_model(section)


@functools.cache
def random_params(**shaping: Any) -> dict:
    """Every parameter drawn from a normal distribution wide enough that all of them matter."""
    model = model_of(**shaping)
    shapes = jax.eval_shape(lambda key: init_params(model, T, key), jax.random.key(0))
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        gain = 'scale' in jax.tree_util.keystr(path)
        return jnp.asarray(gain + (0.1 if gain else 0.3) * rng.normal(size=leaf.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def levels_of(memory: Any) -> list[fifo.Fifo]:
    """All queues of a memory, whether its layers are one stack or several."""
    parts = memory if isinstance(memory, tuple) else (getattr(memory, 'cached', memory),)
    return [level for part in parts for level in getattr(part, 'levels', ())]


def text(rows: int, length: int, seed: int = 0) -> np.ndarray:
    """Random tokens, rows x (length + 1): one more than is read, as the last target."""
    return np.random.default_rng(seed).integers(0, VOCAB, size=(rows, length + 1)).astype(np.int32)


def cut(tokens: np.ndarray, segment_length: int = T, starts: Collection[tuple[int, int]] = ()) -> list[Segment]:
    """Segments of a text; documents begin at the first one and at the (row, segment) of `starts`."""
    rows, length = tokens.shape[0], tokens.shape[1] - 1
    segments = []
    for index, first in enumerate(range(0, length, segment_length)):
        begins = [index == 0 or (row, index) in starts for row in range(rows)]
        segments.append(
            Segment(
                inputs_BxT=jnp.asarray(tokens[:, first : first + segment_length]),
                targets_BxT=jnp.asarray(tokens[:, first + 1 : first + 1 + segment_length]),
                weights_BxT=jnp.ones((rows, segment_length), jnp.float32),
                start_B=jnp.array(begins),
                lengths_B=jnp.full((rows,), segment_length, jnp.int32),
            )
        )
    return segments


def stacked(segments: Sequence[Segment]) -> Segment:
    """Segments with a leading axis, for `jax.lax.scan`."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *segments)
