"""Which keys a segment's tokens may attend to: memory's slots as far as they are valid, and its own tokens so far."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from memjax.memory import fifo


def mask(memory: fifo.Memory, segment_length: int, places_Q: jax.Array, same_length: bool) -> jax.Array:
    """Which of memory's slots and the segment's tokens the tokens at some places may see.

    Args:
      memory: as the segment finds it.
      segment_length: T.
      places_Q: of the tokens.
      same_length: whether every token sees as many keys as memory has slots.

    Returns:
      B x Q x N.
    """
    past = sum(level.length for level in memory.levels)
    distance_QxN = past + places_Q[:, None] - jnp.arange(past + segment_length)
    valid_BxP = jnp.concatenate([level.valid_BxM() for level in memory.levels[::-1]], axis=1)
    valid_BxN = jnp.pad(valid_BxP, ((0, 0), (0, segment_length)), constant_values=True)
    return _up_to(distance_QxN, past, same_length) & valid_BxN[:, None]


def mask_at_once(memory_length: int, counts_BxG: jax.Array, segment_length: int, same_length: bool) -> jax.Array:
    """Which of memory's slots and the tokens of G segments each of these tokens may see.

    Args:
      memory_length: M, slots of its only level.
      counts_BxG: valid slots that each segment finds, the tokens of the segments before it included.
      segment_length: T, of each.
      same_length: whether every token sees as many keys as memory has slots.

    Returns:
      B x G T x M + G T.
    """
    places_Q = jnp.arange(counts_BxG.shape[1] * segment_length)
    distance_QxN = memory_length + places_Q[:, None] - jnp.arange(memory_length + len(places_Q))
    # So far before the first token of its segment a key lies, if it does.
    before_QxN = distance_QxN - (places_Q % segment_length)[:, None]
    counts_BxQ = jnp.repeat(counts_BxG, segment_length, axis=1)
    return _up_to(distance_QxN, memory_length, same_length) & (before_QxN <= counts_BxQ[..., None])


def _up_to(distance_QxN: jax.Array, past: int, same_length: bool) -> jax.Array:
    visible_QxN = distance_QxN >= 0
    return visible_QxN & (distance_QxN < past) if same_length else visible_QxN
