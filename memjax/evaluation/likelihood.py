"""How likely a model finds a text: every target scored exactly once, memory carried from segment to segment."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data.store import TokenSplit
from memjax.data.streams import EvaluationSegment, EvaluationStream, WindowStream
from memjax.models.contract import LanguageModel, Segment, joined, parted
from memjax.models.factory import build_model

# How many calls may be dispatched before the oldest one's losses are fetched.
_IN_FLIGHT = 1
# Segments that a call reads: a call gets and returns memory of the system, which for short segments takes as long as
# reading them.
SEGMENTS_A_CALL = 8


@dataclasses.dataclass(frozen=True)
class Score:
    """The likelihood of a split.

    Attributes:
      nll_nats: summed over the scored targets, in float64.
      targets: of the split.
      scored: of them; fewer only if `segments` were limited.
      warmup: tokens that a row reads unscored before a part that begins within a document.
      seconds: wall time, compilation included.
      per_token: float32 [targets], nats of each in the order of the text, NaN where unscored; None unless kept.
      is_likeliest: bool [targets], whether the target was the likeliest of all symbols; None unless kept.
    """

    nll_nats: float
    targets: int
    scored: int
    warmup: int
    seconds: float
    per_token: np.ndarray | None
    is_likeliest: np.ndarray | None = None

    @property
    def loss(self) -> float:
        """Nats a target."""
        return self.nll_nats / self.scored if self.scored else float('nan')


class Scorer:
    """Scores splits with the lengths that a config's `eval` section asks for.

    Compiled once for its shapes; use one for all evaluations of a training.
    """

    def __init__(self, config: config_dict.ConfigDict, mesh: jax.sharding.Mesh | None = None, likeliest: bool = False):
        """Builds the evaluation model.

        Args:
          config: a whole config.
          mesh: rows are split over it if they divide; None: the default device.
          likeliest: whether scores kept by token say if the target was the likeliest symbol.
        """
        self._likeliest = likeliest
        self._config = evaluation_config(config)
        self._model = build_model(self._config.model)
        self._batch_size = self._config.data.batch_size
        self._row_sharding, whole = _row_shardings(mesh, self._batch_size)

        def read(params: Any, segment: Segment, memory: Any):
            output, memory = self._model.apply({'params': params}, segment, memory, return_logits=likeliest)
            is_likeliest_BxT = None
            if likeliest:
                is_likeliest_BxT = output.logits_BxTxV.argmax(axis=-1) == segment.targets_BxT
            return (output.nll_BxT, is_likeliest_BxT), memory

        out = None if whole is None else ((whole, whole if likeliest else None), None)
        self._at_once = segments_at_once(self._model, self._config.data.segment_length)
        if self._config.eval.window_stride is not None:
            self._at_once = 1  # each window is a document: none would see another
        self._read = jit_together(read, self._at_once, out_shardings=out)
        # Made by a program, so that on a mesh of several processes each has its part.
        # Parameters do not change, so that memory is projected once.
        self._empty_memory = jax.jit(self._cached_memory, out_shardings=whole)
        self._apart = jax.jit(self._model.apart)

    @property
    def warmup(self) -> int:
        """Tokens of warm-up before rounding up to segments: `eval.warmup`, or what one layer's memory spans."""
        warmup = self._config.eval.warmup
        return self._model.core.span if warmup is None else warmup

    def score(
        self, params: Any, split: TokenSplit, max_segments: int | None = None, keep_tokens: bool = False
    ) -> Score:
        """Reads a split.

        Args:
          params: of the model; their shapes do not depend on the lengths.
          split: the text.
          max_segments: stop after so many segments of each row; None: the whole split.
          keep_tokens: whether to keep every target's loss.
        """
        began = time.monotonic()
        segment_length, stride = self._config.data.segment_length, self._config.eval.window_stride
        if stride is None:
            stream = EvaluationStream(split, self._batch_size, segment_length, self.warmup)
        else:
            stream = WindowStream(split, self._batch_size, segment_length, stride)
        per_token = np.full(split.num_targets, np.nan, np.float32) if keep_tokens else None
        is_likeliest = np.zeros(split.num_targets, bool) if keep_tokens and self._likeliest else None
        memory, params = self._empty_memory(params), self._apart(params)
        total, scored = 0.0, 0

        def fetch(segment: EvaluationSegment, results: tuple[jax.Array, jax.Array | None]) -> None:
            nonlocal total, scored
            is_scored = segment.weights_BxT > 0
            nll = np.asarray(results[0])[is_scored]
            total += float(nll.sum(dtype=np.float64))
            scored += nll.size
            if per_token is not None:
                per_token[segment.target_index_BxT[is_scored]] = nll
            if is_likeliest is not None:
                is_likeliest[segment.target_index_BxT[is_scored]] = np.asarray(results[1])[is_scored]

        segments = itertools.islice(stream, max_segments)
        for segment, results in read_together(self._read, params, memory, segments, self._put):
            fetch(segment, results)
        seconds = time.monotonic() - began
        return Score(total, split.num_targets, scored, stream.warmup, seconds, per_token, is_likeliest)

    def _cached_memory(self, params: Any) -> Any:
        memory = self._model.init_memory(self._batch_size)
        length = self._at_once * self._config.data.segment_length
        return self._model.apply({'params': params}, memory, length, method='cache')

    def _put(self, segment: EvaluationSegment) -> Segment:
        if self._row_sharding is None:
            return as_read(segment)
        arrays = vars(as_read(segment))
        # Every process holds all rows, and each device takes its own.
        return Segment(
            **{
                name: jax.make_array_from_callback(array.shape, self._row_sharding, array.__getitem__)
                for name, array in arrays.items()
            }
        )


def as_read(segment: EvaluationSegment) -> Segment:
    """What a model reads of a segment of evaluation."""
    arrays = segment._asdict()
    del arrays['target_index_BxT']
    return Segment(**arrays)


def read_all(
    read: Callable[[Any, Segment, Any], tuple[Any, Any]],
    params: Any,
    memory: Any,
    segments: Iterable[EvaluationSegment],
    put: Callable[[EvaluationSegment], Segment] = as_read,
) -> Iterator[tuple[EvaluationSegment, Any]]:
    """Reads segment after segment, a few ahead of the one whose results are yielded.

    Args:
      read: (params, segment, memory) -> results on the device, memory for the next segment.
      params: of the model.
      memory: for the first segment.
      segments: in the order of the text.
      put: makes what the model reads.

    Yields:
      Each segment with its results.
    """
    pending: list[tuple[EvaluationSegment, Any]] = []
    for segment in segments:
        results, memory = read(params, put(segment), memory)
        pending.append((segment, results))
        if len(pending) > _IN_FLIGHT:
            yield pending.pop(0)
    yield from pending


def segments_at_once(model: LanguageModel, segment_length: int) -> int:
    """How many of a call's segments are read as one: see `LanguageModel.segments_at_once`."""
    return min(model.segments_at_once(segment_length), SEGMENTS_A_CALL)


def jit_together(
    read: Callable[[Any, Segment, Any], tuple[Any, Any]], at_once: int = 1, **options: Any
) -> Callable[..., Any]:
    """Compiles what reads a segment for several in one call.

    Args:
      read: (params, segment, memory) -> results on the device, memory.
      at_once: how many segments it is given `joined` as one; its results are then B x T, or more, each.
      **options: of `jax.jit`.

    Returns:
      (params, segments, memory) -> results of each segment, memory.
    """

    def read_several(params: Any, segments: Segment, memory: Any) -> tuple[Any, Any]:
        def read_one(memory: Any, segment: Segment) -> tuple[Any, Any]:
            results, memory = read(params, segment, memory)
            return memory, results

        memory, results = jax.lax.scan(read_one, memory, joined(segments, at_once))
        return jax.tree.map(lambda result: parted(result, at_once), results), memory

    return jax.jit(read_several, donate_argnums=2, **options)


def read_together(
    read: Callable[..., Any],
    params: Any,
    memory: Any,
    segments: Iterable[EvaluationSegment],
    put: Callable[[EvaluationSegment], Segment] = as_read,
) -> Iterator[tuple[EvaluationSegment, Any]]:
    """As `read_all`, several segments a call; `read` is of `jit_together`, and the results are NumPy's."""
    for several, results in read_all(read, params, memory, _together(segments), put):
        results = jax.tree.map(np.asarray, results)
        for at in np.flatnonzero(several.lengths_B.any(axis=1)):
            yield jax.tree.map(lambda array, at=at: array[at], (several, results))


def _together(segments: Iterable[EvaluationSegment]) -> Iterator[EvaluationSegment]:
    """Segments in stacks of equal height, the last one filled up with segments without a token."""
    segments = iter(segments)
    while several := list(itertools.islice(segments, SEGMENTS_A_CALL)):
        nothing = jax.tree.map(np.zeros_like, several[0])
        several += [nothing] * (SEGMENTS_A_CALL - len(several))
        yield jax.tree.map(lambda *arrays: np.stack(arrays), *several)


def _row_shardings(
    mesh: jax.sharding.Mesh | None, batch_size: int
) -> tuple[NamedSharding | None, NamedSharding | None]:
    """Shardings of rows over all devices (or of copies where they do not divide), and of copies on all."""
    if mesh is None or mesh.size == 1:
        return None, None
    whole = NamedSharding(mesh, PartitionSpec())
    rows = NamedSharding(mesh, PartitionSpec(None, mesh.axis_names))  # of several segments
    return (rows if batch_size % mesh.size == 0 else whole), whole
