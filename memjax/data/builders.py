"""The TFDS builders of the corpora: their text as array_record files, written and read without TensorFlow.

An example is a file of the source as it is, or one of the pieces of a file that is larger than `PIECE_BYTES` (to the
documents in it see `memjax.data.documents`); a split of more than `SHARD_BYTES` becomes several TFDS splits
`train_000`, `train_001`, .. TFDS holds the whole of what it calls a split in memory while it writes it: these two
bounds are what keeps a corpus of any size within a few hundred megabytes. `Records` puts files and splits together
again and checks that they are what was written.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from memjax.data.corpora import corpus_spec
from memjax.data.sources import SPLITS, Source, Span, SpanReader
from memjax.errors import DataError

PIECE_BYTES = 16 << 20
SHARD_BYTES = 256 << 20


class _TextBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Documents of a corpus; to read prepared records, no source is needed."""

    VERSION = tfds.core.Version('1.0.0')
    # Nothing is downloaded through TFDS, and its search for checksums needs a package that it does not ask for.
    url_infos: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        *,
        source: Source | None = None,
        reader: SpanReader | None = None,
        advance: Callable[[int], Any] | None = None,
        **kwargs: Any,
    ):
        """A builder that writes what `reader` reads of `source` and calls `advance` with the bytes of every piece."""
        self._source = source
        self._reader = reader
        self._advance = advance
        super().__init__(file_format='array_record', **kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        spec = corpus_spec(self.name)
        return tfds.core.DatasetInfo(
            builder=self,
            description=spec.description,
            homepage=spec.homepage,
            license=spec.licence,
            features=tfds.features.FeaturesDict(
                {
                    'document': tfds.features.Scalar(np.int64, doc='number of the document within its split'),
                    'text': tfds.features.Text(doc='the bytes of the document, or of a piece of it'),
                }
            ),
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator[Any]]:
        metadata = self.info.metadata
        metadata['source'] = {
            'identity': self._source.identity,
            'location': self._source.location,
            'stamp': self._source.stamp,
        }
        metadata['splits'] = {}
        whole_text = hashlib.sha256()
        generators = {}
        for split, spans in self._source.splits.items():
            shards = _shards(spans)
            names = [split] if len(shards) == 1 else [f'{split}_{i:03d}' for i in range(len(shards))]
            metadata['splits'][split] = {
                'records': names,
                'num_bytes': 0,
                'sha256': '',
                'note': self._source.notes.get(split),
                'published_words': self._source.published_words.get(split),
            }
            digests = hashlib.sha256(), whole_text
            for name, pieces in zip(names, shards, strict=True):
                is_last = split == SPLITS[-1] and name == names[-1]
                generators[name] = self._generate_examples(metadata['splits'][split], pieces, *digests, is_last)
        return generators

    def _generate_examples(
        self,
        summary: dict[str, Any],
        pieces: list[tuple[int, Span]],
        split_text: hashlib._Hash,
        whole_text: hashlib._Hash,
        is_last: bool,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, (document, span) in enumerate(pieces):
            text = self._reader.read(span)
            split_text.update(text)
            whole_text.update(text)
            summary['num_bytes'] += len(text)
            yield key, {'document': document, 'text': text}
            self._advance(len(text))
        summary['sha256'] = split_text.hexdigest()
        if is_last and whole_text.hexdigest() != self._source.text_sha256:
            raise DataError(f'{self._source.location} changed while it was read')


class Kjv(_TextBuilder, skip_registration=True):
    """The King James Bible, a document a book."""


class Enwik8(_TextBuilder, skip_registration=True):
    """enwik8, one document a split."""


class Needle(_TextBuilder, skip_registration=True):
    """Made-up documents in which values are to be recalled."""


class Files(_TextBuilder, skip_registration=True):
    """A user's own text, a document a file."""


class Text8(_TextBuilder, skip_registration=True):
    """text8, one document a split."""


class Wikitext103(_TextBuilder, skip_registration=True):
    """WikiText-103, a file a split."""


class Ptb(_TextBuilder, skip_registration=True):
    """Penn Treebank, a file a split."""


class Lm1b(_TextBuilder, skip_registration=True):
    """1B words, the benchmark's files of sentences."""


class Pg19(_TextBuilder, skip_registration=True):
    """PG-19, a document a book."""


class Pile(_TextBuilder, skip_registration=True):
    """Files of JSON lines, as they are."""


_BUILDERS = {
    builder.name: builder for builder in (Kjv, Enwik8, Needle, Files, Text8, Wikitext103, Ptb, Lm1b, Pg19, Pile)
}


def _shards(spans: tuple[Span, ...]) -> list[list[tuple[int, Span]]]:
    """A split's pieces with the number of their document, grouped into shards."""
    shards: list[list[tuple[int, Span]]] = [[]]
    size = 0
    for document, span in enumerate(spans):
        for start in range(span.start, span.stop, PIECE_BYTES):
            piece = Span(span.document, start, min(start + PIECE_BYTES, span.stop))
            if size + piece.stop - piece.start > SHARD_BYTES:
                shards.append([])
                size = 0
            shards[-1].append((document, piece))
            size += piece.stop - piece.start
    return shards


def write_records(name: str, source: Source, directory: Path, scratch: Path, advance: Callable[[int], Any]) -> None:
    """Writes a source's text as TFDS records of the corpus `name` under `directory`.

    Raises:
      DataError: the source is no longer what it was when it was checked.
      OSError, RuntimeError: the disk refuses.
    """
    tfds.disable_progress_bar()
    with SpanReader(source) as reader:
        builder = _BUILDERS[name](data_dir=directory, source=source, reader=reader, advance=advance)
        # Its own announcements, of a download of unknown size, would mislead.
        builder._log_download_bytes = builder._log_download_done = lambda: None
        builder.download_and_prepare(
            download_dir=scratch / 'tfds',
            download_config=tfds.download.DownloadConfig(try_download_gcs=False),
        )


class Records:
    """Records that `write_records` has written."""

    def __init__(self, name: str, directory: Path, remedy: str):
        """Opens the records of the corpus `name` under `directory`.

        Args:
          name: of the corpus.
          directory: that `write_records` was given.
          remedy: what the user can do about damaged records; ends the message.

        Raises:
          DataError: they are not there, or cannot be read.
        """
        self._directory = directory
        self._remedy = remedy
        try:
            self._builder = _BUILDERS[name](data_dir=directory)
            metadata = self._builder.info.metadata
            self.source: dict[str, str] = metadata['source']
            self._splits: dict[str, dict[str, Any]] = metadata['splits']
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise self._damaged(repr(error)) from error

    def _damaged(self, how: str) -> DataError:
        return DataError(f'the records in {self._directory} are damaged ({how}); {self._remedy}')

    def num_bytes(self, split: str) -> int:
        """Bytes of a split's text."""
        return self._splits[split]['num_bytes']

    def note(self, split: str) -> str | None:
        """How much of what is published a split is; None: nobody says."""
        return self._splits[split].get('note')

    def published_words(self, split: str) -> int | None:
        """The published count of a split's words, if it is whole and there is one."""
        return self._splits[split].get('published_words')

    def files(self, split: str) -> Iterator[Iterator[bytes]]:
        """The source's files, or parts of them, of a split in order, each as its pieces and to be read before the next.

        Raises:
          DataError: the records are damaged; this may show only at the end.
        """
        pieces = self._pieces(split)
        for _, group in itertools.groupby(pieces, key=lambda piece: piece[0]):
            yield (text for _, text in group)

    def _pieces(self, split: str) -> Iterator[tuple[int, bytes]]:
        digest = hashlib.sha256()
        try:
            for name in self._splits[split]['records']:
                examples = self._builder.as_data_source(name)
                for i in range(len(examples)):
                    example = examples[i]
                    digest.update(example['text'])
                    yield example['document'], example['text']
        except (
            Exception
        ) as error:  # damage shows as anything, from a checksum's RuntimeError to a value of another type
            raise self._damaged(repr(error)) from error
        if digest.hexdigest() != self._splits[split]['sha256']:
            raise self._damaged(f'{split} is not what was written')
