"""Auxiliary losses that train a compression function: on what it does to the memory it replaces, or what it loses."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def attention_reconstruction_loss(
    attended_old_BxTxHxK: jax.Array,
    attended_new_BxTxHxK: jax.Array,
    valid_B: jax.Array,
    lengths_B: jax.Array,
    reduction: str = 'mean',
) -> jax.Array:
    """Square of the change that compression makes to what the segment's queries read from the old block.

    Compressive Transformer, Algorithm 2.

    Args:
      attended_old_BxTxHxK: content-only attention of the segment over the block that is about to leave the memory.
      attended_new_BxTxHxK: the same over the compressed block.
      valid_B: rows whose block is filled.
      lengths_B: real tokens of each row's segment; queries of padding do not count.
      reduction: `mean` over real queries, heads and widths, as in the authors' code; `sum`: the squared norm of the
        paper, one a row, averaged over rows.

    Returns:
      A float32 scalar over the valid rows; 0 if there is none.
    """
    T = attended_old_BxTxHxK.shape[1]
    difference = attended_old_BxTxHxK.astype(jnp.float32) - attended_new_BxTxHxK.astype(jnp.float32)
    counts_BxT = (jnp.arange(T) < lengths_B[:, None]) & valid_B[:, None]
    return _reduced(jnp.square(difference), counts_BxT, reduction)


def auto_encoding_loss(
    old_BxTxD: jax.Array, decoded_BxTxD: jax.Array, valid_B: jax.Array, reduction: str = 'mean'
) -> jax.Array:
    """Square of what is lost of the old block when it is compressed and decompressed.

    Compressive Transformer, section 3.2, the lossless objective.

    Args:
      old_BxTxD: the block that is about to leave the memory.
      decoded_BxTxD: g(f_c(old)).
      valid_B: rows whose block is filled.
      reduction: as for `attention_reconstruction_loss`.

    Returns:
      A float32 scalar over the valid rows; 0 if there is none.
    """
    difference = old_BxTxD.astype(jnp.float32) - decoded_BxTxD.astype(jnp.float32)
    counts_BxT = jnp.broadcast_to(valid_B[:, None], old_BxTxD.shape[:2])
    return _reduced(jnp.square(difference), counts_BxT, reduction)


def _reduced(squares_BxTx: jax.Array, counts_BxT: jax.Array, reduction: str) -> jax.Array:
    """Mean over all that counts, or the sum of a row averaged over the rows in which anything counts."""
    axes = tuple(range(2, squares_BxTx.ndim))
    if reduction == 'mean':
        total = jnp.where(counts_BxT, squares_BxTx.mean(axes), 0.0).sum()
        return total / jnp.maximum(counts_BxT.sum(), 1)
    if reduction == 'sum':
        total = jnp.where(counts_BxT, squares_BxTx.sum(axes), 0.0).sum()
        return total / jnp.maximum(counts_BxT.any(axis=1).sum(), 1)
    raise ValueError(f'unknown reduction {reduction!r}')
