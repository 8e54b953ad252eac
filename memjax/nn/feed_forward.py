"""The position-wise feed-forward sublayer."""

from __future__ import annotations

from typing import Any

import jax
from flax import linen as nn

ACTIVATIONS = {'relu': jax.nn.relu, 'gelu': jax.nn.gelu}


class FeedForward(nn.Module):
    """D -> F -> D with biases, and dropout after each product.

    Attributes:
      model_dim: D.
      mlp_dim: F.
      activation: of ACTIVATIONS.
      dropout_rate: of both dropouts.
      init_scale: standard deviation of the weights at the start.
      dtype: of the computation; parameters are float32.
    """

    model_dim: int
    mlp_dim: int
    activation: str
    dropout_rate: float
    init_scale: float
    dtype: Any

    @nn.compact
    def __call__(self, x_BxTxD: jax.Array, train: bool) -> jax.Array:
        """Returns B x T x D."""
        init = nn.initializers.normal(self.init_scale)
        hidden_BxTxF = nn.Dense(self.mlp_dim, kernel_init=init, dtype=self.dtype, name='up')(x_BxTxD)
        hidden_BxTxF = ACTIVATIONS[self.activation](hidden_BxTxF)
        hidden_BxTxF = nn.Dropout(self.dropout_rate)(hidden_BxTxF, deterministic=not train)
        y_BxTxD = nn.Dense(self.model_dim, kernel_init=init, dtype=self.dtype, name='down')(hidden_BxTxF)
        return nn.Dropout(self.dropout_rate)(y_BxTxD, deterministic=not train)
