"""Where a corpus's text comes from, before anything is written: documents, their splits and what identifies them.

A source is read in chunks, so that a corpus of any size is prepared in bounded memory. Its whole text is read and
checked once when the source is made, before anything is written, and once more when its records are written.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import BinaryIO

SPLITS = ('train', 'validation', 'test')
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Span:
    """The bytes [start, stop) of one of a source's documents: one document of a split."""

    document: int
    start: int
    stop: int


@dataclass(frozen=True)
class Source:
    """A corpus's text, checked.

    Attributes:
      identity: hex digest; two sources of a corpus with the same one hold the same documents in the same order.
      location: where it was found, for messages and for the store's record of its origin.
      text_sha256: hex digest of the text of all spans, in the order of `splits`.
      splits: the spans of each split, in the order of the text; none is empty.
      open_document: opens a document by its index as a seekable binary file.
    """

    identity: str
    location: str
    text_sha256: str
    splits: dict[str, tuple[Span, ...]]
    open_document: Callable[[int], AbstractContextManager[BinaryIO]]

    @property
    def num_bytes(self) -> int:
        """Bytes of the text of all splits."""
        return sum(span.stop - span.start for spans in self.splits.values() for span in spans)


class SpanReader:
    """Reads spans of a source, at best in order: an archive is then unpacked only once."""

    def __init__(self, source: Source):
        self._source = source
        self._open = contextlib.ExitStack()
        self._document: int | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> SpanReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def read(self, span: Span) -> bytes:
        """The span's bytes; fewer if the document has become shorter."""
        if span.document != self._document:
            self._open.close()
            self._file = self._open.enter_context(self._source.open_document(span.document))
            self._document = span.document
        self._file.seek(span.start)
        return self._file.read(span.stop - span.start)


def cut_points(total: int, validation_fraction: float, test_fraction: float) -> tuple[int, int]:
    """Where validation and test begin in a text of `total` bytes, rounded down to a byte.

    The fractions are taken as the decimals they are written as, so that 0.05 of 100 bytes is 5 on every machine.
    """
    validation, test = Fraction(str(validation_fraction)), Fraction(str(test_fraction))
    return int(total * (1 - validation - test)), int(total * (1 - test))


def cut(sizes: Sequence[int], points: tuple[int, int]) -> dict[str, tuple[Span, ...]]:
    """The splits of documents laid end to end and cut at two byte positions.

    A document on a cut becomes two, the second of which starts anew in the next split. Empty documents vanish.

    Args:
      sizes: bytes of each document, in order.
      points: the positions in the whole text where validation and test begin.
    """
    ends = list(itertools.accumulate(sizes))
    total = ends[-1] if ends else 0
    splits = {}
    for name, begin, end in zip(SPLITS, (0, *points), (*points, total), strict=True):
        spans = []
        document = bisect.bisect_right(ends, begin)
        while begin < end:
            stop = min(end, ends[document])
            offset = ends[document] - sizes[document]
            if stop > begin:
                spans.append(Span(document, begin - offset, stop - offset))
            begin, document = stop, document + 1
        splits[name] = tuple(spans)
    return splits
