"""Preparing and opening corpora, and what may go wrong on the way."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memjax.data import prepare as prepare_module
from memjax.data import remote
from memjax.data.prepare import open_corpus, prepare
from memjax.errors import DataError


def text_of(corpus):
    return {name: corpus.tokenizer.decode(split.tokens) for name, split in corpus.splits.items()}


def files_in(directory):
    return {path: path.stat().st_mtime_ns for path in Path(directory).rglob('*') if path.is_file()}


def one_line(error):
    assert '\n' not in str(error.value)
    return str(error.value)


@pytest.fixture(scope='module')
def kjv_dir(tmp_path_factory):
    return tmp_path_factory.mktemp('kjv')


def test_kjv_needs_no_source_and_is_prepared_by_opening_it(kjv_dir, data_config):
    with pytest.raises(DataError, match=r'is not prepared in .*: python launch/prepare.py --dataset=kjv --data_dir='):
        open_corpus(data_config(), kjv_dir, may_prepare=False)
    corpus = open_corpus(data_config(), kjv_dir)
    counts = {
        name: (split.num_documents, split.num_targets, split.words, split.num_bytes)
        for name, split in corpus.splits.items()
    }
    assert counts == {
        'train': (44, 3_725_452, 711_715, 3_725_496),
        'validation': (8, 206_964, 39_154, 206_972),
        'test': (16, 206_957, 38_762, 206_973),
    }
    assert text_of(corpus)['test'].endswith('The grace of our Lord Jesus Christ be with you all. Amen.\n')
    assert not (kjv_dir / 'kjv' / '.scratch').exists()
    before = files_in(kjv_dir)
    assert prepare(data_config(), kjv_dir, progress=False).fingerprint == corpus.fingerprint
    assert open_corpus(data_config(), kjv_dir, may_prepare=False).fingerprint == corpus.fingerprint
    assert files_in(kjv_dir) == before


def test_kjv_takes_no_source(kjv_dir, tmp_path, data_config):
    with pytest.raises(DataError, match='takes no source'):
        prepare(data_config(), kjv_dir, source=str(tmp_path))


def test_unknown_corpora_and_conventions(tmp_path, data_config):
    with pytest.raises(
        DataError, match=r"unknown corpus 'enwik', known: kjv, enwik8, needle, files, text8, .*; did you mean enwik8\?"
    ):
        open_corpus(data_config(name='enwik'), tmp_path)
    with pytest.raises(DataError, match="kjv has no convention 'txl', known: bytes"):
        open_corpus(data_config(convention='txl'), tmp_path)
    assert not list(tmp_path.iterdir())


def test_three_conventions_of_enwik8_from_one_source(tiny_enwik8, tmp_path, data_config):
    source = tmp_path / 'enwik8'
    source.write_bytes(tiny_enwik8)
    data_dir = tmp_path / 'data'
    corpora = {'bytes': prepare(data_config(name='enwik8'), data_dir, source=str(source), progress=False)}
    source.unlink()
    # The text is there now: the others need neither a source nor a download.
    for convention in ('txl', 'awd'):
        corpora[convention] = open_corpus(data_config(name='enwik8', convention=convention), data_dir)
    expected = {name: tiny_enwik8[begin:end].decode(errors='replace') for name, begin, end in
                (('train', 0, 9000), ('validation', 9000, 9500), ('test', 9500, 10_000))}  # fmt: skip
    assert text_of(corpora['bytes']) == text_of(corpora['awd']) == expected
    assert text_of(corpora['txl']) == {name: text.replace('\n', '') for name, text in expected.items()}
    symbols = len(set(tiny_enwik8))
    assert [corpora[convention].vocab_size for convention in ('bytes', 'txl', 'awd')] == [256, symbols - 1, symbols]
    assert len({corpus.fingerprint for corpus in corpora.values()}) == 3
    for name, split in corpora['txl'].splits.items():
        assert split.words is None
        assert split.num_bytes == len(corpora['bytes'].splits[name].tokens) > len(split.tokens)
        assert split.num_targets == len(split.tokens) - 1
    # Opened again, each is itself.
    for convention, corpus in corpora.items():
        again = open_corpus(data_config(name='enwik8', convention=convention), data_dir, may_prepare=False)
        assert (again.convention, again.fingerprint) == (convention, corpus.fingerprint)


def test_enwik8_is_never_downloaded_by_opening_it(tmp_path, data_config, monkeypatch):
    monkeypatch.setattr('memjax.data.archives.download', lambda *_: pytest.fail('it downloads'))
    for path in (None, 'https://example.org/enwik8.zip', 'pypi'):
        with pytest.raises(DataError, match=r'enwik8 is not prepared in .*: python launch/prepare.py --dataset=enwik8'):
            open_corpus(data_config(name='enwik8', path=path), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_changed_enwik8_is_refused_and_leaves_nothing(tiny_enwik8, tmp_path, data_config):
    source, data_dir = tmp_path / 'enwik8', tmp_path / 'data'
    source.write_bytes(tiny_enwik8[:-1] + b'!')
    with pytest.raises(DataError, match='is not enwik8') as error:
        prepare(data_config(name='enwik8'), data_dir, source=str(source), progress=False)
    one_line(error)
    assert not list(data_dir.iterdir())
    source.write_bytes(tiny_enwik8)
    corpus = open_corpus(data_config(name='enwik8', path=str(source)), data_dir)
    # Also when good data is there already, and also with --overwrite, which keeps the good data.
    source.write_bytes(tiny_enwik8[:-1] + b'!')
    for overwrite in (False, True):
        with pytest.raises(DataError, match='is not enwik8'):
            prepare(data_config(name='enwik8'), data_dir, overwrite, str(source), progress=False)
    assert open_corpus(data_config(name='enwik8'), data_dir).fingerprint == corpus.fingerprint


def test_another_source_needs_overwrite(books, tmp_path, data_config):
    data_dir = tmp_path / 'data'
    with pytest.raises(DataError, match=r'--dataset=files .* --source=FOLDER'):
        open_corpus(data_config(name='files'), data_dir)
    first = prepare(data_config(name='files'), data_dir, source=str(books), progress=False)
    other_fractions = data_config(name='files', test_fraction=0.2)
    second = prepare(other_fractions, data_dir, source=str(books), progress=False)
    assert len(second.splits['test'].tokens) == pytest.approx(4 * len(first.splits['test'].tokens), rel=0.05)
    before = files_in(data_dir)

    other = tmp_path / 'other'
    shutil.copytree(books, other)
    same = open_corpus(data_config(name='files', path=str(other)), data_dir)  # the same text, elsewhere
    assert same.fingerprint == first.fingerprint
    (other / 'b.txt').write_text('Call me Queequeg. ' * 40)
    for fractions in (0.05, 0.2, 0.3):  # prepared, prepared, and not prepared with these
        data = data_config(name='files', test_fraction=fractions, path=str(other))
        for attempt in (open_corpus, prepare):
            with pytest.raises(
                DataError, match=r'other is not the text of .*books, .*prepare with --overwrite'
            ) as error:
                attempt(data, data_dir)
            one_line(error)
    assert files_in(data_dir) == before

    third = prepare(data_config(name='files'), data_dir, True, str(other), progress=False)
    assert 'Queequeg' in text_of(third)['train']
    # What came from the first source is gone, also under the other fractions.
    with pytest.raises(DataError, match='is not prepared'):
        open_corpus(other_fractions, data_dir)
    shutil.rmtree(other)
    # The store does for a folder that is no longer there, but not for one that never was.
    assert open_corpus(data_config(name='files', path=str(other)), data_dir).fingerprint == third.fingerprint
    with pytest.raises(DataError, match='no such file or folder'):
        open_corpus(data_config(name='files', path=str(tmp_path / 'nowhere')), data_dir)


def test_a_source_that_changed_in_its_place_is_told(books, tmp_path, data_config):
    data = data_config(name='files', path=str(books))
    open_corpus(data, tmp_path / 'data')
    (books / 'a.txt').write_text('It was a bright morning. ' * 40)
    with pytest.raises(DataError, match='has changed since the corpus files was prepared'):
        open_corpus(data, tmp_path / 'data')


def test_a_damaged_store_is_mended_by_overwrite(books, tmp_path, data_config):
    data = data_config(name='files', path=str(books))
    corpus = open_corpus(data, tmp_path / 'data')
    path = next((tmp_path / 'data').rglob('train.tokens'))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    for attempt in (open_corpus, prepare):
        with pytest.raises(
            DataError, match=r'train.tokens is damaged .*prepare it again with python launch/prepare.py'
        ):
            attempt(data, tmp_path / 'data')
    assert prepare(data, tmp_path / 'data', overwrite=True, progress=False).fingerprint == corpus.fingerprint


def test_damaged_records_name_the_remedy(tiny_enwik8, tmp_path, data_config):
    (tmp_path / 'enwik8').write_bytes(tiny_enwik8)
    prepare(data_config(name='enwik8'), tmp_path / 'data', source=str(tmp_path / 'enwik8'), progress=False)
    next((tmp_path / 'data').rglob('*train.array_record*')).unlink()
    with pytest.raises(DataError, match=r'the records in .* are damaged .*--dataset=enwik8 .*--overwrite') as error:
        open_corpus(data_config(name='enwik8', convention='awd'), tmp_path / 'data')
    one_line(error)


@pytest.mark.parametrize('split', ['train', 'test'])
def test_killed_in_the_tokens_it_goes_on_with_the_unfinished_split(books, tmp_path, data_config, split):
    data_dir = tmp_path / 'data'
    _run_and_kill(f"""
def dying(documents):
    yield next(documents)
    os.kill(os.getpid(), signal.SIGKILL)
def killed(directory, split, documents, *rest, **options):
    write_split(directory, split, dying(documents) if split == {split!r} else documents, *rest, **options)
write_split, module.write_split = module.write_split, killed
""", books, data_dir)  # fmt: skip
    finished = ('train', 'validation', 'test')[: ('train', 'validation', 'test').index(split)]
    before = {name: next(data_dir.rglob(f'{name}.tokens')).stat().st_ino for name in finished}
    with pytest.raises(DataError, match='is not prepared'):
        open_corpus(data_config(name='files'), data_dir)
    (data_dir / 'files' / '.scratch' / 'enwik8.download.partial').touch()
    corpus = open_corpus(data_config(name='files', path=str(books)), data_dir)
    assert {name: next(data_dir.rglob(f'{name}.tokens')).stat().st_ino for name in finished} == before
    assert corpus.fingerprint == open_corpus(data_config(name='files', path=str(books)), tmp_path / 'new').fingerprint
    assert not list(data_dir.rglob('*.incomplete')) and not (data_dir / 'files' / '.scratch').exists()


def test_killed_in_the_records_it_starts_over(books, tmp_path, data_config):
    data_dir = tmp_path / 'data'
    _run_and_kill("""
from memjax.data.sources import SpanReader
read = SpanReader.read
def killed(self, span):
    if span.document == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(self, span)
SpanReader.read = killed
""", books, data_dir)  # fmt: skip
    assert list((data_dir / 'files').iterdir()) == [data_dir / 'files' / '.scratch']
    corpus = open_corpus(data_config(name='files', path=str(books)), data_dir)
    assert corpus.splits['train'].num_documents == 3
    assert not (data_dir / 'files' / '.scratch').exists()


def test_what_another_source_left_unfinished_is_not_used(books, tmp_path, data_config, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(prepare_module, 'write_meta', killed)
        prepare(data_config(name='files'), tmp_path / 'data', source=str(books), progress=False)
    assert len(list((tmp_path / 'data').rglob('*.incomplete/train.tokens'))) == 1
    (books / 'a.txt').write_text('It was a bright morning. ' * 40)
    data = data_config(name='files', path=str(books))
    with pytest.raises(DataError, match='has changed since'):
        prepare(data, tmp_path / 'data', progress=False)
    other_fractions = data_config(name='files', path=str(books), test_fraction=0.2)
    prepare(other_fractions, tmp_path / 'data', overwrite=True, progress=False)
    assert text_of(prepare(data, tmp_path / 'data', progress=False))['train'].startswith('It was a bright morning.')


def _run_and_kill(patch, books, data_dir):
    """Prepares `files` in a process that kills itself as `patch` says."""
    program = f"""
import os, signal, sys
from memjax.config import base_config
from memjax.data import prepare as module
{patch}
data = base_config().data
data.name, data.path = 'files', sys.argv[1]
module.prepare(data, sys.argv[2], progress=False)
"""
    result = subprocess.run((sys.executable, '-c', program, books, data_dir), check=False)
    assert result.returncode == -signal.SIGKILL


def test_a_remote_data_dir_gets_the_store_and_is_read_through_a_cache(books, tmp_path, data_config, monkeypatch):
    bucket = tmp_path / 'bucket'
    caches = iter(['cache_1', 'cache_1', 'cache_2', 'cache_3', 'cache_1', 'cache_4'])
    # A folder of this disk stands for a bucket; every step happens on the machine that has the cache of that name.
    monkeypatch.setattr('memjax.data.place.is_remote', lambda path: True)
    monkeypatch.setattr('memjax.data.place.local_directory', lambda path: tmp_path / next(caches))
    data = data_config(name='files')
    with pytest.raises(DataError, match=r'is not prepared in .*bucket'):
        open_corpus(data, bucket)
    first = prepare(data, bucket, source=str(books), progress=False)
    names = {path.name for path in bucket.rglob('*') if path.is_file()}
    assert names == {'meta.json', *(f'{s}.{k}' for s in ('train', 'validation', 'test') for k in ('tokens', 'offsets'))}
    fetched = open_corpus(data, bucket)
    assert fetched.fingerprint == first.fingerprint
    assert Path(fetched.splits['train'].tokens.filename).is_relative_to(tmp_path / 'cache_2')

    (books / 'b.txt').write_text('Call me Queequeg. ' * 40)
    with pytest.raises(DataError, match='prepare with --overwrite'):
        prepare(data, bucket, source=str(books), progress=False)
    monkeypatch.setattr('memjax.data.place.local_directory', lambda path: tmp_path / 'cache_3')
    second = prepare(data, bucket, True, str(books), progress=False)
    # The first machine sees that its cache is out of date.
    monkeypatch.setattr('memjax.data.place.local_directory', lambda path: tmp_path / 'cache_1')
    assert open_corpus(data, bucket).fingerprint == second.fingerprint != first.fingerprint


def test_only_addresses_with_a_scheme_are_remote():
    from etils import epath

    assert remote.is_remote(epath.Path('gs://bucket/data'))
    assert not remote.is_remote(epath.Path('/data'))
    assert remote.local_directory(epath.Path('/data')) == Path('/data')
    caches = {remote.local_directory(epath.Path(f'gs://bucket/{name}')) for name in ('a', 'a/', 'b')}
    assert len(caches) == 2 and all(cache.is_relative_to(Path.home()) for cache in caches)


def test_two_processes_that_prepare_at_once_wait_for_each_other(books, tmp_path):
    program = """
import sys
from memjax.config import base_config
from memjax.data.prepare import open_corpus
data = base_config().data
data.name, data.path = 'files', sys.argv[1]
print(open_corpus(data, sys.argv[2]).fingerprint)
"""
    command = (sys.executable, '-c', program, books, tmp_path / 'data')
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1] != ''
