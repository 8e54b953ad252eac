"""A segment that is read token by token: what its tokens read, apart from what they add.

While a segment is open its memory is only read. A loop over tokens carries the tail and leaves the past outside:
nothing of the memory's size is copied or projected for a token.

All rows begin their segments together, so that they also end together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class OpenSegment:
    """What a core's `open` makes: both parts are the core's own, but that `tail.is_full` tells when to close."""

    past: Any  # what a token reads and does not change
    tail: Any  # what a token adds to


def chosen_rows(rows_B: jax.Array) -> Callable[[int, jax.Array, jax.Array], jax.Array]:
    """For a core's `map_rows`: takes these rows of a new memory and the others of the old one."""

    def choose(axis: int, new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(jnp.expand_dims(rows_B, [other for other in range(new.ndim) if other != axis]), new, old)

    return choose


def repeated_rows(times: int) -> Callable[[int, jax.Array], jax.Array]:
    """For a core's `map_rows`: every row so many times, side by side."""
    return lambda axis, array: jnp.repeat(array, times, axis=axis)
