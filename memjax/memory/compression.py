"""Compression functions f_c: T old states become T / c slots (Compressive Transformer, section 3.2)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn

from memjax.memory import fifo

# Functions that keep some of the states as they are, those with the highest scores.
SELECTIONS = ('most_used', 'random')


class Compression(nn.Module):
    """f_c of one layer and level.

      mean, max     pooling, kernel and stride c
      conv          a 1-D convolution, kernel and stride c
      dilated_conv  a convolution of two taps c apart (the one before the block sees zeros) and ReLU, then as conv
      most_used     the states that the segment attends to most, over heads and queries
      random        as many states drawn at random: the control for most_used

    Attributes:
      kind: of those.
      rate: c.
      dtype: of the computation; parameters are float32.
    """

    kind: str
    rate: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, block_BxTxD: jax.Array, scores_BxT: jax.Array | None = None) -> jax.Array:
        """Compresses a block.

        Args:
          block_BxTxD: old states in order of time; T must be a multiple of the rate.
          scores_BxT: what a selection goes by; the others do not read it.

        Returns:
          Slots in order of time, B x T / c x D.
        """
        B, T, D = block_BxTxD.shape
        if T % self.rate:
            raise ValueError(f'a block of {T} states does not divide by compression rate {self.rate}')
        block_BxTxD = block_BxTxD.astype(self.dtype)
        if self.kind in SELECTIONS:
            places_BxC = _chosen(scores_BxT, T // self.rate)
            return jnp.take_along_axis(block_BxTxD, places_BxC[..., None], axis=1)
        if self.kind == 'dilated_conv':
            earlier_BxTxD = jnp.pad(block_BxTxD, ((0, 0), (self.rate, 0), (0, 0)))[:, :T]
            taps_BxTx2xD = jnp.stack([earlier_BxTxD, block_BxTxD], axis=2)
            block_BxTxD = nn.relu(self._convolution('dilated', taps_BxTx2xD))
        windows_BxCxWxD = block_BxTxD.reshape(B, T // self.rate, self.rate, D)
        if self.kind == 'mean':
            return windows_BxCxWxD.astype(jnp.float32).mean(axis=2).astype(self.dtype)
        if self.kind == 'max':
            return windows_BxCxWxD.max(axis=2)
        if self.kind in ('conv', 'dilated_conv'):
            return self._convolution('', windows_BxCxWxD)
        raise ValueError(f'unknown compression {self.kind!r}')

    def _convolution(self, prefix: str, windows_BxCxWxD: jax.Array) -> jax.Array:
        """A convolution as one product over its windows."""
        W, D = windows_BxCxWxD.shape[2:]
        fan_in_init = nn.initializers.variance_scaling(1.0, 'fan_in', 'normal', in_axis=(0, 1), out_axis=2)
        name = f'{prefix}_' if prefix else ''
        kernel_WxDxE = self.param(f'{name}kernel', fan_in_init, (W, D, D), jnp.float32)
        bias_E = self.param(f'{name}bias', nn.initializers.zeros, (D,), jnp.float32)
        # The axes in this order: in the other, which einsum takes, the kernel would be laid out anew each time.
        slots_BxCxE = jnp.tensordot(windows_BxCxWxD, kernel_WxDxE.astype(self.dtype), axes=((2, 3), (0, 1)))
        return slots_BxCxE + bias_E.astype(self.dtype)


class Decompression(nn.Module):
    """g of the auto-encoding loss: each slot becomes c states, a transposed convolution of kernel and stride c.

    Attributes:
      rate: c.
      dtype: of the computation; parameters are float32.
    """

    rate: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, slots_BxCxD: jax.Array) -> jax.Array:
        """Returns B x C c x D."""
        B, C, D = slots_BxCxD.shape
        fan_in_init = nn.initializers.variance_scaling(1.0, 'fan_in', 'normal', in_axis=1, out_axis=2, batch_axis=0)
        kernel_WxDxE = self.param('kernel', fan_in_init, (self.rate, D, D), jnp.float32)
        bias_E = self.param('bias', nn.initializers.zeros, (D,), jnp.float32)
        states_BxCxWxE = jnp.einsum('bcd,wde->bcwe', slots_BxCxD, kernel_WxDxE.astype(self.dtype))
        return (states_BxCxWxE + bias_E.astype(self.dtype)).reshape(B, C * self.rate, D)


def slot_ages(kind: str, rate: int, ages_BxT: jax.Array, scores_BxT: jax.Array | None) -> jax.Array:
    """Doubled ages of the slots that `Compression` makes of a block, B x T / c, int32.

    Args:
      kind: of the compression.
      rate: c.
      ages_BxT: doubled ages of the block's states, int32; evenly spaced, unless the kind is a selection.
      scores_BxT: as for `Compression`.

    Returns:
      The ages of the states that are kept, or the mean of those that become one slot.
    """
    if kind in SELECTIONS:
        return jnp.take_along_axis(ages_BxT, _chosen(scores_BxT, ages_BxT.shape[1] // rate), axis=1)
    return fifo.pooled_ages(ages_BxT, rate)


def _chosen(scores_BxT: jax.Array, count: int) -> jax.Array:
    """Places of the highest scores, B x count, in order of time."""
    return jnp.sort(jax.lax.top_k(scores_BxT, count)[1], axis=1)


def random_scores(key: jax.Array, segments_B: jax.Array, layer: jax.Array, length: int) -> jax.Array:
    """Scores that select at random: the same for the same key, layer and place of the segment in its document.

    Args:
      key: of the model.
      segments_B: int32, segments since each row's document began, or since it began to read within one.
      layer: int32 scalar.
      length: T, scores a row.

    Returns:
      B x T, uniform in [0, 1), the same in rows that have read as much: no row depends on which batch it is in.
    """

    def row(segments: jax.Array) -> jax.Array:
        return jax.random.uniform(jax.random.fold_in(jax.random.fold_in(key, segments), layer), (length,))

    return jax.vmap(row)(segments_B)
