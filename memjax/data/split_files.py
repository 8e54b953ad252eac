"""Corpora published as one file a split, in a folder or a .zip, and told by how many tokens each has."""

from __future__ import annotations

import contextlib
import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from etils import epath

from memjax.data.archives import BROKEN, open_member
from memjax.data.sources import SPLITS, Source, Span, TextReader, note_of
from memjax.errors import DataError


@dataclass(frozen=True)
class SplitFiles:
    """What is published.

    Attributes:
      title: what it is called.
      file_names: of each split.
      tokens: words and line ends of each split.
      other_title: a corpus that is easily taken for it, or ''.
      other_unknown: how many `<unk>` that has, by split.
    """

    title: str
    file_names: dict[str, str]
    tokens: dict[str, int]
    other_title: str = ''
    other_unknown: dict[str, int] = field(default_factory=dict)

    def source(self, location: str | None, subset: bool, progress: bool) -> Source:
        """The file of each split, checked.

        Args:
          location: a folder (any path that etils.epath knows) that holds the files or a folder of them, or a .zip.
          subset: take files of other lengths for a part of the corpus, which the result says.
          progress: show a progress bar.

        Raises:
          DataError: no such place, a split is missing or twice there, not UTF-8, or of another length.
        """
        if location is None:
            raise DataError(
                f'{self.title} has to be brought: --source=FOLDER_OR_ZIP with {", ".join(self.file_names.values())}'
            )
        root = epath.Path(location).expanduser()
        files = {split: self._find(root, name) for split, name in self.file_names.items()}
        missing = [name for split, name in self.file_names.items() if files[split] is None]
        if missing:
            raise DataError(f'{root} holds no {", ".join(missing)}')
        text = TextReader(f'checking {self.title}', progress, line_ends=True)
        splits, notes, listing = {}, {}, hashlib.sha256()
        with text:
            for number, split in enumerate(SPLITS):
                with self._open(root, files[split]) as file:
                    read = text.read(file, f'{root}: {self.file_names[split]}')
                if not read.size:
                    raise DataError(f'{root}: {self.file_names[split]} is empty')
                if read.is_blank:
                    raise DataError(f'{root}: {self.file_names[split]} holds no words')
                if read.words != self.tokens[split] and not subset:
                    raise DataError(self._another_length(root, files, split, read.words))
                notes[split] = note_of(read.words, self.tokens[split], 'tokens')
                splits[split] = (Span(number, 0, read.size),)
                listing.update(f'{split} {read.sha256}\n'.encode())
        return Source(
            identity=listing.hexdigest(),
            location=str(root),
            text_sha256=text.sha256,
            splits=splits,
            open_document=lambda number: self._open(root, files[SPLITS[number]]),
            notes=notes,
        )

    def _another_length(self, root: epath.Path, files: dict[str, epath.Path | str], split: str, tokens: int) -> str:
        for held_out, expected in self.other_unknown.items():
            with self._open(root, files[held_out]) as file:
                unknown = file.read().count(b'<unk>')
            if unknown == expected:
                name = self.file_names[held_out]
                return f'{root} holds {self.other_title}, not {self.title}: {name} has {unknown:,} <unk>'
        return (
            f'{root}: {self.file_names[split]} has {tokens:,} words and line ends, that of {self.title} '
            f'{self.tokens[split]:,}; --config.data.subset=True takes it for a part of it'
        )

    def _find(self, root: epath.Path, name: str) -> epath.Path | str | None:
        """A path, or the name of a .zip's member."""
        if root.is_dir():
            found = [root / name] if (root / name).exists() else sorted(root.glob(f'*/{name}'))
        elif not root.exists():
            raise DataError(f'no such file or folder: {root}')
        else:
            with self._archive(root) as archive:
                found = [member for member in archive.namelist() if member.rpartition('/')[2] == name]
        if len(found) > 1:
            raise DataError(f'{root} holds {name} more than once: {found[0]} and {found[1]}')
        return found[0] if found else None

    @contextlib.contextmanager
    def _archive(self, root: epath.Path) -> Iterator[zipfile.ZipFile]:
        try:
            with root.open('rb') as file, zipfile.ZipFile(file) as archive:
                yield archive
        except BROKEN as error:
            raise DataError(f'{root} is neither a folder nor a whole .zip: {error}') from error

    @contextlib.contextmanager
    def _open(self, root: epath.Path, found: epath.Path | str) -> Iterator[BinaryIO]:
        if isinstance(found, str):
            with self._archive(root) as archive, open_member(archive, found) as file:
                yield file
        else:
            with found.open('rb') as file:
                yield file
