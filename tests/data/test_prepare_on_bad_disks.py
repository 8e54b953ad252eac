"""Preparing on a disk that is full, read-only or limited: one line says so, and nothing half-written stays."""

from __future__ import annotations

import errno
import os
import resource
import subprocess

import pytest

from memjax.data import store_writing
from memjax.data.prepare import open_corpus, prepare
from memjax.errors import DataError


@pytest.fixture
def large_books(books):
    """Enough incompressible text that no stage of its preparation fits into 200 kB."""
    (books / 'd.txt').write_bytes(os.urandom(300_000).hex().encode())
    return books


@pytest.mark.parametrize('limit', [20_000, 500_000])
def test_a_file_that_the_system_does_not_let_grow_leaves_nothing(large_books, tmp_path, data_config, limit):
    """20 kB stops the records, 500 kB the token files (600 kB; the records are compressed to half)."""
    data_dir = tmp_path / 'data'
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(DataError, match=r'^cannot prepare files in .*: File too large') as error:
            prepare(data_config(name='files'), data_dir, source=str(large_books), progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert '\n' not in str(error.value)
    _only_whole_records(data_dir)
    assert open_corpus(data_config(name='files', path=str(large_books)), data_dir).splits['train'].num_documents == 4


def _only_whole_records(data_dir):
    """No store, no part of one, no scratch; at most complete records."""
    left = list((data_dir / 'files').iterdir()) if (data_dir / 'files').exists() else []
    assert [path.name for path in left] in ([], ['records'])
    for records in left:
        assert len(list(records.rglob('*.array_record*'))) == 3


def test_a_full_disk_is_one_line(books, tmp_path, data_config, monkeypatch):
    def full(self, array):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(DataError, match='No space left on device') as error:
        patch.setattr(store_writing._DigestedFile, 'write', full)
        prepare(data_config(name='files'), tmp_path / 'data', source=str(books), progress=False)
    assert '\n' not in str(error.value)
    _only_whole_records(tmp_path / 'data')


@pytest.mark.slow
@pytest.mark.parametrize('size', ['16k', '300k', '900k'])
def test_a_real_full_disk(large_books, tmpfs, data_config, size):
    disk = tmpfs(f'size={size}')
    with pytest.raises(DataError, match='No space left on device') as error:
        prepare(data_config(name='files'), disk, source=str(large_books), progress=False)
    assert '\n' not in str(error.value)
    _only_whole_records(disk)


@pytest.mark.slow
def test_a_read_only_disk_can_be_read_but_not_prepared_on(books, tmpfs, data_config):
    disk = tmpfs('size=4m')
    corpus = prepare(data_config(name='files'), disk, source=str(books), progress=False)
    subprocess.run(('mount', '-o', 'remount,ro', disk), check=True)
    assert open_corpus(data_config(name='files'), disk).fingerprint == corpus.fingerprint
    with pytest.raises(DataError, match=r'cannot prepare kjv in .*: Read-only file system') as error:
        open_corpus(data_config(), disk)
    assert '\n' not in str(error.value)


def test_a_data_dir_that_is_a_file(tmp_path, data_config):
    (tmp_path / 'file').touch()
    for data_dir in (tmp_path / 'file', tmp_path / 'file' / 'below'):
        with pytest.raises(DataError, match=r'cannot (prepare|open) kjv in') as error:
            open_corpus(data_config(), data_dir)
        assert '\n' not in str(error.value)
