"""TFDS records: a corpus's text, through array_record files and back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memjax.data import builders
from memjax.data.builders import Records, write_records
from memjax.data.corpora import CORPORA
from memjax.data.files import files_source
from memjax.data.sources import SPLITS
from memjax.errors import DataError


def texts_of(records):
    return {split: [b''.join(pieces) for pieces in records.files(split)] for split in SPLITS}


@pytest.fixture
def source(books):
    return files_source(str(books), 0.1, 0.2)


def write(source, tmp_path):
    write_records('files', source, tmp_path / 'records', tmp_path / 'scratch', advance=lambda num_bytes: None)
    return Records('files', tmp_path / 'records', 'do this')


def test_documents_come_back_in_order(books, source, tmp_path, capfd):
    seen = []
    write_records('files', source, tmp_path / 'records', tmp_path / 'scratch', advance=seen.append)
    records = Records('files', tmp_path / 'records', 'do this')
    texts = texts_of(records)
    names = ('a.txt', 'b.txt', 'c.txt')
    assert b''.join(b''.join(texts[split]) for split in SPLITS) == b''.join((books / n).read_bytes() for n in names)
    assert [len(texts[split]) for split in SPLITS] == [len(source.splits[split]) for split in SPLITS] == [3, 1, 1]
    assert [records.num_bytes(split) for split in SPLITS] == [len(b''.join(texts[split])) for split in SPLITS]
    assert sum(seen) == source.num_bytes
    assert records.source == {'identity': source.identity, 'location': str(books), 'stamp': None}
    assert 'Downloading' not in ''.join(capfd.readouterr())


@pytest.mark.parametrize(('piece', 'shard'), [(100, 1 << 20), (100, 250), (200, 200)])
def test_large_documents_and_splits_are_put_together_again(source, tmp_path, monkeypatch, piece, shard):
    whole = texts_of(write(source, tmp_path / 'whole'))
    monkeypatch.setattr(builders, 'PIECE_BYTES', piece)
    monkeypatch.setattr(builders, 'SHARD_BYTES', shard)
    records = write(source, tmp_path / 'cut')
    assert texts_of(records) == whole
    pieces = [piece for document in records.files('train') for piece in document]
    assert max(map(len, pieces)) == piece
    shards = list((tmp_path / 'cut').rglob('files-train*.array_record*'))
    assert (len(shards) > 1) == (shard < 1 << 20)


def test_a_file_that_changes_after_it_was_checked_is_told(books, source, tmp_path):
    for text in ('Short now.', 'x' * 10_000):
        (books / 'b.txt').write_text(text)
        with pytest.raises(DataError, match=r'books changed while it was read$'):
            write(source, tmp_path)
        assert not list((tmp_path / 'records').rglob('*.array_record*'))


@pytest.mark.parametrize('damage', ['flipped', 'truncated', 'missing', 'metadata'])
def test_damaged_records_are_told(source, tmp_path, damage):
    write(source, tmp_path)
    path = next((tmp_path / 'records').rglob('files-train*.array_record*'))
    content = bytearray(path.read_bytes())
    if damage == 'flipped':
        content[150] ^= 1
        path.write_bytes(content)
    elif damage == 'truncated':
        path.write_bytes(content[: len(content) // 2])
    elif damage == 'missing':
        path.unlink()
    else:
        metadata = path.with_name('metadata.json')
        metadata.write_text(metadata.read_text()[:20])
    with pytest.raises(DataError, match=r'damaged .*; do this$') as caught:
        texts_of(Records('files', tmp_path / 'records', 'do this'))
    assert '\n' not in str(caught.value)


def test_text_that_is_not_what_was_written_is_told(source, tmp_path):
    records = write(source, tmp_path)
    metadata = next((tmp_path / 'records').rglob('metadata.json'))
    digest = records._splits['test']['sha256']
    metadata.write_text(metadata.read_text().replace(digest, '0' * 64))
    with pytest.raises(DataError, match='test is not what was written'):
        texts_of(Records('files', tmp_path / 'records', 'do this'))


def test_tensorflow_is_not_imported(tmp_path):
    program = (
        'import sys\n'
        'from memjax.config import base_config\n'
        'from memjax.data.prepare import prepare\n'
        'corpus = prepare(base_config().data, sys.argv[1], progress=False)\n'
        'assert corpus.splits["test"].num_targets == 206957\n'
        'assert not {"tensorflow", "jax"} & set(sys.modules)\n'
    )
    subprocess.run((sys.executable, '-c', program, tmp_path), check=True)


def test_every_corpus_has_a_builder():
    assert builders._BUILDERS.keys() == CORPORA.keys()
