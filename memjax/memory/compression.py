"""Compression functions f_c: T old states become T / c slots (Compressive Transformer, section 3.2)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn


class Compression(nn.Module):
    """f_c of one layer: `mean` or `max` pooling, or a 1-D convolution, of kernel and stride c.

    Attributes:
      kind: mean | max | conv.
      rate: c.
      dtype: of the computation; parameters are float32.
    """

    kind: str
    rate: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, block_BxTxD: jax.Array) -> jax.Array:
        """Compresses a block.

        Args:
          block_BxTxD: old states in order of time; T must be a multiple of the rate.

        Returns:
          Slots in order of time, B x T / c x D.
        """
        B, T, D = block_BxTxD.shape
        if T % self.rate:
            raise ValueError(f'a block of {T} states does not divide by compression rate {self.rate}')
        windows_BxCxWxD = block_BxTxD.astype(self.dtype).reshape(B, T // self.rate, self.rate, D)
        if self.kind == 'mean':
            return windows_BxCxWxD.astype(jnp.float32).mean(axis=2).astype(self.dtype)
        if self.kind == 'max':
            return windows_BxCxWxD.max(axis=2)
        if self.kind == 'conv':
            # Kernel equal to stride, so that the convolution is one product over flattened windows.
            fan_in_init = nn.initializers.variance_scaling(1.0, 'fan_in', 'normal', in_axis=(0, 1), out_axis=2)
            kernel_WxDxE = self.param('kernel', fan_in_init, (self.rate, D, D), jnp.float32)
            bias_E = self.param('bias', nn.initializers.zeros, (D,), jnp.float32)
            slots_BxCxE = jnp.einsum('bcwd,wde->bce', windows_BxCxWxD, kernel_WxDxE.astype(self.dtype))
            return slots_BxCxE + bias_E.astype(self.dtype)
        raise ValueError(f'unknown compression {self.kind!r}')
