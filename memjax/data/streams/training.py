"""Training batches: B endless rows of text, read segment after segment so that a model can carry memory along each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from memjax.data.store import TokenSplit
from memjax.data.streams.order import LargeOrder
from memjax.errors import DataError

Cursor = dict[str, list[int]]

# From so many spans on, B rows' permutations of them would not fit: they are computed item by item.
_MANY_SPANS = 1 << 20


class Batch(NamedTuple):
    """The S segments of one training step for the rows of one process.

    Attributes:
      inputs_SxBxT: int32, 0 where there is none.
      targets_SxBxT: int32, the symbol after each input.
      weights_SxBxT: float32, 1 where a target is scored, 0 on padding.
      start_SxB: bool, the row begins a document, a piece of one, or its part of the only document.
      lengths_SxB: int32, real tokens in the segment, at least 1.
      cursor: where the batch after this one begins, for all rows of all processes; JSON-able.
    """

    inputs_SxBxT: np.ndarray
    targets_SxBxT: np.ndarray
    weights_SxBxT: np.ndarray
    start_SxB: np.ndarray
    lengths_SxB: np.ndarray
    cursor: Cursor


class TrainingStream:
    """B rows over a split, on any number of processes.

    A document is read as its (input, target) pairs, T at a time; what is left at its end is padded, and the row goes on
    with something else in the next segment.

    - Of a split with one document, row b reads the pairs from floor(P b / B) to floor(P (b + 1) / B) of P, over and
      over, and starts anew each time.
    - Of a split with several, every row reads all of them in an endless order of its own: in its epoch e, a permutation
      that is a function of (seed, row, e) alone. Documents of fewer than 2 symbols are left out.
    - Documents that are short beside T fill much of a batch with padding: one of n pairs takes up T ceil(n / T) places.
      With sentences, 26 pairs on average in 1B words, and T = 32 a fifth of all places at the very least is padding.
      Losses, rates and counts are of real tokens alone.
    - With a `piece_length`, documents of more pairs are cut into pieces of so many, each read as a document: rows of a
      single stream then see all of it in a random order, instead of one place for a long time.

    Every process keeps the cursors of all B rows and reads the tokens of its own B / processes: laid side by side, the
    batches of the processes are those of one process, so that a run may resume on another number of them.
    """

    def __init__(
        self,
        split: TokenSplit,
        batch_size: int,
        segment_length: int,
        segments_per_step: int,
        seed: int,
        piece_length: int | None = None,
        process_index: int = 0,
        process_count: int = 1,
    ):
        """A stream that has read nothing yet.

        Args:
          split: where the tokens are.
          batch_size: B, rows over all processes.
          segment_length: T, in tokens.
          segments_per_step: S.
          seed: of the documents' order.
          piece_length: pairs of a piece; None: documents are read whole.
          process_index: which rows to read.
          process_count: divides B.

        Raises:
          DataError: B S T exceeds the split's tokens, or the processes do not divide the rows.
        """
        step_tokens = batch_size * segment_length * segments_per_step
        if step_tokens > len(split.tokens) or split.num_targets < batch_size:
            raise DataError(
                f'{batch_size} rows of {segments_per_step} x {segment_length} tokens are {step_tokens:,} a step, '
                f'too many for the {len(split.tokens):,} of the split: lower data.batch_size or data.segment_length'
            )
        if batch_size % process_count:
            raise DataError(f'{batch_size} rows cannot be shared by {process_count} processes: change data.batch_size')
        self._tokens = split.tokens
        self._batch_size = batch_size
        self._segment_length = segment_length
        self._segments_per_step = segments_per_step
        self._seed = seed
        rows = batch_size // process_count
        self._local_rows = range(process_index * rows, (process_index + 1) * rows)
        # A span is what a row reads from a start to padding: symbols [begin, last], of which `last` is target only.
        begins, lasts = split.document_offsets[:-1], split.document_offsets[1:] - 1
        usable = lasts > begins
        self._begins, self._lasts = (begins, lasts) if usable.all() else (begins[usable], lasts[usable])
        if piece_length is not None:
            self._begins, self._lasts = _cut(self._begins, self._lasts, piece_length)
        self._one_document = len(self._begins) == 1
        if self._one_document:
            bounds = [int(self._lasts[0] - self._begins[0]) * b // batch_size for b in range(batch_size + 1)]
            self._begins, self._lasts = begins[usable] + bounds[:-1], begins[usable] + bounds[1:]

    def initial_cursor(self) -> Cursor:
        """The cursor of the first batch."""
        return {key: [0] * self._batch_size for key in ('epoch', 'index', 'position')}

    def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
        """Endless batches from a cursor on, by default from the beginning.

        Args:
          cursor: of a batch of a stream over the same split with the same rows and seed; resumed from it, the batches
            are those that would have followed.

        Raises:
          DataError: the cursor is of another stream.
        """
        return self._endless(_Rows(self, self.initial_cursor() if cursor is None else cursor))

    def _endless(self, rows: _Rows) -> Iterator[Batch]:
        while True:
            yield self._next_batch(rows)

    def _order(self, row: int, epoch: int) -> Sequence[int]:
        """The spans that a row reads in an epoch."""
        if self._one_document:
            return np.array([row], np.int32)
        if len(self._begins) >= _MANY_SPANS:
            return LargeOrder(len(self._begins), [self._seed, row, epoch])
        # Sorting raw bits, because NumPy promises that these stay the same between versions; `permutation` it does not.
        bits = np.random.Philox(np.random.SeedSequence([self._seed, row, epoch])).random_raw(len(self._begins))
        return np.argsort(bits, kind='stable').astype(np.int32)

    def _next_batch(self, rows: _Rows) -> Batch:
        S, B, T = self._segments_per_step, len(self._local_rows), self._segment_length
        inputs_SxBxT = np.zeros((S, B, T), np.int32)
        targets_SxBxT = np.zeros((S, B, T), np.int32)
        start_SxB = np.empty((S, B), bool)
        lengths_SxB = np.empty((S, B), np.int32)
        local = slice(self._local_rows.start, self._local_rows.stop)
        for s in range(S):
            at, lengths, start = rows.read(T)
            start_SxB[s], lengths_SxB[s] = start[local], lengths[local]
            for b, (begin, length) in enumerate(zip(at[local].tolist(), lengths[local].tolist(), strict=True)):
                tokens = self._tokens[begin : begin + length + 1]
                inputs_SxBxT[s, b, :length] = tokens[:-1]
                targets_SxBxT[s, b, :length] = tokens[1:]
        weights_SxBxT = (np.arange(T) < lengths_SxB[..., None]).astype(np.float32)
        return Batch(inputs_SxBxT, targets_SxBxT, weights_SxBxT, start_SxB, lengths_SxB, rows.cursor())


def _cut(begins: np.ndarray, lasts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Spans of at most `length` pairs; the last symbol of one is the first of the next, so that no target is lost."""
    pieces = [np.arange(begin, last, length) for begin, last in zip(begins, lasts, strict=True)]
    ends = [np.minimum(starts + length, last) for starts, last in zip(pieces, lasts, strict=True)]
    return np.concatenate(pieces), np.concatenate(ends)


class _Rows:
    """Where all B rows of a stream stand."""

    def __init__(self, stream: TrainingStream, cursor: Cursor):
        self._stream = stream
        B = stream._batch_size
        if sorted(cursor) != ['epoch', 'index', 'position'] or any(len(values) != B for values in cursor.values()):
            raise DataError(f'the data cursor is not of a stream of {B} rows')
        self._epoch, self._index, position = (np.array(cursor[key], np.int64) for key in ('epoch', 'index', 'position'))
        self._begin, self._last = np.empty(B, np.int64), np.empty(B, np.int64)
        self._orders = [stream._order(row, epoch) for row, epoch in enumerate(self._epoch.tolist())]
        if ((self._index < 0) | (self._index >= len(self._orders[0]))).any():
            raise DataError('the data cursor is of another corpus: it points behind the last document')
        for row in range(B):
            self._enter(row)
        self._at = self._begin + position
        if ((position < 0) | (self._at >= self._last)).any():
            raise DataError('the data cursor is of another corpus: it points behind the end of a document')

    def _enter(self, row: int) -> None:
        span = self._orders[row][self._index[row]]
        self._begin[row], self._last[row] = self._stream._begins[span], self._stream._lasts[span]

    def read(self, segment_length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Goes on by a segment: of each row the position of its first input, its length, and whether it starts anew."""
        at = self._at.copy()
        start = at == self._begin
        lengths = np.minimum(segment_length, self._last - at)
        self._at += lengths
        for row in np.flatnonzero(self._at == self._last).tolist():
            self._index[row] += 1
            if self._index[row] == len(self._orders[row]):
                self._epoch[row], self._index[row] = self._epoch[row] + 1, 0
                self._orders[row] = self._stream._order(row, int(self._epoch[row]))
            self._enter(row)
            self._at[row] = self._begin[row]
        return at, lengths, start

    def cursor(self) -> Cursor:
        position = self._at - self._begin
        return {'epoch': self._epoch.tolist(), 'index': self._index.tolist(), 'position': position.tolist()}
