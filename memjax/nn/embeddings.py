"""Token embeddings and the softmax over the vocabulary."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


class Embedding(nn.Module):
    """Rows of a table, multiplied by sqrt(D) as in Transformer-XL.

    Attributes:
      vocab_size: V.
      model_dim: D.
      dropout_rate: on the embeddings.
      init_scale: standard deviation of the table at the start.
      dtype: of the result; the table is float32.
    """

    vocab_size: int
    model_dim: int
    dropout_rate: float
    init_scale: float
    dtype: Any

    def setup(self):
        init = nn.initializers.normal(self.init_scale)
        self.table_VxD = self.param('table', init, (self.vocab_size, self.model_dim), jnp.float32)
        self.dropout = nn.Dropout(self.dropout_rate)

    def __call__(self, tokens_BxT: jax.Array, train: bool) -> jax.Array:
        """Returns B x T x D in the compute dtype."""
        x_BxTxD = jnp.take(self.table_VxD, tokens_BxT, axis=0) * self.model_dim**0.5
        return self.dropout(x_BxTxD.astype(self.dtype), deterministic=not train)

    def tied(self) -> jax.Array:
        """What a head tied to it uses: the table, V x D."""
        return self.table_VxD


class SoftmaxHead(nn.Module):
    """Log-likelihoods under a full softmax with an output bias.

    Attributes:
      vocab_size: V.
      tied: use the embedding's table as the output matrix, else one of its own.
      init_scale: standard deviation of an own matrix at the start.
      dtype: of the product; logits, log-likelihoods and the bias are float32.
    """

    vocab_size: int
    tied: bool
    init_scale: float
    dtype: Any

    @nn.compact
    def __call__(self, y_BxTxD: jax.Array, table_VxD: jax.Array) -> jax.Array:
        """Logits, B x T x V, float32."""
        if not self.tied:
            table_VxD = self.param('kernel', nn.initializers.normal(self.init_scale), table_VxD.shape, jnp.float32)
        bias_V = self.param('bias', nn.initializers.zeros, (self.vocab_size,), jnp.float32)
        logits_BxTxV = jnp.einsum(
            'btd,vd->btv', y_BxTxD.astype(self.dtype), table_VxD.astype(self.dtype), preferred_element_type=jnp.float32
        )
        return logits_BxTxV + bias_V

    def nll(self, y_BxTxD: jax.Array, targets_BxT: jax.Array, table_VxD: jax.Array) -> jax.Array:
        """Nats of each target, B x T, float32."""
        return negative_log_likelihood(self(y_BxTxD, table_VxD), targets_BxT)


def negative_log_likelihood(logits_BxTxV: jax.Array, targets_BxT: jax.Array) -> jax.Array:
    """Nats of each target, B x T, float32."""
    chosen_BxT = jnp.take_along_axis(logits_BxTxV, targets_BxT[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits_BxTxV, axis=-1) - chosen_BxT
