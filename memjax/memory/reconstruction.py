"""Auxiliary losses that train a compression function on what it does to the memory it replaces."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def attention_reconstruction_loss(
    attended_old_BxTxHxK: jax.Array,
    attended_new_BxTxHxK: jax.Array,
    valid_B: jax.Array,
    lengths_B: jax.Array,
) -> jax.Array:
    """Mean square of the change that compression makes to what the segment's queries read from the old block.

    Compressive Transformer, Algorithm 2, as the mean over elements instead of the norm, as its authors' code has it.

    Args:
      attended_old_BxTxHxK: content-only attention of the segment over the block that is about to leave the memory.
      attended_new_BxTxHxK: the same over the compressed block.
      valid_B: rows whose block is filled.
      lengths_B: real tokens of each row's segment; queries of padding do not count.

    Returns:
      A float32 scalar: the mean over real queries of valid rows, heads and widths; 0 if there is none.
    """
    T = attended_old_BxTxHxK.shape[1]
    difference = attended_old_BxTxHxK.astype(jnp.float32) - attended_new_BxTxHxK.astype(jnp.float32)
    square_BxT = jnp.square(difference).mean(axis=(2, 3))
    counts_BxT = (jnp.arange(T) < lengths_B[:, None]) & valid_B[:, None]
    total = jnp.where(counts_BxT, square_BxT, 0.0).sum()
    return total / jnp.maximum(counts_BxT.sum(), 1)
