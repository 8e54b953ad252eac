"""1B words (Chelba et al.): sentences of news in random order, in the benchmark's own folders.

    training-monolingual.tokenized.shuffled/news.en-00001-of-00100 .. news.en-00099-of-00100     train
    heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050                         test
    heldout-monolingual.tokenized.shuffled/news.en.heldout-00001-of-00050                         validation

Part 0 of the held-out text is the test that is reported everywhere; part 1 as validation is this project's choice.
"""

from __future__ import annotations

import hashlib

from etils import epath

from memjax.data.sources import SPLITS, Source, Span, TextReader, note_of
from memjax.errors import DataError

_TRAINING, _HELD_OUT = 'training-monolingual.tokenized.shuffled', 'heldout-monolingual.tokenized.shuffled'
FILES = {
    'train': tuple(f'{_TRAINING}/news.en-{number:05d}-of-00100' for number in range(1, 100)),
    'validation': (f'{_HELD_OUT}/news.en.heldout-00001-of-00050',),
    'test': (f'{_HELD_OUT}/news.en.heldout-00000-of-00050',),
}


def lm1b_source(location: str | None, subset: bool, progress: bool = True) -> Source:
    """The files of each split.

    Args:
      location: the folder that holds the benchmark's two (any path that etils.epath knows).
      subset: do with some of the training files, which the result says.
      progress: show a progress bar.

    Raises:
      DataError: no such folder, a file is missing, empty or not UTF-8.
    """
    if location is None:
        raise DataError(f'1B words has to be brought: --source=FOLDER that holds {_TRAINING} and {_HELD_OUT}')
    root = epath.Path(location).expanduser()
    if not root.is_dir():
        raise DataError(f'no such folder: {root}')
    names = {split: [name for name in FILES[split] if (root / name).exists()] for split in SPLITS}
    for split in SPLITS:
        missing = [name for name in FILES[split] if name not in names[split]]
        if missing and (not subset or not names[split]):
            more = f' and {len(missing) - 1} other files of {split}' if len(missing) > 1 else ''
            hint = '; --config.data.subset=True takes what there is' if names[split] else ''
            raise DataError(f'{root} has no {missing[0]}{more}{hint}')
    paths = [root / name for split in SPLITS for name in names[split]]
    listing, sizes = hashlib.sha256(), []
    with TextReader('checking 1B words', progress) as text:
        for path in paths:
            with path.open('rb') as file:
                read = text.read(file, str(path))
            if not read.size:
                raise DataError(f'{path} is empty')
            sizes.append(read.size)
            listing.update(f'{path.name} {read.sha256}\n'.encode())
    splits, first = {}, 0
    for split in SPLITS:
        splits[split] = tuple(Span(first + i, 0, sizes[first + i]) for i in range(len(names[split])))
        first += len(names[split])
    found, known = len(names['train']), len(FILES['train'])
    return Source(
        identity=listing.hexdigest(),
        location=str(root),
        text_sha256=text.sha256,
        splits=splits,
        open_document=lambda number: paths[number].open('rb'),
        notes={'train': note_of(found, known, 'files')},
    )
