"""The contract: a core moves states and memory, a model puts an embedding and a head around it.

    core.init_memory(batch_size) -> Memory
    core(x_BxTxD, start_B, memory, lengths_B, train) -> y_BxTxD, Memory, aux, stats
    core.cache(memory, segment_length) -> Memory, projected for fixed parameters
    core.apart(params) -> params, cut into layers, for what has a cached memory
    core.open(memory, segment_length) -> OpenSegment(past, tail)
    core.extend(x_BxD, past, tail) -> y_BxD, tail
    core.close(OpenSegment) -> OpenSegment, once tail.is_full: memory has moved
    core.map_rows(function(axis, *arrays), *memories) -> Memory
    core.reads_several: whether segments can be `joined`; then
    core.segments_at_once(segment_length) -> how many, with a cached memory, are best
    LanguageModel(embed, core, head)(segment, memory, train) -> Output, Memory

Memory is explicit: what comes out of one segment goes into the next, in training, evaluation, sampling and checkpoints
alike. Shapes: B rows, T segment, D model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from flax import linen as nn
from flax import struct

from memjax.models.open_segment import OpenSegment
from memjax.nn.embeddings import negative_log_likelihood

# Tokens that a row of evaluation reads before its part where memory has no length, unless `eval.warmup` says otherwise.
RECURRENT_WARMUP = 1024


@struct.dataclass
class Segment:
    """What a model reads at once."""

    inputs_BxT: jax.Array  # int32
    targets_BxT: jax.Array  # int32
    weights_BxT: jax.Array  # float32, 0 = not scored
    start_B: jax.Array  # bool, this row begins a new document; B x G where G segments are read at once
    lengths_B: jax.Array  # int32, real tokens; padding occurs only after a document's last token; or B x G


@struct.dataclass
class Output:
    """What a model says of a segment."""

    nll_BxT: jax.Array  # float32, nats of each target
    logits_BxTxV: jax.Array | None  # float32, only when asked for
    aux: dict[str, jax.Array]  # scalars that training adds to the loss
    stats: dict[str, jax.Array]  # what an analysis may want, such as a loss by layer


def joined(segments_S: Segment, count: int) -> Segment:
    """Every `count` neighbours of S segments as one, for a model to read at once.

    The results are those of one segment after the other. The model's core must be one that `reads_several`, and its
    memory cached for segments of `count` T tokens.

    Args:
      segments_S: S x B each, or S x B x T.
      count: G, must divide S; 1: nothing is changed.

    Returns:
      S / G of them: tokens B x G T, starts and lengths B x G.
    """
    if count == 1:
        return segments_S

    def by_row(array_SxB: jax.Array) -> jax.Array:
        return array_SxB.reshape(-1, count, *array_SxB.shape[1:]).swapaxes(1, 2)

    rows = jax.tree.map(by_row, segments_S)
    tokens = {name: getattr(rows, name) for name in ('inputs_BxT', 'targets_BxT', 'weights_BxT')}
    return rows.replace(**{name: array.reshape(*array.shape[:2], -1) for name, array in tokens.items()})


def parted(result: jax.Array, count: int) -> jax.Array:
    """Results by token of `joined` segments, S / G x B x G T or more, for each segment: S x B x T or more."""
    if count == 1:
        return result
    S, B, T = result.shape[0] * count, result.shape[1], result.shape[2] // count
    return result.reshape(-1, B, count, T, *result.shape[3:]).swapaxes(1, 2).reshape(S, B, T, *result.shape[3:])


class LanguageModel(nn.Module):
    """Tokens in, log-likelihoods out.

    Attributes:
      embed: tokens to states, and what a tied head uses of it.
      core: the memory model.
      head: states to logits, or to targets' likelihoods (`nll`).
    """

    embed: nn.Module
    core: nn.Module
    head: nn.Module

    def init_memory(self, batch_size: int) -> Any:
        """An empty memory for `batch_size` rows; needs no parameters."""
        return self.core.init_memory(batch_size)

    def __call__(
        self, segment: Segment, memory: Any, train: bool = False, return_logits: bool = False
    ) -> tuple[Output, Any]:
        """Reads one segment, or several that are `joined`.

        Args:
          segment: inputs and targets.
          memory: what the segments before left.
          train: whether dropout acts (needs the `dropout` key) and auxiliary losses are computed.
          return_logits: whether `Output` holds full logits.

        Returns:
          The output and the memory for the next segment.

        Raises:
          ValueError: the core reads no joined segments, or the memory is not for such a segment, or not for training.
        """
        if segment.start_B.ndim > 1 and not self.core.reads_several:
            raise ValueError(f'{type(self.core).__name__} reads one segment after the other, not several at once')
        x_BxTxD = self.embed(segment.inputs_BxT, train)
        y_BxTxD, memory, aux, stats = self.core(x_BxTxD, segment.start_B, memory, segment.lengths_B, train)
        if return_logits:
            logits_BxTxV = self.head(y_BxTxD, self.embed.tied())
            nll_BxT = negative_log_likelihood(logits_BxTxV, segment.targets_BxT)
            return Output(nll_BxT, logits_BxTxV, aux, stats), memory
        # A head may know the targets' likelihoods without those of a whole vocabulary.
        nll_BxT = self.head.nll(y_BxTxD, segment.targets_BxT, self.embed.tied())
        return Output(nll_BxT, None, aux, stats), memory

    def cache(self, memory: Any, segment_length: int) -> Any:
        """The memory with everything that depends on it and the parameters alone, for segments of that length.

        While parameters do not change, what reads it gives the same results as the memory itself and does less. It is
        for no other segment length, and not for training. For segments that are `joined`, the length is that of all
        that are read as one.
        """
        return self.core.cache(memory, segment_length)

    def segments_at_once(self, segment_length: int) -> int:
        """How many segments of that length, a power of two, are best read as one with a cached memory: see `joined`."""
        return self.core.segments_at_once(segment_length) if self.core.reads_several else 1

    def apart(self, params: Any) -> Any:
        """Parameters with each layer's by themselves, for whoever reads many segments or tokens with a cached memory.

        The results are the same; but from a stack the layers are cut out, and laid out anew, for every segment and
        every token. What this returns is a copy. Once there is a cached memory (`cache` wants the parameters uncut), it
        serves to read segments, and for `open`, `step`, `extend` and `close`.

        Args:
          params: as `init` made them.
        """
        return {**params, 'core': self.core.apart(params['core'])}

    def open(self, memory: Any, segment_length: int) -> OpenSegment:
        """Begins a segment of `segment_length` tokens in every row, to be read token by token.

        Parameters must not change until the text is read: what comes of them is kept in `past`.
        """
        return self.core.open(memory, segment_length)

    def step(self, tokens_B: jax.Array, state: OpenSegment) -> tuple[jax.Array, OpenSegment]:
        """Reads one token of each row; one that fills the segment moves the memory and begins the next segment.

        Args:
          tokens_B: int32.
          state: from `open` or the step before.

        Returns:
          Logits of the token after, B x V, float32, and the next state. They equal the segmentwise forward's.
        """
        logits_BxV, tail = self.extend(tokens_B, state.past, state.tail)
        state = state.replace(tail=tail)
        close, keep = (lambda model, state: model.close(state)), (lambda model, state: state)
        return logits_BxV, nn.cond(tail.is_full, close, keep, self, state)

    def extend(self, tokens_B: jax.Array, past: Any, tail: Any) -> tuple[jax.Array, Any]:
        """As `step` within a segment: for loops over tokens, which carry the tail and leave the past as it is.

        Args:
          tokens_B: int32.
          past: of the `OpenSegment`.
          tail: of the `OpenSegment` or the call before; once `tail.is_full`, `close` comes first.

        Returns:
          Logits of the token after, B x V, float32, and the tail with these tokens.
        """
        y_BxD, tail = self.core.extend(self.embed(tokens_B[:, None], False)[:, 0], past, tail)
        return self.head(y_BxD[:, None], self.embed.tied())[:, 0], tail

    def close(self, state: OpenSegment) -> OpenSegment:
        """Moves the memory at the end of a segment, and begins the next one."""
        return self.core.close(state)

    def map_rows(self, function: Callable[..., jax.Array], *memories: Any) -> Any:
        """Applies `function(axis, *arrays)` to the arrays of memories, `axis` being that of the rows; no parameters."""
        return self.core.map_rows(function, *memories)
