"""Tokenizers: text to ids and back, behind one small protocol.

A tokenizer is made for a corpus when it is prepared, stored with it as JSON, and told apart by its fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from memjax.errors import DataError

# Conventions in which a symbol is a character, so that bits per symbol are bits per character.
CHARACTER_CONVENTIONS = ('bytes', 'txl', 'awd', 'characters')

# A prompt from the shell carries bytes that are not UTF-8 as surrogates: `surrogateescape` gives them back.
# No UTF-8 text has this byte: an id that stands for nothing is decoded to it, and so to U+FFFD.
_INVALID = 0xFF


class Tokenizer(Protocol):
    """What the rest of the project asks of a tokenizer.

    Attributes:
      vocab_size: ids are 0 .. vocab_size - 1; a model's vocabulary must be at least this large.
      bos_id: the id that begins every document, or None.
      fingerprint: hex digest of everything that decides which ids a text becomes.
    """

    vocab_size: int
    bos_id: int | None
    fingerprint: str

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text, [symbols]. Raises DataError for a symbol that has none."""
        ...

    def encode_pieces(self, pieces: Iterable[bytes], is_open: bool = False) -> Iterator[np.ndarray]:
        """The ids of one document given in pieces that may be cut anywhere, as arrays to be laid end to end.

        Args:
          pieces: of the document's text.
          is_open: more of it is to follow, as after a prompt: nothing is added at its end.
        """
        ...

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of ids; what is no UTF-8, or no symbol, becomes U+FFFD."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What `tokenizer_from_json` makes it from."""
        ...


def fingerprint_of(description: dict[str, Any]) -> str:
    """The fingerprint of a tokenizer with this JSON."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


class ByteTokenizer:
    """Every byte of the UTF-8 text is a symbol; its value is its id."""

    vocab_size = 256
    bos_id = None

    def __init__(self):
        self.fingerprint = fingerprint_of(self.to_json())

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text, uint8 [bytes]."""
        return np.frombuffer(text.encode(errors='surrogateescape'), np.uint8)

    def encode_pieces(self, pieces: Iterable[bytes], is_open: bool = False) -> Iterator[np.ndarray]:
        """The ids of a document's pieces, uint8."""
        for piece in pieces:
            yield np.frombuffer(piece, np.uint8)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of ids; what is no UTF-8 becomes U+FFFD."""
        ids = np.asarray(ids, np.int64)
        return np.where((ids >= 0) & (ids < 256), ids, _INVALID).astype(np.uint8).tobytes().decode(errors='replace')

    def to_json(self) -> dict[str, Any]:
        """What `tokenizer_from_json` makes it from."""
        return {'kind': 'bytes'}


class SymbolTokenizer:
    """The bytes that occur in a corpus, numbered in their order; some may be dropped from every text.

    With newlines dropped it is the convention `txl` of enwik8 (Transformer-XL's scripts: 204 symbols), with none
    dropped `awd` (AWD-LSTM's: 205), where the newline is what those scripts call <eos>. Both numbered the symbols of
    all three splits.
    """

    bos_id = None

    def __init__(self, symbols: Iterable[int], dropped: Iterable[int] = ()):
        """A tokenizer of these byte values; `dropped` ones need not be among them and have no id."""
        self._dropped = bytes(sorted(set(dropped)))
        self._symbols = bytes(sorted(set(symbols) - set(self._dropped)))
        self.vocab_size = len(self._symbols)
        # bytes.translate is several times faster than an indexed array, and needs no eight-byte indices.
        self._to_ids = bytes.maketrans(self._symbols, bytes(range(self.vocab_size)))
        self.fingerprint = fingerprint_of(self.to_json())

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text, uint8 [symbols]. Raises DataError for a byte that the corpus does not have."""
        return self._encode(text.encode(errors='surrogateescape'))

    def encode_pieces(self, pieces: Iterable[bytes], is_open: bool = False) -> Iterator[np.ndarray]:
        """The ids of a document's pieces, uint8. Raises DataError for a byte that the corpus does not have."""
        return map(self._encode, pieces)

    def _encode(self, text: bytes) -> np.ndarray:
        if unknown := text.translate(None, self._symbols + self._dropped):
            raise DataError(f'the byte {unknown[:1]!r} is none of the {self.vocab_size} symbols of this corpus')
        return np.frombuffer(text.translate(self._to_ids, self._dropped), np.uint8)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of ids; what is no UTF-8 becomes U+FFFD."""
        ids = np.asarray(ids, np.int64)
        known = (ids >= 0) & (ids < self.vocab_size)
        symbols = np.frombuffer(self._symbols, np.uint8)
        values = np.where(known, symbols[np.where(known, ids, 0)], _INVALID)
        return values.astype(np.uint8).tobytes().decode(errors='replace')

    def to_json(self) -> dict[str, Any]:
        """What `tokenizer_from_json` makes it from."""
        return {'kind': 'symbols', 'symbols': list(self._symbols), 'dropped': list(self._dropped)}


def make_tokenizer(convention: str, texts: Iterable[bytes]) -> Tokenizer:
    """The tokenizer of a convention whose symbols are bytes (for the others see `memjax.data.vocabulary`).

    Args:
      convention: `bytes`, `characters` (those that occur), `txl` (no newlines) or `awd` (newlines are <eos>).
      texts: the text of the whole corpus in pieces; read only where the convention depends on it.
    """
    if convention == 'bytes':
        return ByteTokenizer()
    symbols = bytearray()
    for text in texts:
        new = text.translate(None, bytes(symbols))
        while new:
            symbols.append(new[0])
            new = new.translate(None, new[:1])
    return SymbolTokenizer(symbols, {'txl': b'\n', 'awd': b'', 'characters': b''}[convention])


def tokenizer_from_json(description: dict[str, Any]) -> Tokenizer:
    """The tokenizer that a store describes.

    Raises:
      ValueError: of no kind that is known.
    """
    if description['kind'] == 'bytes':
        return ByteTokenizer()
    if description['kind'] == 'symbols':
        return SymbolTokenizer(description['symbols'], description['dropped'])
    if description['kind'] == 'words':
        from memjax.data.words import word_tokenizer_from_json

        return word_tokenizer_from_json(description)
    if description['kind'] == 'sentencepiece':
        from memjax.data.sentencepieces import sentencepiece_from_json

        return sentencepiece_from_json(description)
    raise ValueError(f'unknown tokenizer {description["kind"]!r}')
