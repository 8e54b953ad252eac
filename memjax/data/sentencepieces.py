"""SentencePiece: subwords learned from the training text, with the bytes of whatever they lack.

What SentencePiece would change of a text is switched off or worked around, so that ids decode to exactly the text they
came from: no normalization, no space put before it, no spaces dropped; newlines are symbols of their own; U+2581, which
it uses for the space, and bytes that are no UTF-8 are taken apart into bytes.
"""

from __future__ import annotations

import base64
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sentencepiece

from memjax.data.tokenizers import fingerprint_of
from memjax.errors import DataError

# The text that is learned from: more makes no better vocabulary, and SentencePiece holds all of it.
SAMPLE_BYTES = 32 << 20
_UNIT_BYTES = 1 << 12
_UNITS_AT_ONCE = 256
_SPACE = '\u2581'
_NOT_FOR_SENTENCEPIECE = re.compile(f'([{_SPACE}\udc80-\udcff]+)')
_TRAINING_THREADS = 4  # fixed: sums, and so the vocabulary, depend on it
_INVALID = b'\xff'


class SentencePieceTokenizer:
    """A trained SentencePiece model; a document is encoded in units of at most 4,096 bytes (`units`)."""

    bos_id = None

    def __init__(self, model: bytes):
        """A tokenizer of a serialized model, which must have a piece for every byte."""
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocab_size = self._processor.vocab_size()
        pieces = [self._processor.id_to_piece(i) for i in range(self.vocab_size)]
        is_byte = [self._processor.is_byte(i) for i in range(self.vocab_size)]
        self._bytes = [
            bytes([int(piece[3:5], 16)]) if byte else piece.replace(_SPACE, ' ').encode()
            for piece, byte in zip(pieces, is_byte, strict=True)
        ]
        self._bytes[self._processor.unk_id()] = _INVALID
        self._byte_ids = np.zeros(256, np.int32)
        for index in np.flatnonzero(is_byte).tolist():
            self._byte_ids[self._bytes[index][0]] = index
        self._threads = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else 1
        self.fingerprint = fingerprint_of(self.to_json())

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text, int32 [symbols]."""
        return np.concatenate([np.zeros(0, np.int32), *self.encode_pieces([text.encode(errors='surrogateescape')])])

    def encode_pieces(self, pieces: Iterable[bytes], is_open: bool = False) -> Iterator[np.ndarray]:
        """The ids of a document's pieces, int32: the same wherever these are cut."""
        texts = (unit.decode(errors='surrogateescape') for unit in units(pieces))
        while batch := list(itertools.islice(texts, _UNITS_AT_ONCE)):
            if any(map(_NOT_FOR_SENTENCEPIECE.search, batch)):
                yield from map(self._encode_odd, batch)
            else:
                ids = self._processor.encode(batch, num_threads=min(self._threads, len(batch)))
                yield np.fromiter(itertools.chain.from_iterable(ids), np.int32)

    def _encode_odd(self, text: str) -> np.ndarray:
        """The ids of a text with parts that SentencePiece would change."""
        ids = [np.zeros(0, np.int32)]
        for index, part in enumerate(_NOT_FOR_SENTENCEPIECE.split(text)):
            if index % 2:
                ids.append(self._byte_ids[np.frombuffer(part.encode(errors='surrogateescape'), np.uint8)])
            elif part:
                ids.append(np.array(self._processor.encode(part), np.int32))
        return np.concatenate(ids)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of ids; what is no UTF-8, or no symbol, becomes U+FFFD."""
        known = (self._bytes[i] if 0 <= i < self.vocab_size else _INVALID for i in np.asarray(ids, np.int64).tolist())
        return b''.join(known).decode(errors='replace')

    def to_json(self) -> dict[str, Any]:
        """What `sentencepiece_from_json` makes it from."""
        return {'kind': 'sentencepiece', 'model': base64.b64encode(self._model).decode()}


def sentencepiece_from_json(description: dict[str, Any]) -> SentencePieceTokenizer:
    """The tokenizer that a store describes."""
    return SentencePieceTokenizer(base64.b64decode(description['model']))


def train_sentencepiece(
    documents: Iterable[Iterable[bytes]], num_bytes: int, vocab_size: int, sample_bytes: int = SAMPLE_BYTES
) -> SentencePieceTokenizer:
    """Learns a vocabulary (a unigram model); the same text always gives the same.

    Args:
      documents: of the training split, each in pieces.
      num_bytes: that they have, or about.
      vocab_size: symbols, among them 256 bytes, the newline and one that no text becomes.
      sample_bytes: of a larger text, so many are learned from, in units spread evenly over it.

    Raises:
      DataError: there are no words, or too little text for so many symbols; names the most that there can be.
    """
    share = min(Fraction(1), Fraction(sample_bytes, max(num_bytes, 1)))
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_sample(documents, share),
            model_writer=model,
            vocab_size=vocab_size,
            model_type='unigram',
            byte_fallback=True,
            normalization_rule_name='identity',
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            user_defined_symbols=['\n'],
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            max_sentence_length=4 * _UNIT_BYTES,
            num_threads=_TRAINING_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(_what_failed(str(error), vocab_size)) from error
    return SentencePieceTokenizer(model.getvalue())


def _sample(documents: Iterable[Iterable[bytes]], share: Fraction) -> Iterator[str]:
    number = 0
    for pieces in documents:
        for unit in units(pieces):
            number += 1
            if number * share // 1 > (number - 1) * share // 1 and not unit.isspace():
                yield unit.decode(errors='replace')


def _what_failed(message: str, vocab_size: int) -> str:
    if found := re.search(r'value <= (\d+)', message):
        return (
            f'the training text is too small for data.sentencepiece_vocab_size={vocab_size:,}: it can be at most '
            f'{int(found[1]):,}'
        )
    if found := re.search(r'required_chars\. \d+ vs (\d+)', message):
        return (
            f'data.sentencepiece_vocab_size={vocab_size:,} is too small for the characters of the training text: it '
            f'must be more than {int(found[1]):,}'
        )
    if 'all_chars_count' in message or 'sentences_' in message:
        return 'the training text holds no words'
    return f'SentencePiece cannot learn from the training text: {" ".join(message.split())}'


def units(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a document that are encoded each by itself; where it is cut into pieces makes no difference.

    As long as more than 4,096 bytes are left, the next unit is that many or less: it ends after the last newline in
    them; if they have none, before the last space; if none either, before the character that the next byte is part of.
    """
    rest = b''
    for piece in pieces:
        rest += piece
        begin = 0
        while len(rest) - begin > _UNIT_BYTES:
            end = _end_of_unit(rest, begin)
            yield rest[begin:end]
            begin = end
        rest = rest[begin:]
    if rest:
        yield rest


def _end_of_unit(text: bytes, begin: int) -> int:
    limit = begin + _UNIT_BYTES
    if newline := text.rfind(b'\n', begin, limit) + 1:
        return newline
    if (space := text.rfind(b' ', begin, limit)) > begin:
        return space
    for end in range(limit, limit - 4, -1):
        if text[end] & 0xC0 != 0x80:
            return end
    return limit
