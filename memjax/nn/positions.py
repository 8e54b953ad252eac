"""Relative positions: sinusoids of distances, and scores of every query against every distance it needs.

Transformer-XL, section 3.3 and appendix B. A table of projected encodings holds one row a distance, the farthest
first: row n of N stands for distance N - 1 - n, N being the number of keys that a whole segment can see.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def sinusoid(distances_N: jax.Array, model_dim: int, clamp_length: int | None = None) -> jax.Array:
    """Encodings of distances in tokens or slots.

    Args:
      distances_N: any real dtype; halves are allowed.
      model_dim: D, even.
      clamp_length: distances above it share its encoding.

    Returns:
      N x D, float32: sines, then cosines. Float32 throughout, for half-precision positions collide from 257
      (bfloat16) or 2,049 (float16) on.
    """
    distances_N = distances_N.astype(jnp.float32)
    if clamp_length is not None:
        distances_N = jnp.minimum(distances_N, clamp_length)
    inverse_wavelength = 1.0 / (10_000.0 ** (jnp.arange(0, model_dim, 2, dtype=jnp.float32) / model_dim))
    angles = distances_N[:, None] * inverse_wavelength
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def descending_distances(num_keys: int) -> jax.Array:
    """N - 1, .., 0: the distances of a table's rows."""
    return jnp.arange(num_keys - 1, -1, -1)


def distance_scores(q_BxHxTxK: jax.Array, table_HxNxK: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Scores of each query with the encoding of its distance to each of N keys.

    Query i of a segment is at distance (N - T) + i - j from key j, T being the segment's length.

    Args:
      q_BxHxTxK: queries of a whole segment.
      table_HxNxK: projected encodings of the distances N - 1, .., 0.

    Returns:
      Those of the keys before the segment, B x H x T x N - T, and of its own, B x H x T x T, float32. Entries of keys
      after the query are arbitrary and must be masked.
    """
    # By heads first, as the product comes: nothing is transposed that is as large as the scores.
    scores_HxBxTxN = _products(q_BxHxTxK, table_HxNxK)
    H, B, T, N = scores_HxBxTxN.shape
    # Query i needs its row moved left by T - 1 - i. In rows that are one shorter, all do: a matter of addresses. The
    # last column is lost, which is the segment's.
    flat_HxBxL = scores_HxBxTxN.reshape(H, B, T * N)[..., T - 1 :]
    past_HxBxTxP = flat_HxBxL[..., : T * (N - 1)].reshape(H, B, T, N - 1)[..., : N - T]
    own_HxBxTxT = _relative_shift(scores_HxBxTxN[..., N - T :])
    return past_HxBxTxP.swapaxes(0, 1), own_HxBxTxT.swapaxes(0, 1)


def scores_at_place(scores_BxHxN: jax.Array, segment_length: int, place: jax.Array) -> jax.Array:
    """What `distance_scores` does for the one query at a place of the segment, given its scores with every row.

    Args:
      scores_BxHxN: with the encodings of the distances N - 1, .., 0.
      segment_length: T.
      place: int32 scalar, 0 to T - 1.

    Returns:
      B x H x N, a column for each key. Entries of keys after the query are zero and must be masked.
    """
    padded = jnp.pad(scores_BxHxN, ((0, 0), (0, 0), (0, segment_length - 1)))
    return jax.lax.dynamic_slice_in_dim(padded, segment_length - 1 - place, scores_BxHxN.shape[2], axis=2)


def products_of_one(q_BxHxK: jax.Array, table_HxNxK: jax.Array) -> jax.Array:
    """Of each row's one query with each row of its head's table, B x H x N, float32."""
    return jnp.einsum('bhk,hnk->bhn', q_BxHxK, table_HxNxK, preferred_element_type=jnp.float32)


def _products(q_BxHxTxK: jax.Array, table_HxNxK: jax.Array) -> jax.Array:
    """Of each query with each row of its head's table, H x B x T x N, float32."""
    return jax.lax.dot_general(q_BxHxTxK, table_HxNxK, (((3,), (2,)), ((1,), (0,))), preferred_element_type=jnp.float32)


def _relative_shift(scores_HxBxTxT: jax.Array) -> jax.Array:
    """Moves row i of the last two axes left by T - 1 - i, so that column n becomes key j = n - (T - 1 - i)."""
    H, B, T, _ = scores_HxBxTxT.shape
    padded = jnp.pad(scores_HxBxTxT, ((0, 0), (0, 0), (0, 0), (1, 0)))
    return padded.reshape(H, B, T + 1, T)[:, :, 1:].reshape(H, B, T, T)


def gathered_scores(
    q_BxHxTxK: jax.Array, table_HxRxK: jax.Array, half_steps_BxC: jax.Array, places_T: jax.Array
) -> jax.Array:
    """Scores of each query with slots whose distance differs by row, in half tokens.

    Args:
      q_BxHxTxK: queries.
      table_HxRxK: projected encodings of 0, 1/2, 1, .. tokens.
      half_steps_BxC: int32, each slot's doubled age at the segment's first token.
      places_T: each query's place in the segment, from 0.

    Returns:
      B x H x T x C, float32. A distance past the table's end takes its last row.
    """
    scores_BxHxTxR = _products(q_BxHxTxK, table_HxRxK).swapaxes(0, 1)
    rows_BxTxC = jnp.minimum(half_steps_BxC[:, None, :] + 2 * places_T[:, None], table_HxRxK.shape[1] - 1)
    return jnp.take_along_axis(scores_BxHxTxR, rows_BxTxC[:, None], axis=-1)
