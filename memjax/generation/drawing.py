"""The distribution that tokens are drawn from, and the draws: a row's depend on the seed and on nothing but the row."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

# Up to this vocabulary every token is compared with every other, which is faster than sorting them.
_COMPARED = 512


@dataclasses.dataclass(frozen=True)
class Drawing:
    """How a token is drawn from logits.

    Attributes:
      temperature: what logits are divided by, above 0.
      top_k: keep the k likeliest; ties at the edge are all kept. 1 takes the likeliest token, whatever the seed.
      top_p: keep the fewest likeliest that together have at least this mass (nucleus sampling), after `top_k`.

    Raises:
      ValueError: one of them is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self):
        if not self.temperature > 0:
            raise ValueError(f'temperature={self.temperature} must be above 0')
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f'top_k={self.top_k} must be at least 1')
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f'top_p={self.top_p} must be above 0 and at most 1')

    def filter(self, logits_BxV: jax.Array) -> jax.Array:
        """Logits of the distribution to draw from, B x V, float32; what is left out is minus infinity."""
        logits_BxV = logits_BxV.astype(jnp.float32) / self.temperature
        if self.top_k is not None and self.top_k < logits_BxV.shape[-1]:
            least_Bx1 = jax.lax.top_k(logits_BxV, self.top_k)[0][:, -1:]
            logits_BxV = jnp.where(logits_BxV < least_Bx1, -jnp.inf, logits_BxV)
        if self.top_p is not None and self.top_p < 1:
            # A token stays if those likelier than it do not have the mass yet; the likeliest always does.
            logits_BxV = jnp.where(_mass_above(logits_BxV) < self.top_p, logits_BxV, -jnp.inf)
        return logits_BxV

    def draw(self, keys_B: jax.Array, counts_B: jax.Array, logits_BxV: jax.Array) -> jax.Array:
        """Draws a token for each row.

        Args:
          keys_B: of each row, see `row_keys`.
          counts_B: int32, tokens that the row has drawn before.
          logits_BxV: of the model.

        Returns:
          int32 B.
        """
        if self.top_k == 1:
            return jnp.argmax(logits_BxV, axis=-1).astype(jnp.int32)
        keys_B = jax.vmap(jax.random.fold_in)(keys_B, counts_B)
        return jax.vmap(jax.random.categorical)(keys_B, self.filter(logits_BxV)).astype(jnp.int32)


def row_keys(seed: int, rows: range) -> jax.Array:
    """A key for each row, of the seed and the row's number alone."""
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), jnp.asarray(rows))


def _mass_above(logits_BxV: jax.Array) -> jax.Array:
    """Of each token, the probability of all that are likelier."""
    if logits_BxV.shape[-1] <= _COMPARED:
        mass_BxV = jax.nn.softmax(logits_BxV)
        is_likelier_BxVxV = logits_BxV[:, None, :] > logits_BxV[:, :, None]
        return jnp.where(is_likelier_BxVxV, mass_BxV[:, None, :], 0.0).sum(axis=-1)
    descending_BxV = jnp.sort(logits_BxV, axis=-1, descending=True)
    mass_BxV = jax.nn.softmax(descending_BxV)
    # Equal tokens have the same ones above them: those before the first of them.
    first_BxV = jax.vmap(lambda row, of: jnp.searchsorted(-row, -of))(descending_BxV, logits_BxV)
    return jnp.take_along_axis(jnp.cumsum(mass_BxV, axis=-1) - mass_BxV, first_BxV, axis=-1)
