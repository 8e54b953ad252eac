"""Where a corpus's text comes from, before anything is written: documents, their splits and what identifies them.

A source is read in chunks, so that a corpus of any size is prepared in bounded memory. Its whole text is read and
checked once when the source is made, before anything is written, and once more when its records are written.
"""

from __future__ import annotations

import bisect
import codecs
import contextlib
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import BinaryIO, NamedTuple

from tqdm import tqdm

from memjax.data.word_count import WordCounter
from memjax.errors import DataError

SPLITS = ('train', 'validation', 'test')
CHUNK_BYTES = 1 << 20
WHOLE = 'whole'  # the note of a split that is all of what is published


def note_of(found: int, published: int, unit: str) -> str:
    """The note of a split by how much of what is published was found, in files, books or tokens."""
    if found == published:
        return WHOLE
    if found > published:
        return f'{found:,} {unit}, more than the {published:,} that are published'
    return f'a subset of {found:,} of {published:,} {unit}'


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
      open_document: opens a document by its index as a binary file that can be sought at least forwards.
      notes: of some splits, how much of what is published they are: `whole`, or `a subset of ..`.
      published_words: of some splits, the count of words that is published.
      stamp: of the files as they were before they were read, see `stamp_of`; None: not known.
    """

    identity: str
    location: str
    text_sha256: str
    splits: dict[str, tuple[Span, ...]]
    open_document: Callable[[int], AbstractContextManager[BinaryIO]]
    notes: dict[str, str] = field(default_factory=dict)
    published_words: dict[str, int] = field(default_factory=dict)
    stamp: str | None = None

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


class ReadText(NamedTuple):
    """What a file is: bytes, their SHA-256, words (and line ends), and whether all of it is white space."""

    size: int
    sha256: str
    words: int
    is_blank: bool


class TextReader:
    """Reads files once, from end to end, to check that they are UTF-8 and to tell what they are, as a context.

    Attributes:
      sha256: hex digest of all files read so far, laid end to end.
    """

    def __init__(self, description: str, progress: bool, line_ends: bool | None = None):
        """A reader that has read nothing.

        Args:
          description: of what is read, for the progress bar.
          progress: whether to show it.
          line_ends: whether a line's end counts as a word; None: words are not counted.
        """
        self._bar = reading_bar(description, progress)
        self._line_ends = line_ends
        self._text = hashlib.sha256()

    def __enter__(self) -> TextReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    @property
    def sha256(self) -> str:
        return self._text.hexdigest()

    def read(self, file: BinaryIO, name: str) -> ReadText:
        """Reads a file.

        Raises:
          DataError: it is not UTF-8; says where.
        """
        digest, size, is_blank = hashlib.sha256(), 0, True
        counter = WordCounter(bool(self._line_ends))
        decoder = codecs.getincrementaldecoder('utf-8')()
        for chunk in itertools.chain(chunks(file), [b'']):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                raise DataError(
                    f'{name} is not UTF-8: {error.reason} at byte {size - pending + error.start:,}'
                ) from error
            digest.update(chunk)
            self._text.update(chunk)
            size += len(chunk)
            is_blank = is_blank and not chunk.strip()
            if self._line_ends is not None:
                counter.add(chunk)
            self._bar.update(len(chunk))
        counter.end_document()
        return ReadText(size, digest.hexdigest(), counter.words, is_blank)


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file, in chunks."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def reading_bar(description: str, progress: bool) -> tqdm:
    """A progress bar of bytes, of how many is not known; on terminals only, where it vanishes before any complaint."""
    return tqdm(desc=description, unit='B', unit_scale=True, leave=False, disable=None if progress else True)


def stamp_of(location: str) -> str | None:
    """A digest of the names, sizes and times of the files at a path; None where it does not exist.

    As long as it stays the same, a source need not be read to be known again.
    """
    root = os.path.expanduser(location)
    if '://' in location or not os.path.exists(root):
        return None
    files = (
        [root]
        if os.path.isfile(root)
        else [os.path.join(path, name) for path, _, names in os.walk(root) for name in names]
    )
    digest = hashlib.sha256()
    for path in sorted(files):
        found = os.lstat(path)  # a link that leads nowhere may lie there
        digest.update(os.fsencode(path) + f' {found.st_size} {found.st_mtime_ns}\n'.encode())
    return digest.hexdigest()


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
