"""Writing a token store (`memjax.data.store`), so that what interrupts it costs little and leaves nothing half-written.

A store is written into a directory beside it, `NAME.incomplete`, which takes the store's name when it is complete. A
split there is complete once its `SPLIT.json` is; until then its `SPLIT.part.json` says from time to time how much of it
is on the disk, so that an interrupted preparation goes on with the document after that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memjax import atomic
from memjax.data.sources import SPLITS
from memjax.data.store import FORMAT, META, meta_digest
from memjax.data.tokenizers import Tokenizer
from memjax.data.word_count import WordCounter
from memjax.errors import DataError

_PART_BYTES = 64 << 20  # of text, after which what is written is noted


class _DigestedFile:
    """A file that is being written, its size and its digest; on the disk when closed."""

    _HELD_BYTES = 1 << 20

    def __init__(self, path: Path, size: int = 0):
        """A file to go on with after its first `size` bytes, which must be there."""
        self._digest = hashlib.sha256()
        self._size = size
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._file = path.open('r+b' if size else 'wb')
        left = size
        while left:
            chunk = self._file.read(min(left, self._HELD_BYTES))
            if not chunk:
                self._file.close()
                raise DataError(f'{path} is shorter than when its writing was interrupted: prepare it once more')
            self._digest.update(chunk)
            left -= len(chunk)
        self._file.truncate()

    def __enter__(self) -> _DigestedFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def write(self, array: np.ndarray) -> None:
        content = array.tobytes()
        self._size += len(content)
        # A document may be a sentence, too little to be written by itself.
        self._held.append(content)
        self._held_bytes += len(content)
        if self._held_bytes >= self._HELD_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        content = b''.join(self._held)
        self._held, self._held_bytes = [], 0
        self._file.write(content)
        self._digest.update(content)

    def sync(self) -> int:
        """Brings all that was written to the disk; returns how many bytes that is."""
        self._write_held()
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._size

    def finish(self) -> dict[str, Any]:
        self.sync()
        return {'bytes': self._size, 'sha256': self._digest.hexdigest()}


def _token_dtype(vocab_size: int) -> np.dtype:
    if vocab_size <= 1 << 8:
        return np.dtype('u1')
    return np.dtype('<u2' if vocab_size <= 1 << 16 else '<i4')


@dataclass(frozen=True)
class WordCount:
    """How a split's words are counted.

    Attributes:
      unit: `words` or `words and line ends`.
      published: the count that is published for this split, or None.
    """

    unit: str = 'words'
    published: int | None = None

    def result(self, counted: int | None) -> dict[str, Any]:
        """What a split's summary says: the published count, if it is within a twentieth of what was counted."""
        known = self.published
        if counted is None or known is None or abs(counted - known) > known / 20:
            return {'words': counted, 'word_unit': self.unit}
        return {'words': known, 'word_unit': f'{self.unit}, the published count'}


@dataclass
class _Progress:
    """How much of a split is written."""

    documents_read: int = 0  # those without a symbol too
    documents: int = 0
    tokens: int = 0
    num_bytes: int = 0
    words: int | None = 0


def write_split(
    directory: Path,
    split: str,
    documents: Iterable[Iterable[bytes]],
    tokenizer: Tokenizer,
    count: WordCount | None,
    note: str | None = None,
) -> None:
    """Writes a split's files into a store that is not complete yet; a split that is there already is left alone.

    Documents without a symbol are left out. A process that is killed leaves the split to be gone on with, after the
    last document that a `SPLIT.part.json` tells of; what is wrong with the text or the disk leaves no file of it.

    Args:
      directory: exists; the same tokenizer and text must have made what it holds.
      split: its name.
      documents: of each, its text in pieces.
      tokenizer: makes the tokens.
      count: how words are counted; None: they are not defined.
      note: how much of what is published the split is.

    Raises:
      DataError: the split has no document, or no words where they are defined.
      OSError: the disk refuses.
    """
    summary, part = directory / f'{split}.json', directory / f'{split}.part.json'
    if summary.exists():
        return
    paths = {kind: directory / f'{split}.{kind}' for kind in ('tokens', 'offsets')}
    dtype = _token_dtype(tokenizer.vocab_size)
    try:
        done = _Progress(**json.loads(part.read_text())) if part.exists() else _Progress()
        with (
            _DigestedFile(paths['tokens'], done.tokens * dtype.itemsize) as tokens_file,
            _DigestedFile(paths['offsets'], 8 * (done.documents + 1) if part.exists() else 0) as offsets_file,
        ):
            if not part.exists():
                offsets_file.write(np.zeros(1, '<i8'))
            writer = _SplitWriter(tokenizer, dtype, count, done, tokens_file, offsets_file)
            checked = done.num_bytes
            for pieces in itertools.islice(documents, done.documents_read, None):
                writer.write(pieces)
                if done.num_bytes - checked >= _PART_BYTES:
                    tokens_file.sync()
                    offsets_file.sync()
                    atomic.write_bytes(part, json.dumps(dataclasses.asdict(done)).encode())
                    checked = done.num_bytes
            if not done.documents:
                raise DataError(f'the split {split} holds no text')
            if done.words == 0 and count is not None:
                raise DataError(f'the split {split} holds no words')
            content = {
                'num_tokens': done.tokens,
                'num_documents': done.documents,
                'num_bytes': done.num_bytes,
                **(WordCount() if count is None else count).result(None if count is None else done.words),
                'note': note,
                'dtype': dtype.str,
                'files': {'tokens': tokens_file.finish(), 'offsets': offsets_file.finish()},
            }
        atomic.write_bytes(summary, json.dumps(content).encode())
        part.unlink(missing_ok=True)
    except BaseException as error:
        if isinstance(error, Exception) or not part.exists():
            for path in (*paths.values(), part):
                path.unlink(missing_ok=True)
        raise


class _SplitWriter:
    """Appends documents to a split's files."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        dtype: np.dtype,
        count: WordCount | None,
        done: _Progress,
        tokens_file: _DigestedFile,
        offsets_file: _DigestedFile,
    ):
        self._tokenizer, self._dtype, self._done = tokenizer, dtype, done
        self._tokens_file, self._offsets_file = tokens_file, offsets_file
        self._counter = None if count is None else WordCounter(count.unit != 'words', done.words)

    def write(self, pieces: Iterable[bytes]) -> None:
        done, length = self._done, 0
        for ids in self._tokenizer.encode_pieces(self._counted(pieces)):
            self._tokens_file.write(ids.astype(self._dtype, copy=False))
            length += len(ids)
        if self._counter is not None:
            self._counter.end_document()
            done.words = self._counter.words
        done.documents_read += 1
        done.tokens += length
        if length:
            done.documents += 1
            self._offsets_file.write(np.array([done.tokens], '<i8'))

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._done.num_bytes += len(piece)
            if self._counter is not None:
                self._counter.add(piece)
            yield piece


def write_meta(
    directory: Path,
    corpus: str,
    convention: str,
    tokenizer: Tokenizer,
    source: dict[str, str],
    documents: str | None = None,
) -> None:
    """Completes a store whose splits are all written.

    Args:
      directory: with a `SPLIT.json` of each split, which are gone afterwards.
      corpus: its name.
      convention: what a symbol is.
      tokenizer: that made the tokens.
      source: `identity` and `location` of the text.
      documents: what a document is, where the corpus leaves a choice.
    """
    summaries = {split: directory / f'{split}.json' for split in SPLITS}
    content = {
        'format': FORMAT,
        'corpus': corpus,
        'convention': convention,
        'source': source,
        'tokenizer': tokenizer.to_json(),
        'documents': documents,
        'splits': {split: json.loads(path.read_text()) for split, path in summaries.items()},
    }
    content['sha256'] = meta_digest(content)
    atomic.write_bytes(directory / META, json.dumps(content, indent=2).encode())
    for path in summaries.values():
        path.unlink()
