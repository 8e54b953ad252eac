"""text8: 100,000,000 characters of cleaned English Wikipedia, the letters a to z and the space (Mahoney).

Accepted: the raw file, its .gz or .zip, a .tar.gz that holds one of them, a folder holding one of these, a URL, or
nothing (the official address). What it is, is told by its length and its 27 characters. The last 5 million characters
are test, the 5 million before them validation.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from memjax.data.archives import Packed
from memjax.data.sources import CHUNK_BYTES, Source, cut
from memjax.errors import DataError

OFFICIAL_URL = 'http://mattmahoney.net/dc/text8.zip'
NUM_CHARACTERS = 100_000_000
CHARACTERS = b' abcdefghijklmnopqrstuvwxyz'

_PACKED = Packed('text8', OFFICIAL_URL)


def text8_source(location: str | None, scratch: Path, progress: bool = True) -> Source:
    """The one document and its splits.

    Args:
      location: a file, folder or URL; None for the official address.
      scratch: an empty directory for what is downloaded; the source reads from there.
      progress: show a progress bar while it is downloaded.

    Raises:
      DataError: nothing there, a broken archive or download, another length, or other characters.
    """
    path = _PACKED.fetch(location, scratch, progress)
    origin = location or OFFICIAL_URL
    digest, size, missing = hashlib.sha256(), 0, CHARACTERS
    with _PACKED.open(path, origin) as file:
        # One more than there may be tells a longer text, and an archive without end is not unpacked.
        while size <= NUM_CHARACTERS and (chunk := file.read(min(CHUNK_BYTES, NUM_CHARACTERS + 1 - size))):
            if other := chunk.translate(None, CHARACTERS):
                raise DataError(f'{origin} is not text8, which has a to z and spaces: it holds {other[:1]!r}')
            missing = missing.translate(None, chunk)
            digest.update(chunk)
            size += len(chunk)
    if size != NUM_CHARACTERS:
        length = f'{size:,}' if size <= NUM_CHARACTERS else f'more than {NUM_CHARACTERS:,}'
        raise DataError(f'{origin} is not text8: {length} characters, expected {NUM_CHARACTERS:,}')
    if missing:
        raise DataError(f'{origin} is not text8: it never has {missing[:1]!r}')
    return Source(
        identity=digest.hexdigest(),
        location=origin,
        text_sha256=digest.hexdigest(),
        splits=cut([size], (size * 90 // 100, size * 95 // 100)),
        open_document=lambda document: _PACKED.open(path, origin),
    )
