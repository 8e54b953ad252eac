"""Preparing and opening a corpus: its source -> TFDS records -> token store -> `Corpus`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etils import epath
from ml_collections import config_dict
from tqdm import tqdm

from memjax import atomic
from memjax.data.disk import disk_faults_told, exclusive, replace_directory, scratch_directory
from memjax.data.place import Place, find_place, word_rules
from memjax.data.remote import fetch_store, publish_store
from memjax.data.sources import SPLITS, Source, stamp_of
from memjax.data.store import META, Corpus, open_store, read_meta
from memjax.data.store_writing import WordCount, write_meta, write_split
from memjax.data.tokenizers import Tokenizer, tokenizer_from_json
from memjax.data.vocabulary import make_vocabulary
from memjax.errors import DataError

if TYPE_CHECKING:
    from memjax.data.builders import Records


def prepare(
    data: config_dict.ConfigDict,
    data_dir: os.PathLike | str,
    overwrite: bool = False,
    source: str | None = None,
    progress: bool = True,
) -> Corpus:
    """Builds what is missing of a corpus and opens it; builds nothing if nothing is missing.

    A preparation that is interrupted once the text is written as records goes on where it was in making tokens, to some
    64 MB of text. Whatever goes wrong, what was prepared
    before stays as it was. Processes that prepare in the same directory wait for each other.

    Args:
      data: `config.data`.
      data_dir: any path that etils.epath knows.
      overwrite: build this corpus in this convention again, and drop what came from another source.
      source: where the text is (a file, folder or URL, as the corpus takes it); None for `data.path`, and where that is
        None too, for the corpus's own place.
      progress: show progress bars on stderr.

    Raises:
      DataError: unknown corpus or convention, no source or a wrong one, another source than the prepared one without
        `overwrite`, damaged data, or a disk that refuses.
    """
    place = find_place(data, data_dir)
    with _preparing(place) as scratch:
        return _Preparation(place, data, source or data.path, overwrite, progress, scratch).run()


def open_corpus(data: config_dict.ConfigDict, data_dir: os.PathLike | str, may_prepare: bool = True) -> Corpus:
    """Opens a prepared corpus, or prepares it if that takes no download.

    Args:
      data: `config.data`. Where a corpus may come from several sources, a `path` that exists must hold the text that
        was prepared.
      data_dir: any path that etils.epath knows.
      may_prepare: whether to prepare what is missing.

    Raises:
      DataError: not prepared (names the command for it), damaged, or prepared from another source.
    """
    place = find_place(data, data_dir)
    with disk_faults_told(f'cannot open {data.name} in {place.data_dir}'):
        return _open_or_prepare(place, data, may_prepare)


def _open_or_prepare(place: Place, data: config_dict.ConfigDict, may_prepare: bool) -> Corpus:
    if not place.is_prepared():
        needs_download = place.spec.downloads(data.path) and not place.records.exists()
        lacks_source = not place.spec.fixed_text and data.path is None
        if not may_prepare or needs_download or lacks_source:
            raise DataError(f'the corpus {data.name} is not prepared in {place.data_dir}: {place.command}')
        return prepare(data, place.data_dir)
    if place.remote_store is not None:
        with _preparing(place) as scratch:
            fetch_store(place.remote_store, place.store, scratch)
    if data.path is not None and not place.spec.fixed_text:
        _check_same_source(place, data)
    return open_store(place.store, place.spec.licence, place.remedy)


def _check_same_source(place: Place, data: config_dict.ConfigDict) -> None:
    prepared = read_meta(place.store, place.remedy)['source']
    path = epath.Path(data.path).expanduser()
    if (str(path) == prepared['location'] and not path.exists()) or _is_untouched(data.path, prepared):
        return
    given = place.spec.open_source(data, data.path, place.folder, False)
    if given.identity != prepared['identity']:
        raise _another_source(place, given.location, prepared['location'])


def _is_untouched(location: str, prepared: dict[str, Any]) -> bool:
    """Whether a source is that which was prepared and no file of it has changed: a large one takes minutes to read."""
    if str(epath.Path(location).expanduser()) != prepared['location'] or prepared.get('stamp') is None:
        return False
    return stamp_of(location) == prepared['stamp']


def _another_source(place: Place, given: str, prepared: str) -> DataError:
    what = 'has changed since' if given == prepared else f'is not the text of {prepared}, from which'
    return DataError(
        f'{given} {what} the corpus {place.spec.name} was prepared in {place.data_dir}: '
        'prepare with --overwrite, or use another --data_dir'
    )


@contextlib.contextmanager
def _preparing(place: Place) -> Iterator[Path]:
    """Holds the data directory, gives a scratch directory, and turns the disk's faults into DataErrors."""
    with disk_faults_told(f'cannot prepare {place.spec.name} in {place.data_dir}'):
        place.local.mkdir(parents=True, exist_ok=True)
        with exclusive(place.local):
            try:
                with scratch_directory(place.folder / '.scratch') as scratch:
                    yield scratch
            finally:
                with contextlib.suppress(OSError):
                    place.folder.rmdir()  # only if nothing came of it


class _Preparation:
    """One run of `prepare`, which holds the data directory."""

    def __init__(
        self,
        place: Place,
        data: config_dict.ConfigDict,
        location: str | None,
        overwrite: bool,
        progress: bool,
        scratch: Path,
    ):
        self._place = place
        self._data = data
        self._location = location
        self._overwrite = overwrite
        self._progress = progress
        self._scratch = scratch
        # A text that is always the same need not be fetched again to be known.
        self._reads_location = location is not None and not (place.spec.fixed_text and place.spec.downloads(location))

    def run(self) -> Corpus:
        place = self._place
        if place.remote_store is not None and not self._overwrite:
            fetch_store(place.remote_store, place.store, self._scratch)
        if place.store.exists() and not self._overwrite:
            if self._reads_location and not _is_untouched(
                self._location, read_meta(place.store, place.remedy)['source']
            ):
                self._refuse_another(self._open_source())
        else:
            self._write_records()
            self._write_store()
        corpus = open_store(place.store, place.spec.licence, place.remedy)
        if place.remote_store is not None:
            publish_store(place.store, place.remote_store)
        return corpus

    def _open_source(self) -> Source:
        stamp = None if self._location is None else stamp_of(self._location)
        source = self._place.spec.open_source(self._data, self._location, self._scratch, self._progress)
        return dataclasses.replace(source, stamp=stamp)

    def _refuse_another(self, source: Source) -> None:
        for prepared in self._place.other_sources(source.identity).values():
            raise _another_source(self._place, source.location, prepared)

    def _write_records(self) -> None:
        # TFDS takes most of a second to import, and a corpus that is prepared needs none of it.
        from memjax.data.builders import Records, write_records

        place = self._place
        reusable = place.records.exists() and not self._overwrite
        if reusable and not self._reads_location:
            return
        if reusable and _is_untouched(self._location, Records(place.spec.name, place.records, place.remedy).source):
            return
        source = self._open_source()
        if not self._overwrite:
            self._refuse_another(source)
        if reusable:
            return
        written = self._scratch / 'records'
        with self._bar('text', source.num_bytes) as bar:
            write_records(place.spec.name, source, written, self._scratch, bar.update)
        for stale in place.other_sources(source.identity):
            stale.rmtree()
        replace_directory(written, place.records, self._scratch)

    def _write_store(self) -> None:
        from memjax.data.builders import Records

        place = self._place
        records = Records(place.spec.name, place.records, place.remedy)
        source = place.incomplete / 'source.json'
        if self._overwrite or not source.exists() or json.loads(source.read_text()) != records.source:
            shutil.rmtree(place.incomplete, ignore_errors=True)
            place.incomplete.mkdir()
            atomic.write_bytes(source, json.dumps(records.source).encode())
        try:
            if not (place.incomplete / META).exists():
                self._write_splits(records)
        except (OSError, DataError):
            shutil.rmtree(place.incomplete, ignore_errors=True)
            raise
        source.unlink()
        (place.incomplete / 'tokenizer.json').unlink()
        replace_directory(place.incomplete, place.store, self._scratch)

    def _write_splits(self, records: Records) -> None:
        place, data = self._place, self._data
        splitter = place.spec.splitters[place.spec.documents(data)]

        def documents(split: str, bar: tqdm) -> Iterator[Iterable[bytes]]:
            for pieces in records.files(split):
                yield from splitter(_watched(pieces, bar))

        tokenizer = self._tokenizer(records, documents)
        # Without newlines the words on either side of one are no longer told apart.
        counts = data.convention != 'txl'
        with self._bar('tokens', sum(map(records.num_bytes, SPLITS))) as bar:
            for split in SPLITS:
                count = WordCount(place.spec.word_unit, records.published_words(split)) if counts else None
                write_split(place.incomplete, split, documents(split, bar), tokenizer, count, records.note(split))
        chosen = place.spec.documents(data) if len(place.spec.splitters) > 1 else None
        write_meta(place.incomplete, place.spec.name, data.convention, tokenizer, records.source, chosen)

    def _tokenizer(self, records: Records, documents: Callable[[str, tqdm], Iterator[Iterable[bytes]]]) -> Tokenizer:
        """The tokenizer, made anew only if an interrupted preparation has not left it."""
        kept = self._place.incomplete / 'tokenizer.json'
        if kept.exists():
            return tokenizer_from_json(json.loads(kept.read_text()))
        num_bytes = records.num_bytes('train')
        with self._bar('vocabulary', num_bytes, self._data.convention != 'bytes') as bar:
            rules = word_rules(self._place.spec, self._data)
            tokenizer = make_vocabulary(self._data, rules, lambda split: documents(split, bar), num_bytes)
        atomic.write_bytes(kept, json.dumps(tokenizer.to_json()).encode())
        return tokenizer

    def _bar(self, what: str, num_bytes: int, reads: bool = True) -> tqdm:
        description = f'{self._place.spec.name}: {what}'
        return tqdm(
            total=num_bytes, desc=description, unit='B', unit_scale=True, disable=not (self._progress and reads)
        )


def _watched(pieces: Iterable[bytes], bar: tqdm) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        bar.update(len(piece))
