"""Multi-head attention over memory and segment, by distance (Transformer-XL, section 3.3).

The score of query i and key j, over sqrt(K), is

  relative  (q_i + u) . k_j + (q_i + v) . W_R R_{i-j}, R being sinusoids: the paper's four terms
  shaw      q_i . k_j + q_i . a_{i-j}, a learned for each distance up to a largest (Shaw et al., arXiv 1803.02155)
  absolute  q_i . k_j; positions are then added to what enters the first layer

How the distance to a compressed slot is counted is the position scheme:

  slots     its distance in the concatenated keys;
  separate  slots counted from the segment as if nothing lay between, under a W_R and v of their own;
  time      the mean age of what it stands for, in tokens.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from memjax.nn import positions

ENCODINGS = ('relative', 'shaw', 'absolute')
SCHEMES = ('slots', 'separate', 'time')


@struct.dataclass
class PositionTables:
    """Encodings of distances (shaw: the distances), or what queries are multiplied with: `near` of the keys addressed
    by slot, `far` of the others; absolute: none."""

    near: jax.Array | None
    far: jax.Array | None


@struct.dataclass
class Biases:
    """u and v of the four-term score, H x K each; `far_v` is v of the compressed slots in scheme `separate`."""

    u: jax.Array
    v: jax.Array
    far_v: jax.Array | None


@struct.dataclass
class View:
    """What all layers' queries may see, and where they stand."""

    mask_BxTxN: jax.Array  # True: query may attend to key
    ages_at: jax.Array  # T places of the queries in the segment


@struct.dataclass
class PastSlots:
    """What a single query reads of memory."""

    keys_BxHxPxK: jax.Array  # oldest first, the compressed ones before the others
    values_BxHxPxK: jax.Array
    near: jax.Array | None  # H x N x K, see PositionTables
    far: jax.Array | None
    far_ages_BxC: jax.Array  # doubled, for scheme `time`


@struct.dataclass
class OneView:
    """What each row's single query may see, and where it stands: at the same place of its segment in all rows."""

    mask_BxN: jax.Array  # of memory's slots, then the segment's
    place: jax.Array  # int32 scalar


def position_tables(
    encoding: str, scheme: str, compressed_length: int, near_length: int, span: int, segment_length: int,
    model_dim: int, clamp_length: int | None,
) -> PositionTables:  # fmt: skip
    """The encodings that a segment needs.

    Args:
      encoding: of ENCODINGS.
      scheme: of SCHEMES; those but `slots` have relative encodings alone.
      compressed_length: compressed slots, over all levels.
      near_length: uncompressed memory slots.
      span: tokens that memory covers when full (scheme `time` needs encodings up to it).
      segment_length: T.
      model_dim: D.
      clamp_length: distances above it share an encoding.

    Returns:
      float32 tables, N x D each.
    """

    def descending(num_keys: int) -> jax.Array:
        return positions.sinusoid(positions.descending_distances(num_keys), model_dim, clamp_length)

    if encoding == 'absolute':
        return PositionTables(near=None, far=None)
    if encoding == 'shaw':
        distances_N = positions.descending_distances(compressed_length + near_length + segment_length)
        return PositionTables(near=distances_N, far=None)
    if scheme == 'slots' or not compressed_length:
        return PositionTables(near=descending(compressed_length + near_length + segment_length), far=None)
    near = descending(near_length + segment_length)
    if scheme == 'separate':
        return PositionTables(near=near, far=descending(compressed_length + segment_length))
    if scheme == 'time':
        half_steps = jnp.arange(2 * (span + segment_length))
        return PositionTables(near=near, far=positions.sinusoid(half_steps / 2, model_dim, clamp_length))
    raise ValueError(f'unknown position scheme {scheme!r}')


class RelativeAttention(nn.Module):
    """The attention of one layer.

    Attributes:
      num_heads: H.
      head_dim: K.
      scheme: of SCHEMES.
      has_far_table: whether there are keys that `far` addresses (and, if `separate`, parameters for them).
      attention_dropout_rate: on the attention probabilities.
      init_scale: standard deviation of the weights at the start.
      dtype: of the computation; scores and softmax are float32, parameters too.
      encoding: of ENCODINGS.
      largest_distance: shaw: distances above it share its encoding.
    """

    num_heads: int
    head_dim: int
    model_dim: int
    scheme: str
    has_far_table: bool
    attention_dropout_rate: float
    init_scale: float
    dtype: Any
    encoding: str = 'relative'
    largest_distance: int | None = None

    def setup(self):
        init = nn.initializers.normal(self.init_scale)
        shape = (self.model_dim, self.num_heads, self.head_dim)
        self.query_kernel = self.param('query', init, shape, jnp.float32)
        self.key_kernel = self.param('key', init, shape, jnp.float32)
        self.value_kernel = self.param('value', init, shape, jnp.float32)
        if self.encoding == 'relative':
            self.position_kernel = self.param('position', init, shape, jnp.float32)
        elif self.encoding == 'shaw':
            shape_RxHxK = (self.largest_distance + 1, self.num_heads, self.head_dim)
            self.distance_table = self.param('distance', init, shape_RxHxK, jnp.float32)
        if self.has_far_table and self.scheme == 'separate':
            self.far_position_kernel = self.param('far_position', init, shape, jnp.float32)
        self.output_kernel = self.param('output', init, (self.num_heads, self.head_dim, self.model_dim), jnp.float32)
        self.dropout = nn.Dropout(self.attention_dropout_rate)

    def project(self, states_BxNxD: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Keys and values of states, B x H x N x K each."""
        return self._by_head(states_BxNxD, self.key_kernel), self._by_head(states_BxNxD, self.value_kernel)

    def project_one(self, states_BxD: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The same of one state a row, B x H x K each."""
        return self._heads(states_BxD, self.key_kernel), self._heads(states_BxD, self.value_kernel)

    def project_positions(self, tables: PositionTables) -> PositionTables:
        """W_R R (shaw: a), H x N x K each, in the compute dtype."""
        if self.encoding == 'absolute':
            return tables
        if self.encoding == 'shaw':
            rows_NxHxK = self.distance_table[jnp.minimum(tables.near, self.largest_distance)]
            return PositionTables(near=rows_NxHxK.swapaxes(0, 1).astype(self.dtype), far=None)
        near = self._by_head(tables.near, self.position_kernel)
        return PositionTables(near=near, far=None if tables.far is None else self.project_far_positions(tables.far))

    def project_far_positions(self, far_NxD: jax.Array) -> jax.Array:
        """The same of the compressed slots' encodings alone."""
        return self._by_head(far_NxD, self.far_position_kernel if self.scheme == 'separate' else self.position_kernel)

    def __call__(
        self,
        x_BxTxD: jax.Array,
        past: Sequence[tuple[jax.Array, jax.Array]],
        own: tuple[jax.Array, jax.Array],
        projected: PositionTables,
        far_ages_BxC: jax.Array | None,
        biases: Biases | None,
        view: View,
        train: bool,
    ) -> tuple[jax.Array, jax.Array]:
        """Attends from a segment to memory and to itself, under one softmax.

        Args:
          x_BxTxD: the queries' states.
          past: keys and values of memory, B x H x P x K each, in one part or, oldest first, several; in schemes other
            than `slots` the compressed ones come first.
          own: keys and values of x, B x H x T x K each.
          projected: from `project_positions`.
          far_ages_BxC: doubled ages of the compressed slots, for scheme `time`.
          biases: u and v; None where the encoding has none.
          view: mask and places.
          train: whether dropout acts.

        Returns:
          The result, B x T x D, and the attention weights before dropout, B x H x T x N, float32.
        """
        q_BxHxTxK = self._by_head(x_BxTxD, self.query_kernel)
        q_content = q_BxHxTxK if biases is None else q_BxHxTxK + biases.u[:, None].astype(self.dtype)
        parts = (*past, own)
        lengths = [keys.shape[2] for keys, _ in past]
        # Memory's keys and the segment's are not laid side by side: that would be one more copy of the whole memory.
        scores = [
            jnp.einsum('bhtk,bhnk->bhtn', q_content, keys, preferred_element_type=jnp.float32) for keys, _ in parts
        ]
        if projected.near is not None:
            past_BxHxTxP, own_BxHxTxT = self._position_scores(q_BxHxTxK, projected, far_ages_BxC, biases, view)
            of_positions = [*_cut(past_BxHxTxP, lengths)[:-1], own_BxHxTxT]
            scores = [each + part for each, part in zip(scores, of_positions, strict=True)]
        powers, total_BxHxTx1 = self._powers(scores, _cut(view.mask_BxTxN[:, None], lengths))
        attended_BxHxTxK = sum(
            jnp.einsum(
                'bhtn,bhnk->bhtk',
                self.dropout(each.astype(self.dtype), deterministic=not train),
                values,
                preferred_element_type=jnp.float32,
            )
            for each, (_, values) in zip(powers, parts, strict=True)
        )
        attended_BxHxTxK = (attended_BxHxTxK / total_BxHxTx1).astype(self.dtype)
        y_BxTxD = jnp.einsum('bhtk,hkd->btd', attended_BxHxTxK, self.output_kernel.astype(self.dtype))
        return y_BxTxD, jnp.concatenate(powers, axis=-1) / total_BxHxTx1

    def attend_one(
        self,
        x_BxD: jax.Array,
        key_BxHxK: jax.Array,
        value_BxHxK: jax.Array,
        keys_BxHxTxK: jax.Array,
        values_BxHxTxK: jax.Array,
        past: PastSlots,
        biases: Biases | None,
        view: OneView,
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Attends from one token of each row; the same numbers as for a whole segment.

        Args:
          x_BxD: the queries' states.
          key_BxHxK: of the same tokens.
          value_BxHxK: the same.
          keys_BxHxTxK: of the segment's tokens before; what follows them is anything finite.
          values_BxHxTxK: the same.
          past: memory.
          biases: as for a segment.
          view: mask and place.

        Returns:
          The result, B x D, the attention weights of memory, B x H x P, float32, and the keys and values with the
          token's own.
        """
        q_BxHxK = self._heads(x_BxD, self.query_kernel)
        q_content = q_BxHxK if biases is None else q_BxHxK + biases.u.astype(self.dtype)
        memory_BxHxP = jnp.einsum('bhk,bhpk->bhp', q_content, past.keys_BxHxPxK, preferred_element_type=jnp.float32)
        own_BxHxT = jnp.einsum('bhk,bhtk->bht', q_content, keys_BxHxTxK, preferred_element_type=jnp.float32)
        itself_BxHx1 = jnp.einsum('bhk,bhk->bh', q_content, key_BxHxK, preferred_element_type=jnp.float32)[..., None]
        T, P = own_BxHxT.shape[2], memory_BxHxP.shape[2]
        is_itself_T = jnp.arange(T) == view.place
        scores_BxHxN = jnp.concatenate([memory_BxHxP, jnp.where(is_itself_T, itself_BxHx1, own_BxHxT)], axis=2)
        if past.near is not None:
            scores_BxHxN += self._position_scores_of_one(q_BxHxK, T, past, biases, view)
        scores_BxHxN = jnp.where(view.mask_BxN[:, None], scores_BxHxN * self.head_dim**-0.5, jnp.finfo(jnp.float32).min)
        weights_BxHxN = jax.nn.softmax(scores_BxHxN)
        from_memory, from_own = _cut(weights_BxHxN.astype(self.dtype), [P])
        of_itself_BxHx1 = jax.lax.dynamic_slice_in_dim(from_own, view.place, 1, axis=2)
        attended_BxHxK = jnp.einsum('bhp,bhpk->bhk', from_memory, past.values_BxHxPxK)
        attended_BxHxK += jnp.einsum('bht,bhtk->bhk', jnp.where(is_itself_T, 0, from_own), values_BxHxTxK)
        attended_BxHxK += of_itself_BxHx1 * value_BxHxK
        y_BxD = jnp.einsum('bhk,hkd->bd', attended_BxHxK, self.output_kernel.astype(self.dtype))

        def put(tokens_BxHxTxK: jax.Array, new_BxHxK: jax.Array) -> jax.Array:
            # Only to depend on what was attended to, so that the tokens are read before they are written in place:
            # without an order the compiler keeps copies of them.
            new_BxHxK = jnp.where(jnp.isnan(attended_BxHxK), attended_BxHxK, new_BxHxK)
            return jax.lax.dynamic_update_index_in_dim(tokens_BxHxTxK, new_BxHxK, view.place, axis=2)

        return y_BxD, weights_BxHxN[..., :P], put(keys_BxHxTxK, key_BxHxK), put(values_BxHxTxK, value_BxHxK)

    def frozen_content(self, x_BxTxD: jax.Array, states_BxNxD: jax.Array) -> jax.Array:
        """Content-only attention of x over states, without gradient to x or to this layer's projections.

        Compressive Transformer, Algorithm 2: attn(h, m) = softmax((h Q) (m K)^T) (m V). Gradients do reach `states`.

        Returns:
          B x T x H x K.
        """
        frozen = jax.lax.stop_gradient
        return jax.nn.dot_product_attention(
            self._heads(frozen(x_BxTxD), frozen(self.query_kernel)),
            self._heads(states_BxNxD, frozen(self.key_kernel)),
            self._heads(states_BxNxD, frozen(self.value_kernel)),
        )

    def _position_scores(self, q_BxHxTxK, projected, far_ages_BxC, biases, view) -> tuple[jax.Array, jax.Array]:
        """Of memory and of the segment itself."""
        q_position = q_BxHxTxK if biases is None else q_BxHxTxK + biases.v[:, None].astype(self.dtype)
        near_BxHxTxM, own_BxHxTxT = positions.distance_scores(q_position, projected.near)
        if projected.far is None:
            return near_BxHxTxM, own_BxHxTxT
        if self.scheme == 'time':
            far_BxHxTxC = positions.gathered_scores(q_position, projected.far, far_ages_BxC, view.ages_at)
        else:
            # The table spans the compressed slots and a segment right after them; only the slots' columns exist.
            q_far = q_BxHxTxK + biases.far_v[:, None].astype(self.dtype)
            far_BxHxTxC, _ = positions.distance_scores(q_far, projected.far)
        return jnp.concatenate([far_BxHxTxC, near_BxHxTxM], axis=-1), own_BxHxTxT

    def _position_scores_of_one(self, q_BxHxK, T, past, biases, view) -> jax.Array:
        q_position = q_BxHxK if biases is None else q_BxHxK + biases.v.astype(self.dtype)
        near_BxHxN = positions.products_of_one(q_position, past.near)
        near_BxHxN = positions.scores_at_place(near_BxHxN, T, view.place)
        if past.far is None:
            return near_BxHxN
        if self.scheme == 'time':
            far_BxHxR = positions.products_of_one(q_position, past.far)
            rows_BxC = jnp.minimum(past.far_ages_BxC + 2 * view.place, far_BxHxR.shape[2] - 1)
            far_BxHxC = jnp.take_along_axis(far_BxHxR, rows_BxC[:, None], axis=2)
        else:
            q_far = q_BxHxK + biases.far_v.astype(self.dtype)
            far_BxHxN = positions.products_of_one(q_far, past.far)
            far_BxHxC = positions.scores_at_place(far_BxHxN, T, view.place)[..., : past.far_ages_BxC.shape[1]]
        return jnp.concatenate([far_BxHxC, near_BxHxN], axis=2)

    def _powers(self, scores: Sequence[jax.Array], masks: Sequence[jax.Array]) -> tuple[list[jax.Array], jax.Array]:
        """The softmax over parts that are not laid side by side: its numerators, and what all are divided by."""
        scores = [
            jnp.where(mask, each * self.head_dim**-0.5, jnp.finfo(jnp.float32).min)
            for each, mask in zip(scores, masks, strict=True)
        ]
        maxima = [jnp.max(each, axis=-1, keepdims=True) for each in scores if each.shape[-1]]
        highest = jax.lax.stop_gradient(functools.reduce(jnp.maximum, maxima))
        powers = [jnp.exp(each - highest) for each in scores]
        return powers, sum(each.sum(axis=-1, keepdims=True) for each in powers)

    def _heads(self, x: jax.Array, kernel_DxHxK: jax.Array) -> jax.Array:
        return jnp.einsum('...d,dhk->...hk', x.astype(self.dtype), kernel_DxHxK.astype(self.dtype))

    def _by_head(self, x_xNxD: jax.Array, kernel_DxHxK: jax.Array) -> jax.Array:
        # In this order: with heads asked for first, the kernel would be transposed instead of the few states.
        return self._heads(x_xNxD, kernel_DxHxK).swapaxes(-3, -2)


def _cut(array: jax.Array, lengths: Sequence[int]) -> list[jax.Array]:
    """Memory's parts, of those lengths, and what is left: the segment's."""
    return jnp.split(array, list(itertools.accumulate(lengths)), axis=-1)
