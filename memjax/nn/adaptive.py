"""Adaptive input embeddings and adaptive softmax (Baevski & Auli, arXiv 1809.10853; Grave et al., arXiv 1609.04309).

Token ids are in order of falling frequency. Cutoffs c_1 < c_2 < .. cut them into bands: [0, c_1) is the head, each
further band a tail. Band i has embeddings of width d / div^i, projected to the model's width; the softmax over the head
has one more output for each tail, whose probability the tail's own softmax divides. The form is that of the
Transformer-XL code.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

_PROJECTION_SCALE = 0.01  # Transformer-XL's code, whatever the other weights begin with
# Tokens whose log-likelihoods are computed at once: a tail may have 160,000 outputs for each.
_CHUNK = 1024


class Band(NamedTuple):
    """What a tied head may use of one band: its table, V_i x D_i, and its projection, D_i x D, if there is one."""

    table: jax.Array
    projection: jax.Array | None


def bands(vocab_size: int, cutoffs: tuple[int, ...]) -> list[tuple[int, int]]:
    """First id and the one after the last, of each band."""
    return list(itertools.pairwise((0, *cutoffs, vocab_size)))


def has_projections(embedding_dim: int, div: int, model_dim: int) -> bool:
    """Whether the bands' embeddings are projected to the model's width."""
    return div > 1 or embedding_dim != model_dim


def band_width(embedding_dim: int, div: int, band: int) -> int:
    """D_i."""
    return embedding_dim // div**band


class AdaptiveEmbedding(nn.Module):
    """Embeddings by band, multiplied by sqrt(D).

    Attributes:
      vocab_size: V.
      cutoffs: of the bands.
      embedding_dim: width of the head's embeddings.
      div: by how much a band's are narrower than those of the band before.
      model_dim: D.
      dropout_rate: on the embeddings.
      init_scale: standard deviation of the tables at the start.
      dtype: of the result; parameters are float32.
    """

    vocab_size: int
    cutoffs: tuple[int, ...]
    embedding_dim: int
    div: int
    model_dim: int
    dropout_rate: float
    init_scale: float
    dtype: Any

    def setup(self):
        made = []
        for index, (begin, end) in enumerate(bands(self.vocab_size, self.cutoffs)):
            width = band_width(self.embedding_dim, self.div, index)
            table = self.param(
                f'table_{index}', nn.initializers.normal(self.init_scale), (end - begin, width), jnp.float32
            )
            projection = None
            if has_projections(self.embedding_dim, self.div, self.model_dim):
                # With one width for all bands they share one projection.
                projection = made[0].projection if self.div == 1 and made else self._projection(index, width)
            made.append(Band(table, projection))
        self.bands = tuple(made)
        self.dropout = nn.Dropout(self.dropout_rate)

    def __call__(self, tokens_BxT: jax.Array, train: bool) -> jax.Array:
        """Returns B x T x D in the compute dtype."""
        x_BxTxD = jnp.zeros((*tokens_BxT.shape, self.model_dim), self.dtype)
        for (begin, end), band in zip(bands(self.vocab_size, self.cutoffs), self.bands, strict=True):
            inside_BxT = (tokens_BxT >= begin) & (tokens_BxT < end)
            rows_BxTxE = jnp.take(band.table, jnp.clip(tokens_BxT - begin, 0, end - begin - 1), axis=0)
            rows_BxTxE = rows_BxTxE.astype(self.dtype)
            if band.projection is not None:
                rows_BxTxE = rows_BxTxE @ band.projection.astype(self.dtype)
            x_BxTxD = jnp.where(inside_BxT[..., None], rows_BxTxE, x_BxTxD)
        return self.dropout(x_BxTxD * jnp.asarray(self.model_dim**0.5, self.dtype), deterministic=not train)

    def tied(self) -> tuple[Band, ...]:
        """What a head tied to it uses."""
        return self.bands

    def _projection(self, index: int, width: int) -> jax.Array:
        init = nn.initializers.normal(_PROJECTION_SCALE)
        return self.param(f'projection_{index}', init, (width, self.model_dim), jnp.float32)


class AdaptiveSoftmax(nn.Module):
    """Log-likelihoods by band.

    Attributes:
      vocab_size: V.
      cutoffs: of the bands.
      embedding_dim: width of the head's output embeddings.
      div: as for the embeddings.
      model_dim: D.
      tied: use the embedding's tables as the output matrices, else ones of its own.
      tied_projections: of each band, whether it uses the embedding's projection, where there is one.
      init_scale: standard deviation of own matrices and of the tails' rows in the head at the start.
      dtype: of the products; log-likelihoods and biases are float32.
    """

    vocab_size: int
    cutoffs: tuple[int, ...]
    embedding_dim: int
    div: int
    model_dim: int
    tied: bool
    tied_projections: tuple[bool, ...]
    init_scale: float
    dtype: Any

    def setup(self):
        init = nn.initializers.normal(self.init_scale)
        cut = bands(self.vocab_size, self.cutoffs)
        widths = [band_width(self.embedding_dim, self.div, index) for index in range(len(cut))]
        self.biases = [
            self.param(f'bias_{index}', nn.initializers.zeros, (end - begin,), jnp.float32)
            for index, (begin, end) in enumerate(cut)
        ]
        if not self.tied:
            self.kernels = [
                self.param(f'kernel_{index}', init, (end - begin, width), jnp.float32)
                for index, ((begin, end), width) in enumerate(zip(cut, widths, strict=True))
            ]
        projected = has_projections(self.embedding_dim, self.div, self.model_dim)
        own = [projected and not tied for tied in self.tied_projections]
        # One projection if all bands have one width: the first band's.
        own = own[:1] + [False] * (len(own) - 1) if self.div == 1 else own
        scale = nn.initializers.normal(_PROJECTION_SCALE)
        self.projections = [
            self.param(f'projection_{index}', scale, (width, self.model_dim), jnp.float32) if needed else None
            for index, (width, needed) in enumerate(zip(widths, own, strict=True))
        ]
        if self.cutoffs:
            self.tail_kernel = self.param('tail_kernel', init, (len(self.cutoffs), widths[0]), jnp.float32)
            self.tail_bias = self.param('tail_bias', nn.initializers.zeros, (len(self.cutoffs),), jnp.float32)

    def __call__(self, y_BxTxD: jax.Array, tied: tuple[Band, ...]) -> jax.Array:
        """Log-probabilities of all tokens, B x T x V, float32, in the order of their ids."""
        head_BxTxN = jax.nn.log_softmax(self._logits(y_BxTxD, 0, tied))
        size = self.cutoffs[0] if self.cutoffs else self.vocab_size
        parts = [head_BxTxN[..., :size]]
        for index in range(1, len(self.cutoffs) + 1):
            tail_BxTxN = jax.nn.log_softmax(self._logits(y_BxTxD, index, tied))
            parts.append(head_BxTxN[..., size + index - 1, None] + tail_BxTxN)
        return jnp.concatenate(parts, axis=-1)

    def nll(self, y_BxTxD: jax.Array, targets_BxT: jax.Array, tied: tuple[Band, ...]) -> jax.Array:
        """Nats of each target, B x T, float32, in the order of the text; some places of all rows at a time."""
        B, T, D = y_BxTxD.shape
        # Cut along T: rows may be split over devices.
        places = max(1, min(_CHUNK // B, T))
        padding = -T % places
        y_CxBxPxD = jnp.pad(y_BxTxD, ((0, 0), (0, padding), (0, 0))).reshape(B, -1, places, D).swapaxes(0, 1)
        targets_CxBxP = jnp.pad(targets_BxT, ((0, 0), (0, padding))).reshape(B, -1, places).swapaxes(0, 1)
        body = jax.checkpoint(lambda args: self._nll_of_chunk(*args, tied))
        nll_CxBxP = jax.lax.map(body, (y_CxBxPxD, targets_CxBxP))
        return nll_CxBxP.swapaxes(0, 1).reshape(B, -1)[:, :T]

    def _nll_of_chunk(self, y_BxPxD: jax.Array, targets_BxP: jax.Array, tied: tuple[Band, ...]) -> jax.Array:
        head_BxPxV = jax.nn.log_softmax(self._logits(y_BxPxD, 0, tied))
        size = self.cutoffs[0] if self.cutoffs else self.vocab_size
        nll_BxP = -_pick(head_BxPxV, jnp.clip(targets_BxP, 0, size - 1))
        for index, (begin, end) in enumerate(bands(self.vocab_size, self.cutoffs)):
            if index:
                logits_BxPxV = self._logits(y_BxPxD, index, tied)
                chosen_BxP = _pick(logits_BxPxV, jnp.clip(targets_BxP - begin, 0, end - begin - 1))
                tail_BxP = jax.nn.logsumexp(logits_BxPxV, axis=-1) - chosen_BxP - head_BxPxV[..., size + index - 1]
                nll_BxP = jnp.where((targets_BxP >= begin) & (targets_BxP < end), tail_BxP, nll_BxP)
        return nll_BxP

    def _logits(self, y_xD: jax.Array, index: int, tied: tuple[Band, ...]) -> jax.Array:
        """Of one band; the head's are followed by one for each tail."""
        kernel_VxE = tied[index].table if self.tied else self.kernels[index]
        bias_V = self.biases[index]
        if index == 0 and self.cutoffs:
            kernel_VxE = jnp.concatenate([kernel_VxE, self.tail_kernel])
            bias_V = jnp.concatenate([bias_V, self.tail_bias])
        own = self.projections[0 if self.div == 1 else index]
        projection = own if own is not None else tied[index].projection
        y_xD = y_xD.astype(self.dtype)
        if projection is not None:
            y_xD = y_xD @ projection.astype(self.dtype).T
        return jnp.matmul(y_xD, kernel_VxE.astype(self.dtype).T, preferred_element_type=jnp.float32) + bias_V


def _pick(values_xV: jax.Array, index_x: jax.Array) -> jax.Array:
    return jnp.take_along_axis(values_xV, index_x[..., None], axis=-1)[..., 0]
