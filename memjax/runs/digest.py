"""SHA-256 digests of everything under a directory, in the format of `sha256sum`.

A checkpoint library restores flipped bits without a word, so a directory counts as intact only if every file in it is
in a digest, every file of the digest is in it, and all contents agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from etils import epath

from memjax import atomic

_CHUNK_BYTES = 1 << 20


def write(directory: epath.Path, digest: epath.Path, part: int = 0, parts: int = 1) -> None:
    """Writes the digest of the directory's files, or of every `parts`-th of them (one part a process).

    Args:
      directory: what is covered, with all that is below it.
      digest: the file to write, outside the directory; a line is `HEX  PATH`, the path relative to the directory, so
        that `cd DIRECTORY && sha256sum -c DIGEST` checks it too.
      part: which of the parts, from 0.
      parts: over how many digests the files are dealt.

    Raises:
      OSError: a file cannot be read or the digest cannot be written.
    """
    names = sorted(_names(directory))[part::parts]
    atomic.write_text(digest, ''.join(f'{_sha256(directory / name)}  {name}\n' for name in names))


def fault(directory: epath.Path, digests: Sequence[epath.Path]) -> str | None:
    """Why the directory is not what its digests say, or None if it is.

    Args:
      directory: what the digests cover.
      digests: files of `write`, one or more parts.
    """
    try:
        if not digests:
            return 'it has no digest'
        expected: dict[str, str] = {}
        for digest in digests:
            # Not splitlines(): it would take several damaged line ends for whole ones.
            *lines, rest = digest.read_bytes().decode(errors='replace').split('\n')
            if rest:
                return 'its digest is cut off'
            for line in lines:
                hexadecimal, _, name = line.partition('  ')
                expected[name] = hexadecimal
        found = set(_names(directory))
        for name in sorted(found | expected.keys()):
            if name not in expected:
                return f'{name} is in no digest'
            if name not in found:
                return f'{name} is missing'
            if _sha256(directory / name) != expected[name]:
                return f'{name} differs from its digest'
    except OSError as error:
        return f'it cannot be read: {error.strerror or error}'
    return None if expected else 'its digest is empty'


def _names(directory: epath.Path, prefix: str = '') -> Iterator[str]:
    for path in directory.iterdir():
        if path.is_dir():
            yield from _names(path, f'{prefix}{path.name}/')
        else:
            yield f'{prefix}{path.name}'


def _sha256(path: epath.Path) -> str:
    digest = hashlib.sha256()
    with path.open('rb') as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
