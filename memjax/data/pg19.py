"""PG-19 (Rae et al.): books of Project Gutenberg from before 1919, a file a book.

Accepted: a folder with `train/`, `validation/` and `test/`, each of books `ID.txt`; a `metadata.csv` beside them is not
needed. Perplexity by words divides by the published counts of words if all books of the split are there. Of fewer,
words are counted, and what is prepared says that it is a subset.
"""

from __future__ import annotations

import dataclasses

from etils import epath

from memjax.data.files import folders_source, split_folders
from memjax.data.sources import Source, note_of
from memjax.errors import DataError

BOOKS = {'train': 28_602, 'validation': 50, 'test': 100}
WORDS = {'train': 1_973_136_207, 'validation': 3_007_061, 'test': 6_966_499}


def pg19_source(location: str | None, progress: bool = True) -> Source:
    """The books of each split.

    Args:
      location: the folder (any path that etils.epath knows).
      progress: show a progress bar.

    Raises:
      DataError: no such folder, a split is missing or has no book, or a book is not UTF-8.
    """
    if location is None:
        raise DataError('PG-19 has to be brought: --source=FOLDER with the folders train, validation and test')
    root = epath.Path(location).expanduser()
    if not root.is_dir():
        raise DataError(f'no such folder: {root}')
    folders = split_folders(root)
    if folders is None:
        raise DataError(f'{root} has none of the split folders train, validation, test')
    source = folders_source(root, folders, 'checking PG-19', progress)
    found = {split: len(spans) for split, spans in source.splits.items()}
    whole = {split for split in BOOKS if found[split] == BOOKS[split]}
    return dataclasses.replace(
        source,
        notes={split: note_of(found[split], BOOKS[split], 'books') for split in BOOKS},
        published_words={split: WORDS[split] for split in BOOKS if split in whole},
    )
