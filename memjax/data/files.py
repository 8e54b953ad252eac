"""A user's own text: a folder of .txt files in UTF-8, with split folders or to be cut by stated fractions.

Every .txt under the folder, at any depth, is a document; their order is that of their paths. Two layouts:

- folders `train`, `validation` (or `valid`) and `test`: the splits; .txt files beside these folders are not read.
- none of these: the documents, laid end to end, are cut by byte, first train, then validation, then test. A cut that
  would fall inside a character moves to its end. A cut document starts anew in the next split.

Nothing but the names and the bytes decides, so that the same folder always gives the same splits. A single .txt file
may stand for a folder that holds only it. Empty files are left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from etils import epath

from memjax.data.sources import SPLITS, Source, Span, TextReader, cut, cut_points
from memjax.errors import DataError

_FOLDERS = {'train': ('train',), 'validation': ('validation', 'valid'), 'test': ('test',)}


@dataclass(frozen=True)
class _Document:
    path: epath.Path
    size: int
    sha256: str
    is_blank: bool


def files_source(location: str, validation_fraction: float, test_fraction: float, progress: bool = False) -> Source:
    """The documents of a folder and their splits.

    Args:
      location: the folder (any path that etils.epath knows), or one .txt file.
      validation_fraction: share of all bytes, where there are no split folders.
      test_fraction: likewise.
      progress: show a progress bar.

    Raises:
      DataError: no such folder, no .txt in it, a split folder is missing or empty, a file is not UTF-8, or the text is
        too small to be cut.
    """
    root = epath.Path(location).expanduser()
    if not root.exists():
        raise DataError(f'no such file or folder: {root}')
    folders = split_folders(root)
    if folders is not None:
        return folders_source(root, folders, 'checking files', progress)
    if min(validation_fraction, test_fraction) <= 0 or validation_fraction + test_fraction >= 1:
        raise DataError(
            f'{root} has no split folders and cannot be cut into {validation_fraction} validation and '
            f'{test_fraction} test: both must be above 0 and leave something to train on'
        )
    with TextReader('checking files', progress) as text:
        documents = [_check(path, text) for path in _list_documents(root)]
    splits = _cut_at_characters(documents, validation_fraction, test_fraction)
    reason = f'cut into {validation_fraction} validation and {test_fraction} test'
    return _source(root, {'': documents}, splits, text, reason)


def folders_source(root: epath.Path, folders: dict[str, epath.Path], description: str, progress: bool) -> Source:
    """The documents of folders of .txt files, one a split.

    Args:
      root: what they are in.
      folders: by split, as `split_folders` finds them.
      description: of the progress bar.
      progress: whether to show it.

    Raises:
      DataError: a folder has no .txt or only ones without words, or a file is not UTF-8.
    """
    with TextReader(description, progress) as text:
        layout = {split: [_check(path, text) for path in _list_documents(folders[split])] for split in SPLITS}
    splits, first = {}, 0
    for split in SPLITS:
        spans = (Span(first + i, 0, document.size) for i, document in enumerate(layout[split]))
        splits[split] = tuple(span for span in spans if span.stop)
        first += len(layout[split])
    return _source(root, layout, splits, text, 'as its folders say')


def _source(
    root: epath.Path,
    layout: dict[str, list[_Document]],
    splits: dict[str, tuple[Span, ...]],
    text: TextReader,
    reason: str,
) -> Source:
    documents = [document for found in layout.values() for document in found]
    for split, spans in splits.items():
        if not spans:
            raise DataError(f'{root}, {reason}, has no text for {split}')
        if all(documents[span.document].is_blank for span in spans):
            raise DataError(f'{root}, {reason}, has no words for {split}')
    return Source(
        identity=_identity(root, layout),
        location=str(root),
        text_sha256=text.sha256,
        splits=splits,
        open_document=lambda document: documents[document].path.open('rb'),
    )


def split_folders(root: epath.Path) -> dict[str, epath.Path] | None:
    """The folder of each split, or None where there is none.

    Raises:
      DataError: there are some, but not of every split, or one twice.
    """
    if not root.is_dir():
        return None
    found = {}
    for split, names in _FOLDERS.items():
        present = [root / name for name in names if (root / name).is_dir()]
        if len(present) > 1:
            raise DataError(f'{root} has both {" and ".join(names)}: keep one')
        if present:
            found[split] = present[0]
    if not found:
        return None
    missing = [names[0] for split, names in _FOLDERS.items() if split not in found]
    if missing:
        have = ', '.join(sorted(folder.name for folder in found.values()))
        raise DataError(f'{root} has the split folders {have} but no {", ".join(missing)}')
    return found


def _list_documents(folder: epath.Path) -> list[epath.Path]:
    if not folder.is_dir():
        return [folder]
    paths = [directory / name for directory, _, names in folder.walk() for name in names if name.endswith('.txt')]
    if not paths:
        raise DataError(f'{folder} holds no .txt file')
    return sorted(paths, key=lambda path: path.relative_to(folder).parts)


def _check(path: epath.Path, text: TextReader) -> _Document:
    """Reads a document once: its size and digest, and that it is UTF-8."""
    with path.open('rb') as file:
        read = text.read(file, str(path))
    return _Document(path, read.size, read.sha256, read.is_blank)


def _cut_at_characters(
    documents: Sequence[_Document], validation_fraction: float, test_fraction: float
) -> dict[str, tuple[Span, ...]]:
    sizes = [document.size for document in documents]
    points = cut_points(sum(sizes), validation_fraction, test_fraction)
    return cut(sizes, tuple(_next_character(documents, point) for point in points))


def _next_character(documents: Sequence[_Document], position: int) -> int:
    """The first position from `position` on, in the documents laid end to end, that is not within a character."""
    begin = 0
    for document in documents:
        if position < begin + document.size:
            with document.path.open('rb') as file:
                file.seek(position - begin)
                following = file.read(4)
            return position + next(i for i, byte in enumerate(following + b'\0') if byte & 0xC0 != 0x80)
        begin += document.size
    return position


def _identity(root: epath.Path, layout: dict[str, list[_Document]]) -> str:
    listing = hashlib.sha256()
    for split, documents in layout.items():
        for document in documents:
            name = document.path.relative_to(root) if document.path != root else document.path.name
            listing.update(b'\0'.join((split.encode(), os.fsencode(name), document.sha256.encode(), b'')))
    return listing.hexdigest()
