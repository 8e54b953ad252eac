"""What layers show of themselves on real text while their memory is full: attention by key, and compression losses."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data.store import TokenSplit
from memjax.data.streams import EvaluationStream
from memjax.errors import ConfigError, DataError
from memjax.evaluation.likelihood import jit_together, read_together
from memjax.memory import fifo
from memjax.models.contract import Segment
from memjax.models.factory import build_model


@dataclasses.dataclass(frozen=True)
class Shown:
    """Means over the sequences of a text that were read with a full memory, by layer.

    Attributes:
      sequences: how many, segments of one row each.
      attention_LxN: share of a query's attention that each key got, a mean over heads and queries too; keys are the
        compressed levels, the highest first, then memory, then the segment; None unless asked for.
      losses: name -> L, each compression loss; empty if attention was asked for.
      seconds: wall time, compilation included.
    """

    sequences: int
    attention_LxN: np.ndarray | None
    losses: dict[str, np.ndarray]
    seconds: float


def read_with_full_memory(
    config: config_dict.ConfigDict, params: Any, split: TokenSplit, sequences: int, attention: bool
) -> Shown:
    """Reads a text until so many sequences had a full memory, or to its end.

    Rows begin with an empty memory wherever they begin, and what they read until it is full is not counted. For
    attention all levels must be full, and the segment whole. Losses are those that training computes, without dropout:
    level 0 must be full, so that a block leaves it, and a segment's mean over its rows counts by the tokens that these
    rows read. With one compressed level and a mean of squares, this is the mean over all tokens.

    Args:
      config: a whole config; lengths as `eval` asks for.
      params: of the model.
      split: the text.
      sequences: at least so many, if the text has them; the rows of a segment are counted together.
      attention: whether to measure attention; else losses.

    Raises:
      ConfigError: windows are asked for, which leave no memory.
      DataError: there is no such sequence.
    """
    if config.eval.window_stride is not None:
        raise ConfigError(f'eval.window_stride={config.eval.window_stride}: windows leave no memory to look at')
    began = time.monotonic()
    used = evaluation_config(config)
    model, rows, segment_length = build_model(used.model), used.data.batch_size, used.data.segment_length

    def empty_memory(params: Any) -> Any:
        memory = model.init_memory(rows)
        # A loss compares states; for attention their projections will do.
        return model.apply({'params': params}, memory, segment_length, method='cache') if attention else memory

    def read(params: Any, segment: Segment, memory: Any):
        whole_B, evicts_B = _full_rows(memory, segment)
        (output, memory), sown = model.apply({'params': params}, segment, memory, mutable=['intermediates'])
        if not attention:
            return (output.stats, evicts_B.sum(), jnp.where(evicts_B, segment.lengths_B, 0).sum()), memory
        sums_LxBxN = jnp.concatenate(sown['intermediates']['core']['attention_sum'])  # by layer
        counted_LxN = jnp.where(whole_B[:, None], sums_LxBxN / segment_length, 0.0).sum(axis=1)
        return (counted_LxN, whole_B.sum(), whole_B.sum()), memory

    total, weight, counted = None, 0, 0
    stream = EvaluationStream(split, rows, segment_length, 0)
    memory = jax.jit(empty_memory)(params)
    params = jax.jit(model.apart)(params) if attention else params
    for _, (values, found, weighed) in read_together(jit_together(read), params, memory, stream):
        if not int(found):
            continue
        factor = 1 if attention else int(weighed)
        values = jax.tree.map(lambda array, factor=factor: np.asarray(array, np.float64) * factor, values)
        total = values if total is None else jax.tree.map(np.add, total, values)
        weight, counted = weight + int(weighed), counted + int(found)
        if counted >= sequences:
            break
    if total is None:
        raise DataError(
            f'no sequence of {segment_length} tokens found a full memory, which takes {model.core.span:,} tokens of '
            f'one document before it in each of {rows} rows: lower eval.batch_size or a memory length'
        )
    means = jax.tree.map(lambda array: array / weight, total)
    seconds = time.monotonic() - began
    return Shown(counted, means if attention else None, {} if attention else means, seconds)


def _full_rows(memory: Any, segment: Segment) -> tuple[jax.Array, jax.Array]:
    """Rows whose segment is whole and whose memory is full in all levels; rows with a block that leaves level 0."""
    whole_B = segment.lengths_B == segment.inputs_BxT.shape[1]
    evicts_B = segment.lengths_B > 0
    for part in memory if isinstance(memory, tuple) else (memory,):
        levels = fifo.forget(part, segment.start_B).levels
        evicts_B &= levels[0].count_B == levels[0].length
        for level in levels:
            whole_B &= level.count_B == level.length
    return whole_B, evicts_B
