"""Reading an open segment by reading it again from its start: for cores that have no way to go on from a token.

The cost of a token grows with the segment, not with the text.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class ReplayedSegment:
    """A segment that is not finished."""

    memory: Any
    inputs_BxTxD: jax.Array  # the states read so far, then zeros
    length: jax.Array  # int32 scalar, how many


class Replay:
    """`open` and `step` for a core whose output at a token depends on no later one."""

    def open(self, memory: Any, segment_length: int) -> ReplayedSegment:
        """Begins a segment that `step` reads token by token."""
        shape = (self.batch_size(memory), segment_length, self.config.model_dim)
        inputs_BxTxD = jnp.zeros(shape, jnp.dtype(self.config.dtype))
        return ReplayedSegment(memory, inputs_BxTxD, jnp.zeros((), jnp.int32))

    def step(self, x_Bx1xD: jax.Array, state: ReplayedSegment) -> tuple[jax.Array, ReplayedSegment]:
        """Reads one token; the one that fills the segment moves the memory and begins the next segment."""
        B, T = state.inputs_BxTxD.shape[:2]
        place = state.length
        inputs_BxTxD = jax.lax.dynamic_update_slice_in_dim(state.inputs_BxTxD, x_Bx1xD, place, axis=1)
        lengths_B = jnp.full((B,), T, jnp.int32)
        y_BxTxD, memory, _, _ = self(inputs_BxTxD, jnp.zeros((B,), bool), state.memory, lengths_B, False)
        full = place + 1 == T
        memory = jax.tree.map(lambda new, old: jnp.where(full, new, old), memory, state.memory)
        state = ReplayedSegment(memory, inputs_BxTxD, jnp.where(full, 0, place + 1))
        return jax.lax.dynamic_slice_in_dim(y_BxTxD, place, 1, axis=1), state
