"""The Pile's format: a JSON object a line with a field `text`, in files .jsonl or, compressed, .jsonl.zst.

Every line is a document. Two layouts, in each of which the order is that of the names:

- the Pile's own: `train/00.jsonl.zst`, ..; `val.jsonl.zst`, `test.jsonl.zst`. Each split may be a folder or a file;
  validation is called `val`, `valid` or `validation`.
- a file, or a folder of files with other names: their lines, laid end to end, are cut by byte, first train, then
  validation, then test; a cut that would fall within a line moves to its end.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import zstandard
from etils import epath

from memjax.data.documents import json_text, lines
from memjax.data.sources import CHUNK_BYTES, SPLITS, Source, Span, chunks, cut, cut_points, reading_bar
from memjax.errors import DataError

_ENDINGS = ('.jsonl', '.jsonl.zst')
_NAMES = {'train': ('train',), 'validation': ('val', 'valid', 'validation'), 'test': ('test',)}


def pile_source(
    location: str | None, validation_fraction: float, test_fraction: float, progress: bool = True
) -> Source:
    """The files of each split, or what is cut of them.

    Args:
      location: a folder or file (any path that etils.epath knows).
      validation_fraction: share of all bytes, where no file says of which split it is.
      test_fraction: likewise.
      progress: show a progress bar.

    Raises:
      DataError: no such place, no such files, a split is missing or empty, a line that is no such object, a broken
        .zst, or too little text to be cut.
    """
    if location is None:
        raise DataError('the corpus pile needs a folder of .jsonl or .jsonl.zst files: --source=FOLDER')
    root = epath.Path(location).expanduser()
    if not root.exists():
        raise DataError(f'no such file or folder: {root}')
    layout = _layout(root)
    paths = [path for files in layout.values() for path in files]
    listing, text, sizes = hashlib.sha256(), hashlib.sha256(), []
    with reading_bar('checking pile', progress) as bar:
        for path in paths:
            digest, size = hashlib.sha256(), 0

            def watched(path: epath.Path) -> Iterator[bytes]:
                nonlocal size
                with _open(path) as file:
                    for chunk in chunks(file):
                        digest.update(chunk)  # noqa: B023 (used up within this turn)
                        text.update(chunk)
                        size += len(chunk)
                        bar.update(len(chunk))
                        yield chunk

            for number, line in enumerate(lines(watched(path)), start=1):
                if not line.isspace():
                    try:
                        json_text(line, number)
                    except DataError as error:
                        raise DataError(f'{path}: {error}') from None
            sizes.append(size)
            listing.update(f'{path.relative_to(root) if path != root else path.name} {digest.hexdigest()}\n'.encode())
    if '' in layout:
        points = cut_points(sum(sizes), validation_fraction, test_fraction)
        splits = cut(sizes, tuple(_next_line(paths, sizes, point) for point in points))
    else:
        splits, first = {}, 0
        for split in SPLITS:
            numbers = range(first, first + len(layout[split]))
            splits[split] = tuple(Span(number, 0, sizes[number]) for number in numbers if sizes[number])
            first = numbers.stop
    for split, spans in splits.items():
        if not spans:
            raise DataError(f'{root} has no text for {split}')
    return Source(
        identity=listing.hexdigest(),
        location=str(root),
        text_sha256=text.hexdigest(),
        splits=splits,
        open_document=lambda number: _open(paths[number]),
    )


def _layout(root: epath.Path) -> dict[str, list[epath.Path]]:
    """The files of each split; all under '' where no name tells."""
    if not root.is_dir():
        return {'': [root]}
    named = {split: [path for name in names for path in _named(root, name)] for split, names in _NAMES.items()}
    if not any(named.values()):
        files = _files(root)
        if not files:
            raise DataError(f'{root} holds no .jsonl or .jsonl.zst file')
        return {'': files}
    missing = [split for split in SPLITS if not named[split]]
    if missing:
        have = ', '.join(split for split in SPLITS if named[split])
        raise DataError(f'{root} has files of {have} but none of {", ".join(missing)}')
    return named


def _named(root: epath.Path, name: str) -> list[epath.Path]:
    folder = root / name
    files = _files(folder) if folder.is_dir() else []
    return files + [root / (name + ending) for ending in _ENDINGS if (root / (name + ending)).exists()]


def _files(folder: epath.Path) -> list[epath.Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(_ENDINGS))


@contextlib.contextmanager
def _open(path: epath.Path) -> Iterator[BinaryIO]:
    """The lines of a file; one that is compressed can be read and sought forwards only."""
    try:
        with path.open('rb') as file:
            if path.name.endswith('.zst'):
                decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
                with decompressor.stream_reader(file, read_size=CHUNK_BYTES, read_across_frames=True) as text:
                    yield text
            else:
                yield file
    except zstandard.ZstdError as error:
        raise DataError(f'{path} is a broken .zst: {error}') from error


def _next_line(paths: list[epath.Path], sizes: list[int], position: int) -> int:
    """The first position from `position` on, in the files laid end to end, at which a line begins."""
    begin = 0
    for path, size in zip(paths, sizes, strict=True):
        if begin < position < begin + size:
            with _open(path) as file:
                file.seek(position - begin - 1)
                return position - 1 + len(next(lines(chunks(file))))
        begin += size
    return position
