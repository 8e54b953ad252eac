"""Evaluation: every target of a split exactly once, for any number of rows and any segment length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from memjax.data.store import TokenSplit


class EvaluationSegment(NamedTuple):
    """One segment of each row.

    Attributes:
      inputs_BxT: int32, 0 where there is none.
      targets_BxT: int32, the symbol after each input.
      weights_BxT: float32, 1 where a target is scored, 0 on padding and warm-up.
      start_B: bool, the row begins a document, or begins to read at all; True for a row that is finished.
      lengths_B: int32, real tokens, also of the warm-up; 0 for a row that is finished.
      target_index_BxT: int64, number of the target among the split's targets in the order of the text; -1 where it is
        not scored.
    """

    inputs_BxT: np.ndarray
    targets_BxT: np.ndarray
    weights_BxT: np.ndarray
    start_B: np.ndarray
    lengths_B: np.ndarray
    target_index_BxT: np.ndarray


class EvaluationStream:
    """A split's segments, dealt out to B rows.

    Every document is cut into segments of T from its own start. All segments of all documents in order are one list,
    which is cut into B runs as equal as can be; row b reads run b. A row whose run begins within a document first
    reads, unscored, the segments before it that hold the last `warmup` tokens (or all there are since the document's
    start), so that its memory is what it would have been. Rows that finish early are given empty segments.

    Attributes:
      num_targets: scored tokens, all of the split's.
      num_segments: `EvaluationSegment`s that an iteration yields.
      warmup: tokens of warm-up, rounded up to whole segments.
    """

    def __init__(self, split: TokenSplit, batch_size: int, segment_length: int, warmup: int):
        """A stream that can be iterated over any number of times.

        Args:
          split: where the tokens are.
          batch_size: B; may exceed the number of segments.
          segment_length: T, in tokens.
          warmup: tokens to read before a run that begins within a document; 0 for none.
        """
        self._split = split
        self._segment_length = segment_length
        self.num_targets = split.num_targets
        warmup_segments = -(-warmup // segment_length)
        self.warmup = warmup_segments * segment_length
        targets = np.maximum(np.diff(split.document_offsets) - 1, 0)
        # Segment g belongs to the last document whose first segment is not after g; likewise for targets.
        self._first_target = np.concatenate([[0], np.cumsum(targets)])
        self._first_segment = np.concatenate([[0], np.cumsum(-(-targets // segment_length))])
        total = int(self._first_segment[-1])
        bounds = np.array([total * b // batch_size for b in range(batch_size + 1)], np.int64)
        self._run_begin, self._run_end = bounds[:-1], bounds[1:]
        within_document = self._run_begin - self._first_segment[self._document_of(self._run_begin)]
        warmup_B = np.minimum(within_document, warmup_segments)
        # An empty run has nothing to be warmed up for.
        self._read_begin = np.where(self._run_begin < self._run_end, self._run_begin - warmup_B, self._run_begin)
        self.num_segments = int((self._run_end - self._read_begin).max())

    def _document_of(self, segment: np.ndarray) -> np.ndarray:
        """The document of each segment; for the one after the last, any."""
        document = np.searchsorted(self._first_segment, segment, side='right') - 1
        return np.minimum(document, self._split.num_documents - 1)

    def __len__(self) -> int:
        """`num_segments`."""
        return self.num_segments

    def __iter__(self) -> Iterator[EvaluationSegment]:
        """All segments, in order."""
        for step in range(self.num_segments):
            yield self._segment(self._read_begin + step, first=step == 0)

    def _segment(self, segment_B: np.ndarray, first: bool) -> EvaluationSegment:
        B, T = len(segment_B), self._segment_length
        reading_B = segment_B < self._run_end
        document_B = self._document_of(segment_B)
        offset_B = (segment_B - self._first_segment[document_B]) * T
        targets_B = self._first_target[document_B + 1] - self._first_target[document_B]
        lengths_B = np.where(reading_B, np.minimum(T, targets_B - offset_B), 0)
        scored_B = reading_B & (segment_B >= self._run_begin)
        inputs_BxT, targets_BxT = np.zeros((B, T), np.int32), np.zeros((B, T), np.int32)
        begin_B = self._split.document_offsets[document_B] + offset_B
        for row, (begin, length) in enumerate(zip(begin_B.tolist(), lengths_B.tolist(), strict=True)):
            if length:
                tokens = self._split.tokens[begin : begin + length + 1]
                inputs_BxT[row, :length], targets_BxT[row, :length] = tokens[:-1], tokens[1:]
        scored_BxT = scored_B[:, None] & (np.arange(T) < lengths_B[:, None])
        index_BxT = (self._first_target[document_B] + offset_B)[:, None] + np.arange(T)
        return EvaluationSegment(
            inputs_BxT=inputs_BxT,
            targets_BxT=targets_BxT,
            weights_BxT=scored_BxT.astype(np.float32),
            start_B=(offset_B == 0) | ~reading_B | first,
            lengths_B=lengths_B.astype(np.int32),
            target_index_BxT=np.where(scored_BxT, index_BxT, -1),
        )
