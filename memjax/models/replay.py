"""Reading an open segment by reading it again from its start: for cores that have no way to go on from a token.

The cost of a token grows with the segment, not with the text.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from memjax.models.open_segment import OpenSegment


@struct.dataclass
class ReplayedTail:
    """A segment that is not finished."""

    inputs_BxTxD: jax.Array  # the states read so far, then anything
    length: jax.Array  # int32 scalar, how many

    @property
    def is_full(self) -> jax.Array:
        """Whether the segment is at its end."""
        return self.length == self.inputs_BxTxD.shape[1]


class Replay:
    """`open`, `extend` and `close` for a core whose output at a token depends on no later one; past = memory."""

    def open(self, memory: Any, segment_length: int) -> OpenSegment:
        """Begins a segment that is read token by token."""
        shape = (self.batch_size(memory), segment_length, self.config.model_dim)
        inputs_BxTxD = jnp.zeros(shape, jnp.dtype(self.config.dtype))
        return OpenSegment(memory, ReplayedTail(inputs_BxTxD, jnp.zeros((), jnp.int32)))

    def extend(self, x_BxD: jax.Array, past: Any, tail: ReplayedTail) -> tuple[jax.Array, ReplayedTail]:
        """Reads one token of each row."""
        inputs_BxTxD = jax.lax.dynamic_update_index_in_dim(tail.inputs_BxTxD, x_BxD, tail.length, axis=1)
        y_BxTxD, _ = self._replayed(inputs_BxTxD, past)
        y_BxD = jax.lax.dynamic_index_in_dim(y_BxTxD, tail.length, axis=1, keepdims=False)
        return y_BxD, ReplayedTail(inputs_BxTxD, tail.length + 1)

    def close(self, state: OpenSegment) -> OpenSegment:
        """Moves the memory at the end of a segment, and begins the next one."""
        _, memory = self._replayed(state.tail.inputs_BxTxD, state.past)
        return OpenSegment(memory, state.tail.replace(length=jnp.zeros_like(state.tail.length)))

    def _replayed(self, inputs_BxTxD: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        B, T = inputs_BxTxD.shape[:2]
        y_BxTxD, memory, _, _ = self(inputs_BxTxD, jnp.zeros((B,), bool), memory, jnp.full((B,), T), False)
        return y_BxTxD, memory
