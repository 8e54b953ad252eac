"""A made-up corpus in which a key's value must be recalled after a distance: what a memory can do, free of language.

A document is noise, letters a to h drawn evenly, into which pairs Kv are laid: K is a key, a letter from A to P, and v
its value, one of eight bytes that are that key's, the same throughout the document. Where a key comes for the first
time its value is anybody's guess; where it comes again, the value is to be recalled. A value names its key, so that one
look finds it: what is measured is reach, not how many looks a model can put together.

The distance of a question is how many symbols lie between its v and the v of the same key before it, counting one of
them: from 8 to 1,024, even in its logarithm. A model that reaches less far back cannot do better than one guess in
eight.
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
_NOISE = b'abcdefgh'
_KEYS = b'ABCDEFGHIJKLMNOP'
NUM_VALUES = 8
_PAIR = re.compile(rb'([A-P])([\x80-\xff])')
_TRIES = 20  # of a distance, before a key comes no more


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

    text = bytearray(_NOISE[below(len(_NOISE))] for _ in range(DOCUMENT_LENGTH))
    is_free = np.ones(DOCUMENT_LENGTH, bool)
    span = math.log(LARGEST_DISTANCE + 1) - math.log(SMALLEST_DISTANCE)

    last = DOCUMENT_LENGTH - 2  # where there is room for a pair

    def first() -> int:
        # Up to a largest distance before the document, so that keys come as often at its begin as later.
        return below(last + 1 + LARGEST_DISTANCE) - LARGEST_DISTANCE

    def distance() -> int:
        return int(math.exp(math.log(SMALLEST_DISTANCE) + span * below(1 << 30) / (1 << 30)))

    def has_room(place: int) -> bool:
        return not 0 <= place <= last or bool(is_free[place : place + 2].all())

    for number, key in enumerate(_KEYS):
        pair = bytes([key, 128 + NUM_VALUES * number + below(NUM_VALUES)])
        place = next(filter(has_room, (first() for _ in range(_TRIES))), DOCUMENT_LENGTH)
        while place <= last:
            if place >= 0:
                text[place : place + 2] = pair
                is_free[place : place + 2] = False
            place = next(filter(has_room, (place + distance() for _ in range(_TRIES))), DOCUMENT_LENGTH)
    return bytes(text)


def questions(text: bytes) -> Iterator[Question]:
    """All questions of a document, in order.

    Raises:
      ValueError: a key has two values.
    """
    last: dict[bytes, re.Match[bytes]] = {}
    for match in _PAIR.finditer(text):
        key, value = match.groups()
        if key in last:
            if last[key][2] != value:
                raise ValueError(f'{match[0]!r} at {match.start()} is not what was stored: {last[key][0]!r}')
            yield Question(place=match.start() + 1, distance=match.start() - last[key].start())
        last[key] = match
