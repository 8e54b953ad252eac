"""The token store: a prepared corpus on disk, memory-mapped, with a digest of every file.

A store is a directory of one corpus in one convention:

    meta.json              corpus, source, tokenizer, each split's counts, sizes and digests, and its own digest
    SPLIT.tokens           ids of all documents, laid end to end (little-endian, uint8, uint16 or int32)
    SPLIT.offsets          int64 [documents + 1]: where each document begins, and the end
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memjax.data.sources import SPLITS
from memjax.data.tokenizers import Tokenizer, tokenizer_from_json
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
      word_unit: what `words` counts, `words` or `words and line ends`; says so where the count is the published one.
      note: how much of what is published the split is, such as `a subset of 5 of 100 books`; None: nobody says.
    """

    tokens: np.ndarray
    document_offsets: np.ndarray
    words: int | None
    num_bytes: int
    word_unit: str = 'words'
    note: str | None = None

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
      documents: what a document is, where the corpus leaves a choice (`data.documents`); else None.
    """

    name: str
    convention: str
    tokenizer: Tokenizer
    splits: dict[str, TokenSplit]
    licence: str
    fingerprint: str
    documents: str | None = None

    @property
    def vocab_size(self) -> int:
        """What a model's vocabulary must be at least."""
        return self.tokenizer.vocab_size


def meta_digest(meta: dict[str, Any]) -> str:
    """The digest that a `meta.json` has of all else in it."""
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
    if digest != meta_digest(meta):
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
    return Corpus(meta['corpus'], meta['convention'], tokenizer, splits, licence, fingerprint, meta.get('documents'))


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
        word_unit=summary.get('word_unit', 'words'),
        note=summary.get('note'),
    )
