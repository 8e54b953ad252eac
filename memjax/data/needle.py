"""A made-up corpus in which a key's value must be recalled after a distance: what a memory can do, free of language.

A document is noise, letters a to h drawn evenly, into which pairs of items of three symbols are laid:

    =Kv    stores a digit v under a capital letter K, which no other item of the document uses
    ?Kv    asks for it, later: v is what is to be predicted

The distance of a pair is how many symbols lie between the two v, counting one of them: from 8 to 1,024, even in its
logarithm. A model that reaches less far back cannot do better than one guess in ten.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from memjax.data.sources import Source, cut

DOCUMENT_LENGTH = 2048
NUM_DOCUMENTS = 2000
SMALLEST_DISTANCE, LARGEST_DISTANCE = 8, 1024
_PAIRS = 24  # tried for in a document; a few find no room
_ITEM = 3
_QUESTION = re.compile(rb'\?([A-Z])(\d)')


class Question(NamedTuple):
    """One value to be recalled."""

    place: int  # of the value asked for, in the document
    distance: int


def needle_source() -> Source:
    """The documents, always the same: 1,800 to train on, 100 and 100 held out."""
    documents = [document(number) for number in range(NUM_DOCUMENTS)]
    sha256 = hashlib.sha256(b''.join(documents)).hexdigest()
    total = NUM_DOCUMENTS * DOCUMENT_LENGTH

    def open_document(number: int) -> contextlib.AbstractContextManager[BinaryIO]:
        return contextlib.closing(io.BytesIO(documents[number]))

    return Source(
        identity=sha256,
        location='memjax.data.needle',
        text_sha256=sha256,
        splits=cut([DOCUMENT_LENGTH] * NUM_DOCUMENTS, (total * 90 // 100, total * 95 // 100)),
        open_document=open_document,
    )


def document(number: int) -> bytes:
    """The text of a document by its number."""
    # Raw bits, because NumPy promises that these stay the same between versions.
    bits = np.random.Philox(np.random.SeedSequence([number, 2]))

    def below(count: int) -> int:
        return int(bits.random_raw() >> np.uint64(11)) * count >> 53

    text = bytearray(b'abcdefgh'[below(8)] for _ in range(DOCUMENT_LENGTH))
    taken = np.zeros(DOCUMENT_LENGTH, bool)
    span = math.log(LARGEST_DISTANCE + 1) - math.log(SMALLEST_DISTANCE)
    for pair in range(_PAIRS):
        distance = int(math.exp(math.log(SMALLEST_DISTANCE) + span * below(1 << 30) / (1 << 30)))
        stored = below(DOCUMENT_LENGTH - _ITEM - distance)
        asked = stored + distance
        if taken[stored : stored + _ITEM].any() or taken[asked : asked + _ITEM].any():
            continue
        value = b'0123456789'[below(10)]
        for begin, mark in ((stored, b'='), (asked, b'?')):
            text[begin : begin + _ITEM] = bytes([mark[0], ord('A') + pair, value])
            taken[begin : begin + _ITEM] = True
    return bytes(text)


def questions(text: bytes) -> Iterator[Question]:
    """All questions of a document, in order.

    Raises:
      ValueError: one asks for what was never stored.
    """
    for match in _QUESTION.finditer(text):
        stored = text.find(b'=' + match[1])
        if not 0 <= stored < match.start():
            raise ValueError(f'{match[0]!r} at {match.start()} asks for what was never stored')
        yield Question(place=match.start() + 2, distance=match.start() - stored)
