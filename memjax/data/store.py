"""The token store: a prepared corpus on disk, memory-mapped, with a digest of every file.

A store is a directory of one corpus in one convention:

    meta.json              corpus, source, tokenizer, each split's counts, sizes and digests, and its own digest
    SPLIT.tokens           ids of all documents, laid end to end (little-endian, uint8, uint16 or int32)
    SPLIT.offsets          int64 [documents + 1]: where each document begins, and the end

It is written into a directory beside it, `NAME.incomplete`, which takes the store's name when it is complete. A split
there is complete once its `SPLIT.json` is, so that an interrupted preparation goes on with the next split.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memjax import atomic
from memjax.data.sources import SPLITS
from memjax.data.tokenizers import Tokenizer, tokenizer_from_json
from memjax.data.word_count import WordCounter
from memjax.errors import DataError

FORMAT = 1
META = 'meta.json'


@dataclass(frozen=True, eq=False)
class TokenSplit:
    """A split of a corpus, as its tokens.

    Attributes:
      tokens: [symbols], unsigned 8 or 16 bits or int32; memory-mapped.
      document_offsets: int64 [documents + 1]: document d is tokens[offsets[d]:offsets[d + 1]].
      words: words of the text (white space between them), None where they are not defined: a text that is not UTF-8,
        or a convention without the white space of the text.
      num_bytes: bytes of the text before tokenization.
    """

    tokens: np.ndarray
    document_offsets: np.ndarray
    words: int | None
    num_bytes: int

    @property
    def num_documents(self) -> int:
        """How many documents there are."""
        return len(self.document_offsets) - 1

    @functools.cached_property
    def num_targets(self) -> int:
        """Symbols that have one before them in their document; no more than symbols - documents without a BOS."""
        return int(np.maximum(np.diff(self.document_offsets) - 1, 0).sum())


@dataclass(frozen=True, eq=False)
class Corpus:
    """A prepared corpus.

    Attributes:
      name: as in `config.data.name`.
      convention: what a symbol is.
      tokenizer: text to ids and back.
      splits: `train`, `validation` and `test`.
      licence: of the text.
      fingerprint: hex digest of the tokenizer and of every token; equal means the same data.
    """

    name: str
    convention: str
    tokenizer: Tokenizer
    splits: dict[str, TokenSplit]
    licence: str
    fingerprint: str

    @property
    def vocab_size(self) -> int:
        """What a model's vocabulary must be at least."""
        return self.tokenizer.vocab_size


class _DigestedFile:
    """A file that is being written, its size and its digest; on the disk when closed."""

    def __init__(self, path: Path):
        self._file = path.open('wb')
        self._digest = hashlib.sha256()
        self._size = 0

    def __enter__(self) -> _DigestedFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def write(self, array: np.ndarray) -> None:
        content = array.tobytes()
        self._file.write(content)
        self._digest.update(content)
        self._size += len(content)

    def finish(self) -> dict[str, Any]:
        self._file.flush()
        os.fsync(self._file.fileno())
        return {'bytes': self._size, 'sha256': self._digest.hexdigest()}


def _token_dtype(vocab_size: int) -> np.dtype:
    if vocab_size <= 1 << 8:
        return np.dtype('u1')
    return np.dtype('<u2' if vocab_size <= 1 << 16 else '<i4')


def write_split(
    directory: Path, split: str, documents: Iterable[Iterable[bytes]], tokenizer: Tokenizer, count_words: bool
) -> None:
    """Writes a split's files into a store that is not complete yet; a split that is there already is left alone.

    Documents without a symbol are left out. Whatever interrupts it, no file of the split stays.

    Args:
      directory: exists; the same tokenizer and text must have made what it holds.
      split: its name.
      documents: of each, its text in pieces.
      tokenizer: makes the tokens.
      count_words: whether words are defined.

    Raises:
      DataError: the split has no document.
      OSError: the disk refuses.
    """
    summary = directory / f'{split}.json'
    if summary.exists():
        return
    dtype = _token_dtype(tokenizer.vocab_size)
    paths = {kind: directory / f'{split}.{kind}' for kind in ('tokens', 'offsets')}
    counter = WordCounter()
    num_bytes, offsets = 0, [0]

    def counted(pieces: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal num_bytes
        for piece in pieces:
            num_bytes += len(piece)
            if count_words:
                counter.add(piece)
            yield piece
        counter.end_document()

    try:
        with _DigestedFile(paths['tokens']) as tokens_file, _DigestedFile(paths['offsets']) as offsets_file:
            for pieces in documents:
                length = 0
                for ids in tokenizer.encode_pieces(counted(pieces)):
                    tokens_file.write(ids.astype(dtype, copy=False))
                    length += len(ids)
                if length:
                    offsets.append(offsets[-1] + length)
            if len(offsets) == 1:
                raise DataError(f'the split {split} holds no text')
            offsets_file.write(np.array(offsets, '<i8'))
            content = {
                'num_tokens': offsets[-1],
                'num_documents': len(offsets) - 1,
                'num_bytes': num_bytes,
                'words': counter.words if count_words else None,
                'dtype': dtype.str,
                'files': {'tokens': tokens_file.finish(), 'offsets': offsets_file.finish()},
            }
        atomic.write_bytes(summary, json.dumps(content).encode())
    except BaseException:
        for path in paths.values():
            path.unlink(missing_ok=True)
        raise


def write_meta(directory: Path, corpus: str, convention: str, tokenizer: Tokenizer, source: dict[str, str]) -> None:
    """Completes a store whose splits are all written.

    Args:
      directory: with a `SPLIT.json` of each split, which are gone afterwards.
      corpus: its name.
      convention: what a symbol is.
      tokenizer: that made the tokens.
      source: `identity` and `location` of the text.
    """
    summaries = {split: directory / f'{split}.json' for split in SPLITS}
    content = {
        'format': FORMAT,
        'corpus': corpus,
        'convention': convention,
        'source': source,
        'tokenizer': tokenizer.to_json(),
        'splits': {split: json.loads(path.read_text()) for split, path in summaries.items()},
    }
    content['sha256'] = _meta_digest(content)
    atomic.write_bytes(directory / META, json.dumps(content, indent=2).encode())
    for path in summaries.values():
        path.unlink()


def _meta_digest(meta: dict[str, Any]) -> str:
    rest = {key: value for key, value in meta.items() if key != 'sha256'}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_meta(directory: Path, remedy: str) -> dict[str, Any]:
    """A store's `meta.json`.

    Raises:
      DataError: it cannot be read, or another version of this project wrote it; ends in `remedy`.
    """
    path = directory / META
    try:
        meta = json.loads(path.read_text())
        version, digest = meta['format'], meta['sha256']
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f'{path} is damaged ({error!r}); {remedy}') from error
    if version != FORMAT:
        raise DataError(f'{path} has format {version!r}, this version reads {FORMAT}; {remedy}')
    if digest != _meta_digest(meta):
        raise DataError(f'{path} is damaged (another SHA-256 than when it was written); {remedy}')
    return meta


def open_store(directory: Path, licence: str, remedy: str) -> Corpus:
    """Opens a complete store, after comparing every file with its size and digest (some 0.2 s for 100 MB).

    Args:
      directory: the store.
      licence: of the corpus.
      remedy: what the user can do about a damaged store; ends the message.

    Raises:
      DataError: a file is missing, truncated or changed.
    """
    meta = read_meta(directory, remedy)
    tokenizer = tokenizer_from_json(meta['tokenizer'])
    splits = {name: _open_split(directory, name, meta['splits'][name], remedy) for name in SPLITS}
    digests = [meta['splits'][name]['files'] for name in SPLITS]
    fingerprint = hashlib.sha256(json.dumps([tokenizer.fingerprint, digests], sort_keys=True).encode()).hexdigest()
    return Corpus(meta['corpus'], meta['convention'], tokenizer, splits, licence, fingerprint)


def _open_split(directory: Path, split: str, summary: dict[str, Any], remedy: str) -> TokenSplit:
    for kind, expected in summary['files'].items():
        path = directory / f'{split}.{kind}'
        try:
            size = path.stat().st_size
            if size != expected['bytes']:
                raise DataError(f'{path} has {size:,} bytes instead of {expected["bytes"]:,}; {remedy}')
            with path.open('rb') as file:
                digest = hashlib.file_digest(file, 'sha256').hexdigest()
        except OSError as error:
            raise DataError(f'{path} cannot be read ({error.strerror}); {remedy}') from error
        if digest != expected['sha256']:
            raise DataError(f'{path} is damaged (another SHA-256 than when it was written); {remedy}')
    return TokenSplit(
        tokens=np.memmap(directory / f'{split}.tokens', np.dtype(summary['dtype']), 'r'),
        document_offsets=np.fromfile(directory / f'{split}.offsets', '<i8'),
        words=summary['words'],
        num_bytes=summary['num_bytes'],
    )
