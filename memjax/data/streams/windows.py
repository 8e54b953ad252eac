"""Evaluation by windows that overlap, for models without memory: every target exactly once, with as much context.

Al-Rfou et al. (arXiv 1808.04444) move a window by one token and score its last; Transformer-XL, section 4.5, measures
what that costs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memjax.data.store import TokenSplit
from memjax.data.streams.evaluation import EvaluationSegment


class WindowStream:
    """A split's windows, B at a time.

    A document's first window scores all its targets, every further one the `stride` last ones that no window before it
    has scored, each with at least T - stride tokens of context before it. Windows do not depend on each other: each
    row of each segment begins anew.

    Attributes:
      num_targets: scored tokens, all of the split's.
      num_segments: `EvaluationSegment`s that an iteration yields.
      warmup: 0; there is nothing to warm up.
    """

    warmup = 0

    def __init__(self, split: TokenSplit, batch_size: int, segment_length: int, stride: int):
        """A stream that can be iterated over any number of times.

        Args:
          split: where the tokens are.
          batch_size: B.
          segment_length: T, in tokens.
          stride: of the windows, at most T.
        """
        self._split = split
        self._batch_size, self._segment_length, self._stride = batch_size, segment_length, stride
        self.num_targets = split.num_targets
        targets_D = np.maximum(np.diff(split.document_offsets) - 1, 0)
        further_D = -(-np.maximum(targets_D - segment_length, 0) // stride)
        self._first_target = np.concatenate([[0], np.cumsum(targets_D)])
        # Documents without a target have no window.
        self._first_window = np.concatenate([[0], np.cumsum(np.where(targets_D > 0, 1 + further_D, 0))])
        self.num_segments = -(-int(self._first_window[-1]) // batch_size)

    def __len__(self) -> int:
        """`num_segments`."""
        return self.num_segments

    def __iter__(self) -> Iterator[EvaluationSegment]:
        """All windows, in order."""
        for segment in range(self.num_segments):
            yield self._segment(np.arange(segment * self._batch_size, (segment + 1) * self._batch_size))

    def _segment(self, window_B: np.ndarray) -> EvaluationSegment:
        B, T = self._batch_size, self._segment_length
        inputs_BxT, targets_BxT = np.zeros((B, T), np.int32), np.zeros((B, T), np.int32)
        lengths_B, index_BxT = np.zeros(B, np.int32), np.full((B, T), -1, np.int64)
        document_B = np.searchsorted(self._first_window, window_B, side='right') - 1
        for row, (window, document) in enumerate(zip(window_B.tolist(), document_B.tolist(), strict=True)):
            if window >= self._first_window[-1]:
                continue
            targets = int(self._first_target[document + 1] - self._first_target[document])
            number = window - int(self._first_window[document])
            scored_before = T + (number - 1) * self._stride if number else 0
            end = min(T + number * self._stride, targets)  # of the targets that this window holds
            begin = max(end - T, 0)
            offset = int(self._split.document_offsets[document]) + begin
            tokens = self._split.tokens[offset : offset + end - begin + 1]
            length = lengths_B[row] = end - begin
            inputs_BxT[row, :length], targets_BxT[row, :length] = tokens[:-1], tokens[1:]
            scored = np.arange(scored_before, end)
            index_BxT[row, scored - begin] = self._first_target[document] + scored
        return EvaluationSegment(
            inputs_BxT=inputs_BxT,
            targets_BxT=targets_BxT,
            weights_BxT=(index_BxT >= 0).astype(np.float32),
            start_B=np.ones(B, bool),
            lengths_B=lengths_B,
            target_index_BxT=index_BxT,
        )
