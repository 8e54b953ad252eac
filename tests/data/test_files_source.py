"""A user's own folder of text."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax.data.files import files_source
from memjax.data.sources import CHUNK_BYTES, SPLITS, SpanReader
from memjax.errors import DataError


def documents_of(folder, validation=0.05, test=0.05):
    source = files_source(str(folder), validation, test)
    with SpanReader(source) as reader:
        return {split: [reader.read(span) for span in source.splits[split]] for split in SPLITS}


def write_split_folders(root, validation='validation'):
    for split, names in (('train', ('b', 'a')), (validation, ('v',)), ('test', ('t', 'sub/u'))):
        for name in names:
            path = root / split / f'{name}.txt'
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'text of {name}')


@pytest.mark.parametrize('validation', ['validation', 'valid'])
def test_split_folders(tmp_path, validation):
    write_split_folders(tmp_path, validation)
    (tmp_path / 'train' / 'empty.txt').touch()
    (tmp_path / 'train' / 'notes.md').write_text('not read')
    (tmp_path / 'readme.txt').write_text('not read')
    assert documents_of(tmp_path) == {
        'train': [b'text of a', b'text of b'],
        'validation': [b'text of v'],
        'test': [b'text of sub/u', b'text of t'],
    }


def test_a_flat_folder_is_cut_by_bytes_in_the_order_of_names(tmp_path):
    for name, text in (('b/z', b'2' * 50), ('a', b'1' * 40), ('c', b'3' * 10)):
        path = tmp_path / f'{name}.txt'
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
    assert documents_of(tmp_path, 0.3, 0.2) == {
        'train': [b'1' * 40, b'2' * 10],
        'validation': [b'2' * 30],
        'test': [b'2' * 10, b'3' * 10],
    }


def test_a_single_file(tmp_path):
    (tmp_path / 'book.txt').write_bytes(b'x' * 100)
    assert {split: len(b''.join(texts)) for split, texts in documents_of(tmp_path / 'book.txt', 0.1, 0.1).items()} == {
        'train': 80,
        'validation': 10,
        'test': 10,
    }


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet='aé漢🙂', min_size=30, max_size=60), st.integers(1, 45), st.integers(1, 45))
def test_no_cut_falls_within_a_character(tmp_path_factory, text, validation, test):
    folder = tmp_path_factory.mktemp('flat')
    (folder / 'a.txt').write_text(text[:20], encoding='utf-8')
    (folder / 'b.txt').write_text(text[20:], encoding='utf-8')
    try:
        texts = documents_of(folder, validation / 100, test / 100)
    except DataError as error:
        assert 'has no text for' in str(error)  # a share of less than a character
    else:
        assert ''.join(document.decode() for split in SPLITS for document in texts[split]) == text
    finally:
        shutil.rmtree(folder)


def test_the_same_text_elsewhere_has_the_same_identity_and_any_change_another(tmp_path):
    write_split_folders(tmp_path / 'one')
    write_split_folders(tmp_path / 'two')
    identity = files_source(str(tmp_path / 'one'), 0.1, 0.1).identity
    assert files_source(str(tmp_path / 'two'), 0.1, 0.1).identity == identity
    seen = {identity}
    path = tmp_path / 'two' / 'test' / 't.txt'
    path.write_text('text of T')
    seen.add(files_source(str(tmp_path / 'two'), 0.1, 0.1).identity)
    path.write_text('text of t')
    path.rename(path.with_name('t2.txt'))
    seen.add(files_source(str(tmp_path / 'two'), 0.1, 0.1).identity)
    assert len(seen) == 3


@pytest.mark.parametrize(
    ('content', 'position'),
    [
        (b'abc\xff', '3'),
        (b'x' * (CHUNK_BYTES - 1) + b'\xc3(', f'{CHUNK_BYTES - 1:,}'),  # begins before a chunk's end, fails after it
        (b'abc\xe6\xbc', '3'),  # ends within a character
    ],
)
def test_a_file_that_is_not_utf8_is_named(tmp_path, content, position):
    (tmp_path / 'good.txt').write_text('good')
    (tmp_path / 'latin.txt').write_bytes(content)
    with pytest.raises(DataError, match=rf'latin\.txt is not UTF-8: .* at byte {position}$'):
        documents_of(tmp_path)


def test_characters_across_chunks_are_valid(tmp_path):
    (tmp_path / 'a.txt').write_bytes(b'x' * (CHUNK_BYTES - 1) + 'é'.encode() * 10)
    assert len(b''.join(documents_of(tmp_path)['train'])) > 0


def test_folders_that_cannot_be_used(tmp_path):
    def refused(match, validation=0.1, test=0.1):
        with pytest.raises(DataError, match=match) as caught:
            documents_of(tmp_path / 'f', validation, test)
        assert '\n' not in str(caught.value)

    refused('no such file or folder')
    (tmp_path / 'f').mkdir()
    refused('holds no .txt file')
    (tmp_path / 'f' / 'a.txt').touch()
    refused('has no text for train')
    (tmp_path / 'f' / 'a.txt').write_text('ab')
    refused('has no text for validation')
    for validation, test in ((0.0, 0.1), (0.1, -0.1), (0.5, 0.5)):
        refused('cannot be cut into', validation, test)
    (tmp_path / 'f' / 'test').mkdir()
    refused('has the split folders test but no train, validation')
    write_split_folders(tmp_path / 'f')
    (tmp_path / 'f' / 'validation' / 'v.txt').write_text('')
    refused('as its folders say, has no text for validation')
    (tmp_path / 'f' / 'validation' / 'v.txt').unlink()
    refused('validation holds no .txt file')
    (tmp_path / 'f' / 'valid').mkdir()
    refused('has both validation and valid')
