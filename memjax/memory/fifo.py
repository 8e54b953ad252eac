"""The memory of a recurrent Transformer: right-aligned first-in-first-out queues, one a level.

They are those of all layers at once; where slots are projected, of one layer.

Level 0 holds layer inputs as they were (Transformer-XL, section 3.2); level k holds what was compressed k times
(Compressive Transformer, section 3.1). All levels move together, once a segment, after the whole stack has run, so
that a policy may look at any layer before anything is kept.

Shapes: L layers, B rows, T segment, M slots of a level, D model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Projected:
    """States with what attention makes of them, while the parameters do not change. Without L inside a layer."""

    states_LxBxMxD: jax.Array | None  # only where they are still to be compressed
    keys_LxBxHxMxK: jax.Array
    values_LxBxHxMxK: jax.Array


# What slots hold. Everything here moves all arrays of it alike: slots are their last axis but one.
Slots = jax.Array | Projected


def num_slots(slots: Slots) -> int:
    """M."""
    return jax.tree.leaves(slots)[0].shape[-2]


@struct.dataclass
class Fifo:
    """One level. Valid slots are the last `count_B` ones; what lies before them is never read."""

    slots_LxBxMxD: Slots  # compute dtype
    count_B: jax.Array  # int32, valid slots
    ages_LxBxM: jax.Array | None  # int32, twice the mean age in tokens (see `push`); None at level 0, where it is known

    @property
    def length(self) -> int:
        """M, the number of slots."""
        return num_slots(self.slots_LxBxMxD)

    def valid_BxM(self) -> jax.Array:
        """Which slots hold something."""
        return jnp.arange(self.length) >= self.length - self.count_B[:, None]


@struct.dataclass
class Memory:
    """Levels from the newest to the oldest: layer inputs, then compressed once, twice, .."""

    levels: tuple[Fifo, ...]
    segments_B: jax.Array  # int32, segments read since the row's document began
    positions: Any = None  # the projected encodings of a segment's distances, by layer, where slots are projected


@struct.dataclass
class Candidate:
    """The compressed block that enters a level if the block it was made of leaves the level before."""

    slots_LxBxCxD: Slots
    ages_LxBxC: jax.Array


def empty_memory(
    num_layers: int, batch_size: int, lengths: tuple[int, ...], model_dim: int, dtype: jnp.dtype
) -> Memory:
    """A memory of the given lengths, a level each, without a valid slot."""

    def level(index: int, length: int) -> Fifo:
        shape = (num_layers, batch_size, length)
        return Fifo(
            slots_LxBxMxD=jnp.zeros((*shape, model_dim), dtype),
            count_B=jnp.zeros((batch_size,), jnp.int32),
            ages_LxBxM=jnp.zeros(shape, jnp.int32) if index else None,
        )

    levels = tuple(level(index, length) for index, length in enumerate(lengths))
    return Memory(levels=levels, segments_B=jnp.zeros((batch_size,), jnp.int32))


def forget(memory: Memory, start_B: jax.Array) -> Memory:
    """Empties the rows that begin a new document."""
    levels = tuple(level.replace(count_B=jnp.where(start_B, 0, level.count_B)) for level in memory.levels)
    return memory.replace(levels=levels, segments_B=jnp.where(start_B, 0, memory.segments_B))


def forget_within(memory: Memory, start_BxG: jax.Array, segment_length: int) -> tuple[Memory, jax.Array]:
    """What level 0, the only one, holds of G segments of T tokens that are read at once, as if one after the other.

    Args:
      memory: before the first of them.
      start_BxG: rows that begin a document at each segment.
      segment_length: T.

    Returns:
      The memory to push all G segments to as one, which makes its counts right: until then they may be negative. And
      how many valid slots each segment finds, those of the segments before it included, B x G.
    """
    G = start_BxG.shape[1]
    counts = []
    for start_B in start_BxG.T:
        memory = forget(memory, start_B)
        (level,) = memory.levels
        counts.append(level.count_B)
        moved_B = jnp.minimum(level.count_B + segment_length, level.length)
        memory = memory.replace(levels=(level.replace(count_B=moved_B),), segments_B=memory.segments_B + 1)
    (level,) = memory.levels
    # A push adds what it moves, and one segment.
    memory = memory.replace(
        levels=(level.replace(count_B=level.count_B - G * segment_length),), segments_B=memory.segments_B - 1
    )
    return memory, jnp.stack(counts, axis=1)


def map_rows(function: Callable[..., jax.Array], *memories: Memory) -> Memory:
    """Applies `function(axis, *arrays)` to the arrays of memories of equal shape, `axis` being that of the rows.

    What all rows share is taken from the first.
    """

    def by_layer(*arrays: jax.Array) -> jax.Array:
        return function(1, *arrays)

    def level(*levels: Fifo) -> Fifo:
        return Fifo(
            slots_LxBxMxD=jax.tree.map(by_layer, *(each.slots_LxBxMxD for each in levels)),
            count_B=function(0, *(each.count_B for each in levels)),
            ages_LxBxM=jax.tree.map(by_layer, *(each.ages_LxBxM for each in levels)),
        )

    levels = tuple(level(*each) for each in zip(*(memory.levels for memory in memories), strict=True))
    return memories[0].replace(levels=levels, segments_B=function(0, *(memory.segments_B for memory in memories)))


def push(
    memory: Memory,
    inputs_LxBxTxD: Slots,
    candidates: tuple[Candidate, ...] = (),
    keep_B: jax.Array | None = None,
) -> Memory:
    """Moves every level by one segment.

    Ages count from the first token of the segment that will be read next, doubled so that the mean of an even number
    of tokens is an integer: the newest layer input has age 1, stored as 2.

    Args:
      memory: the levels as the segment read them, already emptied where a document began.
      inputs_LxBxTxD: the segment's layer inputs, which enter level 0.
      candidates: for level 1, 2, ..: the compressed oldest block of the level before, aged as in this segment.
      keep_B: rows whose candidate for level 1 is kept; None keeps all. A discarded block is gone for good.

    Returns:
      The memory that the next segment reads. A candidate enters only where the block it stands for was valid; a
      level before a candidate's must be a whole number of blocks long, so that a block is valid as a whole or not.
    """
    if len(candidates) != len(memory.levels) - 1:
        raise ValueError(f'{len(memory.levels)} levels need {len(memory.levels) - 1} candidates, not {len(candidates)}')
    segment_length = num_slots(inputs_LxBxTxD)
    newest = memory.levels[0]
    batch_size = newest.count_B.shape[0]
    enters_B = jnp.ones((batch_size,), bool)
    levels = [_append(newest, inputs_LxBxTxD, None, enters_B)]
    for below, level, candidate in zip(memory.levels[:-1], memory.levels[1:], candidates, strict=True):
        enters_B = enters_B & (below.count_B == below.length)
        if keep_B is not None and len(levels) == 1:
            enters_B = enters_B & keep_B
        moved = _append(level, candidate.slots_LxBxCxD, candidate.ages_LxBxC, enters_B)
        levels.append(moved.replace(ages_LxBxM=moved.ages_LxBxM + 2 * segment_length))
    return memory.replace(levels=tuple(levels), segments_B=memory.segments_B + 1)


def _append(level: Fifo, new_LxBxTxD: Slots, ages_LxBxT: jax.Array | None, enters_B: jax.Array) -> Fifo:
    length, added = level.length, num_slots(new_LxBxTxD)

    def shifted(axis: int, old: jax.Array, new: jax.Array) -> jax.Array:
        # Cut before they are joined: then nothing but what stays is copied.
        stays = jax.lax.slice_in_dim(old, min(added, length), None, axis=axis)
        enter = jax.lax.slice_in_dim(new.astype(old.dtype), max(added - length, 0), None, axis=axis)
        moved = jnp.concatenate([stays, enter], axis)
        enters = enters_B.reshape((1, -1) + (1,) * (old.ndim - 2))
        return jnp.where(enters, moved, old)

    return Fifo(
        slots_LxBxMxD=jax.tree.map(functools.partial(shifted, -2), level.slots_LxBxMxD, new_LxBxTxD),
        count_B=jnp.where(enters_B, jnp.minimum(level.count_B + added, length), level.count_B),
        ages_LxBxM=None if ages_LxBxT is None else shifted(-1, level.ages_LxBxM, ages_LxBxT),
    )


def block_ages(length: int, block_length: int) -> jax.Array:
    """Doubled ages, int32, of the oldest `block_length` slots of a full level 0 of the given length."""
    return 2 * (length - jnp.arange(block_length, dtype=jnp.int32))


def pooled_ages(ages_xT: jax.Array, rate: int) -> jax.Array:
    """Doubled mean age of every `rate` neighbours in the last axis, for slots that are evenly spaced."""
    grouped = ages_xT.reshape(*ages_xT.shape[:-1], -1, rate)
    return (grouped[..., 0] + grouped[..., -1]) // 2
