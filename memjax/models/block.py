"""The layer of Transformer-XL: attention over its own inputs of earlier segments (arXiv 1901.02860, section 3)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from memjax.config import head_dim
from memjax.memory import fifo
from memjax.nn.attention import Biases, OneView, PastSlots, PositionTables, RelativeAttention, View
from memjax.nn.feed_forward import FeedForward

NORM_EPSILON = 1e-5


@struct.dataclass
class LayerMemory:
    """One layer's part of a memory, levels from the newest to the oldest."""

    slots: tuple[fifo.Slots, ...]  # B x M x D each
    ages: tuple[jax.Array | None, ...]  # B x M each
    layer: jax.Array  # int32 scalar, which layer this is
    positions: PositionTables | None  # projected, where slots are

    @property
    def batch_size(self) -> int:
        """B."""
        return jax.tree.leaves(self.slots)[0].shape[0]

    @property
    def num_layers(self) -> int:
        """L, where it is of a stack of layers."""
        return len(self.layer)

    @property
    def num_slots(self) -> int:
        """P, of all levels."""
        return sum(map(fifo.num_slots, self.slots))


@struct.dataclass
class Shared:
    """What all layers read of a segment."""

    tables: PositionTables
    biases: Biases | None  # None: each layer has its own, or the encoding has none
    view: View
    full_KxB: jax.Array  # levels from the newest on that are full, so that their oldest block leaves
    segments_B: jax.Array  # segments read since the document began
    lengths_B: jax.Array


@struct.dataclass
class LayerTail:
    """One layer's part of a segment that is not finished: its tokens so far, then anything."""

    keys_BxHxTxK: jax.Array
    values_BxHxTxK: jax.Array
    inputs_BxTxD: jax.Array | None  # what will enter the memory; None where keys and values are all that is kept
    usage_BxP: jax.Array | None  # see `TransformerXLBlock.usage`, summed over the tokens so far

    def emptied(self) -> LayerTail:
        """As at a segment's begin; keys, values and inputs are masked until they are written."""
        return self.replace(usage_BxP=None if self.usage_BxP is None else jnp.zeros_like(self.usage_BxP))


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


def holds_projections(memory: LayerMemory) -> bool:
    """Whether the memory holds keys and values."""
    return isinstance(memory.slots[0], fifo.Projected)


def attention_sum(weights_BxHxTxN: jax.Array, lengths_B: jax.Array) -> jax.Array:
    """Attention that each key got, B x N: a mean over heads and a sum over real queries."""
    real_BxT = jnp.arange(weights_BxHxTxN.shape[2]) < lengths_B[:, None]
    return (weights_BxHxTxN.mean(axis=1) * real_BxT[..., None]).sum(axis=1)


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
            encoding=config.position_encoding,
            largest_distance=config.largest_distance,
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
        if self._owns_biases:
            self.biases = make_biases(self, config)

    @property
    def _owns_biases(self) -> bool:
        return self.config.untie_r and self.config.position_encoding == 'relative'

    def __call__(self, x_BxTxD: jax.Array, memory: LayerMemory, shared: Shared, train: bool):
        """Reads a segment.

        Where the collection `intermediates` is asked for, `attention_sum` is sown there.

        Returns:
          The layer's output, then what the core gathers: what enters the memory (the attention's inputs B x T x D), the
          candidates for the compressed levels, and auxiliary losses.
        """
        inputs_BxTxD = self._attention_input(x_BxTxD)
        keys, values = self.attention.project(inputs_BxTxD)
        attended_BxTxD, weights_BxHxTxN = self.attention(
            inputs_BxTxD,
            self._past(memory),
            (keys, values),
            self._positions(memory, shared.tables),
            self._far_ages(memory),
            self.biases if self._owns_biases else shared.biases,
            shared.view,
            train,
        )
        x_BxTxD = self._after_attention(x_BxTxD, attended_BxTxD, train)
        usage_BxN = self.usage(weights_BxHxTxN, shared.lengths_B)
        candidates = self.compress(memory, inputs_BxTxD.shape[1], usage_BxN, shared.segments_B)
        analysed = self.is_mutable_collection('intermediates')
        if analysed:
            self.sow('intermediates', 'attention_sum', attention_sum(weights_BxHxTxN, shared.lengths_B))
        aux = {}
        # A loss may have parameters of its own; slots that hold projections cannot be compared.
        if train or self.is_initializing() or (analysed and not holds_projections(memory)):
            aux = self.auxiliary_losses(inputs_BxTxD, memory, candidates, shared)
        return x_BxTxD, (self._held(memory, 0, inputs_BxTxD, keys, values), candidates, aux)

    def cache(self, empty: None, memory: LayerMemory, tables: PositionTables):
        """The same memory with everything projected that does not change with a segment (`empty`: the scan's carry)."""
        slots = []
        for level, states_BxMxD in enumerate(memory.slots):
            keys, values = self.attention.project(states_BxMxD)
            slots.append(fifo.Projected(states_BxMxD if self.keeps_states(level) else None, keys, values))
        positions = self.attention.project_positions(tables)
        if self.config.compressed_positions == 'time':
            # One for every half token of the whole span: more than the slots themselves.
            positions = positions.replace(far=None)
        return empty, (tuple(slots), positions)

    def keeps_states(self, level: int) -> bool:
        """Whether the states of a level are needed once they are projected; in Transformer-XL they never are."""
        del level
        return False

    def open(self, empty: None, memory: LayerMemory, tables: PositionTables, segment_length: int):
        """What single tokens need besides `project_memory`: positions, and a segment without a token.

        Args:
          empty: the scan's carry.
          memory: of the layer.
          tables: of positions.
          segment_length: T.

        Returns:
          The carry, projected positions, H x N x K, and the segment.
        """
        B, P = memory.batch_size, memory.num_slots
        inputs_BxTxD = jnp.zeros((B, segment_length, self.config.model_dim), jnp.dtype(self.config.dtype))
        # Zeros too, but on several devices split among them as those of tokens will be.
        keys_BxHxTxK, values_BxHxTxK = self.attention.project(inputs_BxTxD)
        keeps_states = not holds_projections(memory) or self.keeps_states(0)
        tail = LayerTail(
            keys_BxHxTxK=keys_BxHxTxK,
            values_BxHxTxK=values_BxHxTxK,
            inputs_BxTxD=inputs_BxTxD if keeps_states else None,
            usage_BxP=self.usage(jnp.zeros((B, 1, 1, P)), jnp.ones((B,), jnp.int32)),
        )
        return empty, (self._positions(memory, tables), tail)

    def project_memory(self, empty: None, memory: LayerMemory):
        """After the carry, as `PastSlots` has them, memory's keys and values, and the ages of the compressed slots."""
        keys_BxHxPxK, values_BxHxPxK = (jnp.concatenate(each, axis=2) for each in zip(*self._past(memory), strict=True))
        return empty, (keys_BxHxPxK, values_BxHxPxK, self._far_ages(memory))

    def extend(
        self, x_BxD: jax.Array, past: PastSlots, tail: LayerTail, biases: Biases | None, view: OneView
    ) -> tuple[jax.Array, LayerTail]:
        """Reads one token of each row; memory is only read."""
        inputs_BxD = self._attention_input(x_BxD)
        key_BxHxK, value_BxHxK = self.attention.project_one(inputs_BxD)
        attended_BxD, weights_BxHxP, keys_BxHxTxK, values_BxHxTxK = self.attention.attend_one(
            inputs_BxD,
            key_BxHxK,
            value_BxHxK,
            tail.keys_BxHxTxK,
            tail.values_BxHxTxK,
            past,
            self.biases if self._owns_biases else biases,
            view,
        )
        tail = tail.replace(keys_BxHxTxK=keys_BxHxTxK, values_BxHxTxK=values_BxHxTxK)
        if tail.inputs_BxTxD is not None:
            put = jax.lax.dynamic_update_index_in_dim
            tail = tail.replace(inputs_BxTxD=put(tail.inputs_BxTxD, inputs_BxD, view.place, 1))
        if tail.usage_BxP is not None:
            usage_BxP = self.usage(weights_BxHxP[:, :, None], jnp.ones((x_BxD.shape[0],), jnp.int32))
            tail = tail.replace(usage_BxP=tail.usage_BxP + usage_BxP)
        return self._after_attention(x_BxD, attended_BxD, False), tail

    def close(self, empty: None, memory: LayerMemory, tail: LayerTail, segments_B: jax.Array):
        """What enters the memory and the candidates for the compressed levels, once the segment is full."""
        T = tail.keys_BxHxTxK.shape[2]
        held = self._held(memory, 0, tail.inputs_BxTxD, tail.keys_BxHxTxK, tail.values_BxHxTxK)
        return empty, (held, self.compress(memory, T, tail.usage_BxP, segments_B))

    def usage(self, weights_BxHxTxN: jax.Array, lengths_B: jax.Array) -> jax.Array | None:
        """What compression wants to know of how much each key was attended to, B x N; Transformer-XL nothing."""
        del weights_BxHxTxN, lengths_B
        return None

    def compress(
        self, memory: LayerMemory, segment_length: int, usage_BxN: jax.Array | None, segments_B: jax.Array
    ) -> tuple[fifo.Candidate, ...]:
        """What would enter each compressed level now; Transformer-XL has none."""
        del memory, segment_length, usage_BxN, segments_B
        return ()

    def auxiliary_losses(
        self, inputs_BxTxD: jax.Array, memory: LayerMemory, candidates: tuple[fifo.Candidate, ...], shared: Shared
    ) -> dict[str, jax.Array]:
        """Scalars of this layer that training adds to the loss, averaged over layers; Transformer-XL has none."""
        del inputs_BxTxD, memory, candidates, shared
        return {}

    def frozen_levels(self, memory: LayerMemory) -> tuple[fifo.Slots, ...]:
        """The levels' slots as attention reads them: no gradient goes back into an earlier segment."""
        return jax.lax.stop_gradient(memory.slots)

    def _attention_input(self, x_BxTxD: jax.Array) -> jax.Array:
        return self.attention_norm(x_BxTxD) if self.config.norm == 'pre' else x_BxTxD

    def _past(self, memory: LayerMemory) -> list[tuple[jax.Array, jax.Array]]:
        """Keys and values of all slots, the oldest first, B x H x P x K each: a level each where they are held."""
        levels = self.frozen_levels(memory)[::-1]
        if not holds_projections(memory):
            return [self.attention.project(jnp.concatenate(levels, axis=1))]
        return [(level.keys_LxBxHxMxK, level.values_LxBxHxMxK) for level in levels]

    def _positions(self, memory: LayerMemory, tables: PositionTables) -> PositionTables:
        if not holds_projections(memory):
            return self.attention.project_positions(tables)
        if memory.positions.far is None and tables.far is not None:
            return memory.positions.replace(far=self.attention.project_far_positions(tables.far))
        return memory.positions

    def _held(
        self, memory: LayerMemory, level: int, states: jax.Array, keys: jax.Array | None, values: jax.Array | None
    ) -> fifo.Slots:
        """What a level's slots hold of new states; projected here if they are and it was not done before."""
        if not holds_projections(memory):
            return states
        if keys is None:
            keys, values = self.attention.project(states)
        return fifo.Projected(states if self.keeps_states(level) else None, keys, values)

    def _far_ages(self, memory: LayerMemory) -> jax.Array:
        """Doubled ages of all compressed slots, oldest level first, B x C (C = 0 without any)."""
        ages = [jnp.zeros((memory.batch_size, 0), jnp.int32), *memory.ages[:0:-1]]
        return jnp.concatenate(ages, axis=1)

    def _after_attention(self, x: jax.Array, attended: jax.Array, train: bool) -> jax.Array:
        x = x + self.dropout(attended, deterministic=not train)
        if self.config.norm == 'pre':
            return x + self.feed_forward(self.feed_forward_norm(x), train)
        x = self.attention_norm(x)
        return self.feed_forward_norm(x + self.feed_forward(x, train))
