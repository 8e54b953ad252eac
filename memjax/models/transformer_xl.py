"""Transformer-XL: a stack of layers and the memory of all of them (arXiv 1901.02860, section 3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from memjax.memory import fifo
from memjax.memory.parts import Memory, is_cached, join, split
from memjax.models.block import LayerMemory, LayerTail, Norm, Shared, TransformerXLBlock, make_biases
from memjax.models.layer import Layer, cut_apart, is_apart, layers_of, stacked, unstacked
from memjax.models.masks import mask, mask_at_once
from memjax.models.open_segment import OpenSegment
from memjax.nn import positions
from memjax.nn.attention import OneView, PastSlots, PositionTables, View, position_tables

# Tokens of a row that are read at once, at most: up to about there a CPU's products gain by it.
_TOKENS = 160


@struct.dataclass
class Past:
    """What the tokens of a segment read and do not change."""

    memory: Memory
    slots: tuple[PastSlots, ...]  # a layer each


@struct.dataclass
class Tail:
    """The tokens of a segment so far."""

    layers: tuple[LayerTail, ...]
    length: jax.Array  # int32 scalar, how many

    @property
    def is_full(self) -> jax.Array:
        """Whether the segment is at its end."""
        return self.length == self.segment_length

    @property
    def segment_length(self) -> int:
        """T."""
        return self.layers[0].keys_BxHxTxK.shape[2]


class TransformerXL(nn.Module):
    """The core: a stack of blocks and the memory that they share.

    Attributes:
      config: the model section, frozen.
    """

    config: Any
    block: type[TransformerXLBlock] = TransformerXLBlock
    # In place of `block.extend`, with the block's section and parameters before its arguments: `kernels.layer`.
    read_token: Callable[..., Any] | None = None
    # Whether all that a segment leaves for the next are slots of level 0, so that several can be read at once.
    reads_several = True

    def setup(self):
        config = self.config
        stacks = [self._stack(part) for part in self.parts]
        # One stack keeps the plain name.
        self.layers = stacks[0] if len(stacks) == 1 else stacks
        self.dropout = nn.Dropout(config.dropout_rate)
        if config.norm == 'pre':
            self.final_norm = Norm(config.init_scale, jnp.dtype(config.dtype))
        if self._shares_biases:
            self.biases = make_biases(self, config)

    def _stack(self, config: Any) -> nn.Module:
        """Layers of equal shape, scanned over."""
        scan = {
            'variable_axes': {'params': 0, 'intermediates': 0},  # the second only where an analysis asks for it
            'split_rngs': {'params': True, 'dropout': True},
            'in_axes': (0, nn.broadcast, nn.broadcast),
            'length': config.num_layers,
            'unroll': min(config.layer_unroll, config.num_layers),
        }
        # `train` and `segment_length` are Python values: static to remat, passed through by the scan.
        block = nn.remat(self.block, prevent_cse=False, static_argnums=(4,)) if config.remat else self.block
        methods = {
            '__call__': scan,
            'cache': {**scan, 'in_axes': (0, nn.broadcast)},
            'open': scan,
            'project_memory': {**scan, 'in_axes': 0},
            'close': {**scan, 'in_axes': (0, 0, nn.broadcast)},
        }
        return nn.scan(block, methods=methods)(config)

    @property
    def parts(self) -> tuple[Any, ...]:
        """The model section of each stack: layers that differ in shape cannot be scanned over together."""
        return (self.config,)

    @property
    def memory_lengths(self) -> tuple[int, ...]:
        """Slots of each level, the newest level first."""
        return (self.config.memory_length,)

    def span_of(self, part: Any) -> int:
        """Tokens that the full memory of one of a stack's layers stands for."""
        return part.memory_length

    def oldest_age_of(self, part: Any, segment_length: int) -> int:
        """How far before the segment the oldest token may be that a slot of a stack's layer stands for."""
        del segment_length
        return self.span_of(part)

    @property
    def span(self) -> int:
        """Tokens that one layer's full memory stands for, the largest of any layer."""
        return max(self.span_of(part) for part in self.parts)

    @property
    def temporal_range(self) -> int:
        """Tokens that the last layer's states can depend on, through all layers' memories (section 3.3)."""
        return sum(part.num_layers * self.span_of(part) for part in self.parts)

    def init_memory(self, batch_size: int) -> Memory:
        """An empty memory; needs no parameters."""
        dtype = jnp.dtype(self.config.dtype)
        return join(
            fifo.empty_memory(part.num_layers, batch_size, self.memory_lengths, part.model_dim, dtype)
            for part in self.parts
        )

    def __call__(
        self, x_BxTxD: jax.Array, start_B: jax.Array, memory: Memory, lengths_B: jax.Array, train: bool
    ) -> tuple[jax.Array, Memory, dict[str, jax.Array], dict[str, jax.Array]]:
        """Reads one segment of states.

        Args:
          x_BxTxD: embedded tokens.
          start_B: rows that begin a document; their memory is emptied first. B x G: x is G segments, read at once as if
            one after the other (see `contract.joined`), and `memory` is cached.
          memory: what the segment before left; in training not one that `cache` made.
          lengths_B: real tokens a row; or B x G.
          train: whether dropout acts and auxiliary losses are computed; they are computed too, unless the memory is
            cached, where the collection `intermediates` is asked for.

        Returns:
          States B x T x D, the memory for the next segment, auxiliary losses (means over layers) and stats (the same
          by layer, L).

        Raises:
          ValueError: the memory does not suit: a cached one in training or for another length, one of states with
            several segments at once.
        """
        counts_BxG, memories = None, split(memory)
        if start_B.ndim == 1:
            memories = [fifo.forget(each, start_B) for each in memories]
        else:
            self._check_reads_at_once(memories)
            T = x_BxTxD.shape[1] // start_B.shape[1]
            # All layers are equally full.
            memories, (counts_BxG, *_) = zip(*(fifo.forget_within(each, start_B, T) for each in memories), strict=True)
        y_BxTxD, gathered = self._read(x_BxTxD, memories, lengths_B, train, counts_BxG)
        memory = join(
            fifo.push(each, inputs_LxBxTxD, candidates)
            for each, (inputs_LxBxTxD, candidates, _) in zip(memories, gathered, strict=True)
        )
        auxes = [aux for _, _, aux in gathered]
        stats = {name: jnp.concatenate([aux[name] for aux in auxes]) for name in auxes[0]}
        return y_BxTxD, memory, {name: stats[name].mean() for name in stats}, stats

    def _read(
        self,
        x_BxTxD: jax.Array,
        memories: Sequence[fifo.Memory],
        lengths_B: jax.Array,
        train: bool,
        counts_BxG: jax.Array | None = None,
    ) -> tuple[jax.Array, list[tuple]]:
        """The last layer's states, and of each stack its layers' inputs, candidates and auxiliary losses.

        x is one segment, or, with `counts_BxG`, G of them and how many valid slots each finds (see `forget_within`).
        """
        if train and is_cached(memories):
            raise ValueError('a cached memory holds what these parameters made of it: it is not for training')
        T, gathered, shared_by = x_BxTxD.shape[1], [], None
        segment_length = T if counts_BxG is None else T // counts_BxG.shape[1]
        x_BxTxD = self._placed(x_BxTxD, jnp.arange(T) % segment_length, train)
        for stack, part, memory, by_layer in self._stacks(memories):
            if shared_by is not part:
                shared, shared_by = self._shared(part, memory, T, lengths_B, train, counts_BxG), part
            x_BxTxD, from_layers = stack(x_BxTxD, by_layer, shared, train)
            gathered.append(from_layers)
        return self._finish(x_BxTxD, train), gathered

    def cache(self, memory: Memory, segment_length: int) -> Memory:
        """The memory with its keys and values, and those of all that will enter it; for parameters that do not change.

        What reads it gives the same results with less work: no slot is projected more than once.

        Args:
          memory: of states.
          segment_length: T of all segments to come, or of as many as are read at once; none may have another.
        """
        if is_cached(memory):
            raise ValueError('the memory is cached already')
        cached = []
        for stack, part, each, by_layer in self._stacks(split(memory)):
            _, (slots, positions) = stack.cache(None, by_layer, self._tables(part, each, segment_length, False))
            for layer in range(part.num_layers):

                def of_layer(array: jax.Array, layer: int = layer) -> jax.Array:
                    return array[layer : layer + 1]

                levels = [
                    level.replace(
                        slots_LxBxMxD=jax.tree.map(of_layer, new), ages_LxBxM=jax.tree.map(of_layer, level.ages_LxBxM)
                    )
                    for level, new in zip(each.levels, slots, strict=True)
                ]
                cached.append(each.replace(levels=tuple(levels), positions=jax.tree.map(of_layer, positions)))
        return join(cached)

    def segments_at_once(self, segment_length: int) -> int:
        """A power of two, so that it divides a call's segments: as many as have 160 tokens together.

        Products are then large enough for a CPU, and memory moves once for all. But a token's products also cover keys
        that only other tokens of the group may see: these are held to half of memory.
        """
        most = min(_TOKENS // segment_length, 1 + self.config.memory_length // 2 // segment_length)
        return 1 << (max(most, 1).bit_length() - 1)

    def _check_reads_at_once(self, memories: Sequence[fifo.Memory]) -> None:
        # With states in memory, gradients would go where segments are to be cut off from each other.
        if not is_cached(memories):
            raise ValueError('several segments at once take a cached memory')
        if self.is_mutable_collection('intermediates'):
            raise ValueError('what is sown is of one segment: it cannot be read with others at once')

    def apart(self, params: Any) -> Any:
        """See `LanguageModel.apart`."""
        counts = [part.num_layers for part in self.parts]
        names = ['layers'] if len(counts) == 1 else [f'layers_{index}' for index in range(len(counts))]
        return {**params, **{name: cut_apart(params[name], count) for name, count in zip(names, counts, strict=True)}}

    def open(self, memory: Memory, segment_length: int) -> OpenSegment:
        """Begins a segment that is read token by token.

        Args:
          memory: as the segment should see it (use `memory.fifo.forget` where a document begins).
          segment_length: T, after which memory moves.

        Raises:
          ValueError: the memory was cached for another length.
        """
        tables, tails = [], []
        for stack, part, each, by_layer in self._stacks(split(memory)):
            _, opened = stack.open(None, by_layer, self._tables(part, each, segment_length, False), segment_length)
            for projected, tail in unstacked(opened, by_layer.num_layers):
                tables.append({'near': projected.near, 'far': projected.far})
                tails.append(tail)
        slots = [PastSlots(**past, **table) for past, table in zip(self._past_slots(memory), tables, strict=True)]
        tail = Tail(layers=tuple(tails), length=jnp.zeros((), jnp.int32))
        return OpenSegment(Past(memory, tuple(slots)), tail)

    def extend(self, x_BxD: jax.Array, past: Past, tail: Tail) -> tuple[jax.Array, Tail]:
        """Reads one token of each row; a full segment must be closed before."""
        x_BxD = self._placed(x_BxD[:, None], tail.length[None], False)[:, 0]
        biases = self.biases if self._shares_biases else None
        memories, slots, tails = iter(split(past.memory)), iter(past.slots), iter(tail.layers)
        layers = []
        for stack, part in self._sections():
            # Layers of a part are equally full.
            memory, *_ = itertools.islice(memories, part.num_layers if is_cached(past.memory) else 1)
            mask_BxN = mask(memory, tail.segment_length, tail.length[None], self.config.same_length)[:, 0]
            view = OneView(mask_BxN=mask_BxN, place=tail.length)
            # Not scanned over: a scan would copy each layer's part of memory for every token.
            for params in layers_of(stack.variables['params'], part.num_layers):
                read = (next(slots), next(tails), biases, view)
                if self.read_token is None:
                    block = self.block(part, parent=None)
                    x_BxD, layer = block.apply({'params': params}, x_BxD, *read, method='extend')
                else:
                    x_BxD, layer = self.read_token(part, params, x_BxD, *read)
                layers.append(layer)
        return self._finish(x_BxD, False), Tail(tuple(layers), tail.length + 1)

    def close(self, state: OpenSegment) -> OpenSegment:
        """Moves the memory at the end of a segment, and begins the next one."""
        past, tail = state.past, state.tail
        memories, each_layer = [], iter(tail.layers)
        for stack, _, memory, by_layer in self._stacks(split(past.memory)):
            layers = stacked(list(itertools.islice(each_layer, by_layer.num_layers)))
            _, (held, candidates) = stack.close(None, by_layer, layers, memory.segments_B)
            memories.append(fifo.push(memory, held, candidates))
        memory = join(memories)
        slots = [old.replace(**new) for old, new in zip(past.slots, self._past_slots(memory), strict=True)]
        tail = Tail(layers=tuple(layer.emptied() for layer in tail.layers), length=jnp.zeros_like(tail.length))
        return OpenSegment(past.replace(memory=memory, slots=tuple(slots)), tail)

    def _past_slots(self, memory: Memory) -> list[dict[str, Any]]:
        """Of each layer, those fields of `PastSlots` that depend on the memory."""
        slots = []
        for stack, _, _, by_layer in self._stacks(split(memory)):
            _, projected = stack.project_memory(None, by_layer)
            names = ('keys_BxHxPxK', 'values_BxHxPxK', 'far_ages_BxC')
            slots += [dict(zip(names, each, strict=True)) for each in unstacked(projected, by_layer.num_layers)]
        return slots

    def map_rows(self, function: Callable[..., jax.Array], *memories: Memory) -> Memory:
        """See `fifo.map_rows`."""
        return join(fifo.map_rows(function, *each) for each in zip(*map(split, memories), strict=True))

    def _stacks(self, memories: Sequence[fifo.Memory]) -> Iterator[tuple[Any, Any, fifo.Memory, LayerMemory]]:
        """Each stack with its model section, its memory, and the memory as its layers read it.

        Where slots are projected, each layer is a stack by itself, of the same section as its neighbours.
        """
        first, rest = 0, iter(memories)
        for stack, part in self._sections():
            alone = [stack]
            if is_cached(memories):
                block = self.block(part, parent=None)
                alone = [Layer(block, each, self) for each in layers_of(stack.variables['params'], part.num_layers)]
            elif is_apart(stack.variables.get('params', {})):
                raise ValueError('parameters whose layers are apart are for a cached memory')
            for each in alone:
                memory, count = next(rest), part.num_layers // len(alone)
                layers = jnp.arange(first, first + count, dtype=jnp.int32)
                slots = tuple(level.slots_LxBxMxD for level in memory.levels)
                ages = tuple(level.ages_LxBxM for level in memory.levels)
                yield each, part, memory, LayerMemory(slots=slots, ages=ages, layer=layers, positions=memory.positions)
                first += count

    def _sections(self) -> Iterator[tuple[nn.Module, Any]]:
        """Each stack with its model section."""
        parts = self.parts
        yield from zip((self.layers,) if len(parts) == 1 else self.layers, parts, strict=True)

    @property
    def _shares_biases(self) -> bool:
        return self.config.position_encoding == 'relative' and not self.config.untie_r

    def _placed(self, x_BxTxD: jax.Array, places_T: jax.Array, train: bool) -> jax.Array:
        """Adds encodings of the places in the segment, if encodings are absolute.

        What memory holds then bears the places of its own segment, which are the same as this one's: the confusion
        that section 3.3 warns of.
        """
        if self.config.position_encoding != 'absolute':
            return x_BxTxD
        table_TxD = positions.sinusoid(places_T, self.config.model_dim)
        return x_BxTxD + self.dropout(table_TxD, deterministic=not train).astype(x_BxTxD.dtype)

    def _finish(self, x: jax.Array, train: bool) -> jax.Array:
        x = self.final_norm(x) if self.config.norm == 'pre' else x
        return self.dropout(x, deterministic=not train)

    def _tables(self, part: Any, memory: fifo.Memory, segment_length: int, train: bool) -> PositionTables:
        """Encodings of the distances in a segment; of a memory that is cached, they must be what it was cached for."""
        config = self.config
        tables = position_tables(
            config.position_encoding,
            config.compressed_positions,
            sum(self.memory_lengths[1:]),
            self.memory_lengths[0],
            self.oldest_age_of(part, segment_length),
            segment_length,
            config.model_dim,
            config.clamp_length,
        )
        projected = None if memory.positions is None else memory.positions.near
        if projected is not None and projected.shape[2] != len(tables.near):
            have, need = projected.shape[2], len(tables.near)
            raise ValueError(f'the memory was cached for segments of another length: for {have} distances, not {need}')
        if config.position_encoding != 'relative':
            return tables
        return jax.tree.map(lambda table: self.dropout(table, deterministic=not train), tables)

    def _shared(
        self,
        part: Any,
        memory: fifo.Memory,
        segment_length: int,
        lengths_B: jax.Array,
        train: bool,
        counts_BxG: jax.Array | None,
    ) -> Shared:
        """What a segment sees in one stack."""
        places, same = jnp.arange(segment_length), self.config.same_length
        if counts_BxG is None:
            mask_BxTxN = mask(memory, segment_length, places, same)
        else:
            each_length = segment_length // counts_BxG.shape[1]
            mask_BxTxN = mask_at_once(memory.levels[0].length, counts_BxG, each_length, same)
        return Shared(
            tables=self._tables(part, memory, segment_length, train),
            biases=self.biases if self._shares_biases else None,
            view=View(mask_BxTxN=mask_BxTxN, ages_at=places),
            full_KxB=jnp.cumprod(jnp.stack([level.count_B == level.length for level in memory.levels]), axis=0) > 0,
            segments_B=memory.segments_B,
            lengths_B=lengths_B,
        )
