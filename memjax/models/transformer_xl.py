"""Transformer-XL: every layer attends to its own inputs of earlier segments (arXiv 1901.02860, section 3)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from memjax.config import head_dim
from memjax.memory import fifo
from memjax.nn.attention import Biases, PositionTables, RelativeAttention, View, position_tables
from memjax.nn.feed_forward import FeedForward

NORM_EPSILON = 1e-5


@struct.dataclass
class LayerMemory:
    """One layer's part of a memory, levels from the newest to the oldest."""

    slots: tuple[jax.Array, ...]  # B x M x D each
    ages: tuple[jax.Array | None, ...]  # B x M each


@struct.dataclass
class Shared:
    """What all layers read of a segment."""

    tables: PositionTables
    biases: Biases | None  # None: each layer has its own
    view: View
    block_valid_B: jax.Array  # the oldest block of level 0 is filled, so that it will be compressed, not dropped
    lengths_B: jax.Array


@struct.dataclass
class LayerCache:
    """One layer of a segment that is not finished: projected memory, then the segment's tokens so far."""

    keys_BxNxHxK: jax.Array
    values_BxNxHxK: jax.Array
    projected: PositionTables
    far_ages_BxC: jax.Array
    inputs_BxTxD: jax.Array  # what will enter the memory
    candidates: tuple[fifo.Candidate, ...]  # without their layer axis


@struct.dataclass
class OpenSegment:
    """A segment that is being read token by token; memory moves when it is full."""

    memory: fifo.Memory
    layers: LayerCache  # with a leading axis L
    length: jax.Array  # int32 scalar, tokens read so far


class Norm(nn.Module):
    """Layer norm in float32, its gain drawn from N(1, init_scale) as in the Transformer-XL code."""

    init_scale: float
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Same shape, in the compute dtype."""

        def gain(key, shape, dtype):
            return 1.0 + self.init_scale * jax.random.normal(key, shape, dtype)

        return nn.LayerNorm(NORM_EPSILON, dtype=jnp.float32, scale_init=gain)(x).astype(self.dtype)


def make_biases(module: nn.Module, config: Any) -> Biases:
    """Declares u and v as parameters of `module`: the core's if layers share them, else a layer's."""

    def bias(name: str) -> jax.Array:
        shape = (config.num_heads, head_dim(config))
        return module.param(name, nn.initializers.normal(config.init_scale), shape, jnp.float32)

    far = config.name == 'compressive' and config.compressed_positions == 'separate'
    return Biases(u=bias('u'), v=bias('v'), far_v=bias('far_v') if far else None)


class TransformerXLBlock(nn.Module):
    """One layer: attention over [memory, segment] and a feed-forward sublayer, pre- or post-norm.

    Memory holds what attention reads: the layer's input, normed if the norm comes first.

    Attributes:
      config: the model section, frozen.
    """

    config: Any

    def setup(self):
        config = self.config
        dtype = jnp.dtype(config.dtype)
        self.attention = RelativeAttention(
            num_heads=config.num_heads,
            head_dim=head_dim(config),
            model_dim=config.model_dim,
            scheme=config.compressed_positions,
            has_far_table=config.name == 'compressive',
            attention_dropout_rate=config.attention_dropout_rate,
            init_scale=config.init_scale,
            dtype=dtype,
        )
        self.feed_forward = FeedForward(
            config.model_dim, config.mlp_dim, config.activation, config.dropout_rate, config.init_scale, dtype
        )
        self.attention_norm = Norm(config.init_scale, dtype)
        self.feed_forward_norm = Norm(config.init_scale, dtype)
        self.dropout = nn.Dropout(config.dropout_rate)
        if config.untie_r:
            self.biases = make_biases(self, config)

    def __call__(self, x_BxTxD: jax.Array, memory: LayerMemory, shared: Shared, train: bool):
        """Reads a segment.

        Returns:
          The layer's output, then what the core gathers: the attention's inputs B x T x D, the candidates for the
          compressed levels, and auxiliary losses.
        """
        inputs_BxTxD = self._attention_input(x_BxTxD)
        past_keys, past_values = self.attention.project(self._past(memory))
        keys, values = self.attention.project(inputs_BxTxD)
        x_BxTxD = self._after_inputs(
            x_BxTxD,
            inputs_BxTxD,
            jnp.concatenate([past_keys, keys], axis=1),
            jnp.concatenate([past_values, values], axis=1),
            self.attention.project_positions(shared.tables),
            self._far_ages(memory),
            shared,
            train,
        )
        candidates = self.compress(memory, inputs_BxTxD.shape[1])
        aux = self.auxiliary_losses(inputs_BxTxD, memory, candidates, shared) if train else {}
        return x_BxTxD, (inputs_BxTxD, candidates, aux)

    def open(self, empty: None, memory: LayerMemory, tables: PositionTables, segment_length: int):
        """Projects memory and positions once for the tokens of a segment to come (`empty` is the scan's carry)."""
        past_keys, past_values = self.attention.project(self._past(memory))
        room = ((0, 0), (0, segment_length), (0, 0), (0, 0))
        batch_size, _, model_dim = memory.slots[0].shape
        cache = LayerCache(
            keys_BxNxHxK=jnp.pad(past_keys, room),
            values_BxNxHxK=jnp.pad(past_values, room),
            projected=self.attention.project_positions(tables),
            far_ages_BxC=self._far_ages(memory),
            inputs_BxTxD=jnp.zeros((batch_size, segment_length, model_dim), past_keys.dtype),
            candidates=self.compress(memory, segment_length),
        )
        return empty, cache

    def step(self, x_Bx1xD: jax.Array, cache: LayerCache, shared: Shared, length: jax.Array):
        """Reads the token at place `length` of the open segment."""
        inputs_Bx1xD = self._attention_input(x_Bx1xD)
        key, value = self.attention.project(inputs_Bx1xD)
        T = cache.inputs_BxTxD.shape[1]
        place = cache.keys_BxNxHxK.shape[1] - T + length
        put = jax.lax.dynamic_update_slice_in_dim
        cache = cache.replace(
            keys_BxNxHxK=put(cache.keys_BxNxHxK, key, place, axis=1),
            values_BxNxHxK=put(cache.values_BxNxHxK, value, place, axis=1),
            inputs_BxTxD=put(cache.inputs_BxTxD, inputs_Bx1xD, length, axis=1),
        )
        x_Bx1xD = self._after_inputs(
            x_Bx1xD,
            inputs_Bx1xD,
            cache.keys_BxNxHxK,
            cache.values_BxNxHxK,
            cache.projected,
            cache.far_ages_BxC,
            shared,
            False,
        )
        return x_Bx1xD, cache

    def compress(self, memory: LayerMemory, segment_length: int) -> tuple[fifo.Candidate, ...]:
        """What would enter each compressed level now; Transformer-XL has none."""
        del memory, segment_length
        return ()

    def auxiliary_losses(
        self, inputs_BxTxD: jax.Array, memory: LayerMemory, candidates: tuple[fifo.Candidate, ...], shared: Shared
    ) -> dict[str, jax.Array]:
        """Scalars of this layer that training adds to the loss, averaged over layers; Transformer-XL has none."""
        del inputs_BxTxD, memory, candidates, shared
        return {}

    def frozen_levels(self, memory: LayerMemory) -> tuple[jax.Array, ...]:
        """The levels' slots as attention reads them: no gradient goes back into an earlier segment."""
        return jax.lax.stop_gradient(memory.slots)

    def _attention_input(self, x_BxTxD: jax.Array) -> jax.Array:
        return self.attention_norm(x_BxTxD) if self.config.norm == 'pre' else x_BxTxD

    def _past(self, memory: LayerMemory) -> jax.Array:
        return jnp.concatenate(self.frozen_levels(memory)[::-1], axis=1)

    def _far_ages(self, memory: LayerMemory) -> jax.Array:
        """Doubled ages of all compressed slots, oldest level first, B x C (C = 0 without any)."""
        ages = [jnp.zeros((memory.slots[0].shape[0], 0), jnp.int32), *memory.ages[:0:-1]]
        return jnp.concatenate(ages, axis=1)

    def _after_inputs(self, x, inputs, keys, values, projected, far_ages_BxC, shared: Shared, train: bool):
        biases = self.biases if self.config.untie_r else shared.biases
        attended = self.attention(inputs, keys, values, projected, far_ages_BxC, biases, shared.view, train)
        x = x + self.dropout(attended, deterministic=not train)
        if self.config.norm == 'pre':
            return x + self.feed_forward(self.feed_forward_norm(x), train)
        x = self.attention_norm(x)
        return self.feed_forward_norm(x + self.feed_forward(x, train))


class TransformerXL(nn.Module):
    """The core: a stack of blocks and the memory that they share.

    Attributes:
      config: the model section, frozen.
    """

    config: Any
    block: type[TransformerXLBlock] = TransformerXLBlock

    def setup(self):
        config = self.config
        scan = {
            'variable_axes': {'params': 0},
            'split_rngs': {'params': True, 'dropout': True},
            'in_axes': (0, nn.broadcast, nn.broadcast),
            'length': config.num_layers,
            'unroll': min(config.layer_unroll, config.num_layers),
        }
        # `train` and `segment_length` are Python values: static to remat, passed through by the scan.
        block = nn.remat(self.block, prevent_cse=False, static_argnums=(4,)) if config.remat else self.block
        self.layers = nn.scan(block, methods={'__call__': scan, 'open': scan, 'step': scan})(config)
        self.dropout = nn.Dropout(config.dropout_rate)
        if config.norm == 'pre':
            self.final_norm = Norm(config.init_scale, jnp.dtype(config.dtype))
        if not config.untie_r:
            self.biases = make_biases(self, config)

    @property
    def memory_lengths(self) -> tuple[int, ...]:
        """Slots of each level, the newest level first."""
        return (self.config.memory_length,)

    @property
    def span(self) -> int:
        """Tokens that one layer's full memory stands for."""
        return self.config.memory_length

    def init_memory(self, batch_size: int) -> fifo.Memory:
        """An empty memory; needs no parameters."""
        config = self.config
        return fifo.empty_memory(
            config.num_layers, batch_size, self.memory_lengths, config.model_dim, jnp.dtype(config.dtype)
        )

    def __call__(
        self, x_BxTxD: jax.Array, start_B: jax.Array, memory: fifo.Memory, lengths_B: jax.Array, train: bool
    ) -> tuple[jax.Array, fifo.Memory, dict[str, jax.Array], dict[str, jax.Array]]:
        """Reads one segment of states.

        Args:
          x_BxTxD: embedded tokens.
          start_B: rows that begin a document; their memory is emptied first.
          memory: what the segment before left.
          lengths_B: real tokens a row.
          train: whether dropout acts and auxiliary losses are computed.

        Returns:
          States B x T x D, the memory for the next segment, auxiliary losses (means over layers) and stats (the same
          by layer, L).
        """
        memory = fifo.forget(memory, start_B)
        shared = self._shared(memory, x_BxTxD.shape[1], lengths_B, None, train)
        x_BxTxD, (inputs_LxBxTxD, candidates, aux) = self.layers(x_BxTxD, _by_layer(memory), shared, train)
        memory = fifo.push(memory, inputs_LxBxTxD, candidates)
        means = {name: by_layer.mean() for name, by_layer in aux.items()}
        return self._finish(x_BxTxD, train), memory, means, aux

    def open(self, memory: fifo.Memory, segment_length: int) -> OpenSegment:
        """Begins a segment that `step` reads token by token.

        Args:
          memory: as the segment should see it (use `memory.fifo.forget` where a document begins).
          segment_length: T, after which memory moves.
        """
        tables = self._tables(segment_length, False)
        _, layers = self.layers.open(None, _by_layer(memory), tables, segment_length)
        return OpenSegment(memory=memory, layers=layers, length=jnp.zeros((), jnp.int32))

    def step(self, x_Bx1xD: jax.Array, state: OpenSegment) -> tuple[jax.Array, OpenSegment]:
        """Reads one token; the one that fills the segment moves the memory and begins the next segment."""
        segment_length = state.layers.inputs_BxTxD.shape[2]
        lengths_B = jnp.ones((x_Bx1xD.shape[0],), jnp.int32)
        shared = self._shared(state.memory, segment_length, lengths_B, state.length, False)
        x_Bx1xD, layers = self.layers.step(x_Bx1xD, state.layers, shared, state.length)
        state = state.replace(layers=layers, length=state.length + 1)

        def close(core: TransformerXL, state: OpenSegment) -> OpenSegment:
            memory = fifo.push(state.memory, state.layers.inputs_BxTxD, state.layers.candidates)
            return core.open(memory, segment_length)

        state = nn.cond(state.length == segment_length, close, lambda core, state: state, self, state)
        return self._finish(x_Bx1xD, False), state

    def _finish(self, x: jax.Array, train: bool) -> jax.Array:
        x = self.final_norm(x) if self.config.norm == 'pre' else x
        return self.dropout(x, deterministic=not train)

    def _tables(self, segment_length: int, train: bool) -> PositionTables:
        config = self.config
        tables = position_tables(
            config.compressed_positions,
            sum(self.memory_lengths[1:]),
            self.memory_lengths[0],
            self.span,
            segment_length,
            config.model_dim,
            config.clamp_length,
        )
        return jax.tree.map(lambda table: self.dropout(table, deterministic=not train), tables)

    def _shared(
        self, memory: fifo.Memory, segment_length: int, lengths_B: jax.Array, place: jax.Array | None, train: bool
    ) -> Shared:
        """What a whole segment (`place` None) or its token at `place` sees."""
        places = jnp.arange(segment_length) if place is None else place[None]
        past = sum(level.length for level in memory.levels)
        distance_TxN = past + places[:, None] - jnp.arange(past + segment_length)
        visible_TxN = distance_TxN >= 0
        if self.config.same_length:
            visible_TxN &= distance_TxN < past
        valid = [level.valid_BxM() for level in memory.levels[::-1]]
        valid_BxN = jnp.concatenate([*valid, jnp.ones((lengths_B.shape[0], segment_length), bool)], axis=1)
        newest = memory.levels[0]
        return Shared(
            tables=self._tables(segment_length, train),
            biases=None if self.config.untie_r else self.biases,
            view=View(
                mask_BxTxN=visible_TxN & valid_BxN[:, None],
                ages_at=places,
                offset=None if place is None else segment_length - 1 - place,
            ),
            block_valid_B=newest.count_B == newest.length,
            lengths_B=lengths_B,
        )


def _by_layer(memory: fifo.Memory) -> LayerMemory:
    return LayerMemory(
        slots=tuple(level.slots_LxBxMxD for level in memory.levels),
        ages=tuple(level.ages_LxBxM for level in memory.levels),
    )
