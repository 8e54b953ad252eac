"""PG-19's folders: whole or a subset, and what a word is then."""

from __future__ import annotations

import pytest

from memjax.data import pg19
from memjax.data.pg19 import pg19_source
from memjax.data.prepare import open_corpus, prepare
from memjax.errors import DataError

BOOK = 'It was a dark and stormy night.\n\nThe rain fell in torrents.\n'  # 12 words


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / 'pg19'
    for split, numbers in (('train', (10, 9, 101)), ('validation', (5,)), ('test', (7, 8))):
        (root / split).mkdir(parents=True)
        for number in numbers:
            (root / split / f'{number}.txt').write_text(BOOK * 3)
    (root / 'metadata.csv').write_text('9,A Book,1900,http://example.org\n')
    return root


def test_the_published_counts():
    assert pg19.BOOKS == {'train': 28_602, 'validation': 50, 'test': 100}
    assert pg19.WORDS == {'train': 1_973_136_207, 'validation': 3_007_061, 'test': 6_966_499}


def test_a_subset_counts_its_words_and_says_so(folder, tmp_path, data_config):
    corpus = open_corpus(data_config(name='pg19', path=str(folder)), tmp_path / 'data')
    test = corpus.splits['test']
    assert (test.num_documents, test.words, test.word_unit) == (2, 72, 'words')
    assert test.note == 'a subset of 2 of 100 books'
    assert corpus.splits['train'].note == 'a subset of 3 of 28,602 books'


def test_more_books_than_there_are_is_no_subset(folder, monkeypatch):
    monkeypatch.setitem(pg19.BOOKS, 'test', 1)
    source = pg19.pg19_source(str(folder), progress=False)
    assert source.notes['test'] == '2 books, more than the 1 that are published'
    assert 'test' not in source.published_words


def test_all_books_of_a_split_take_the_published_count(folder, tmp_path, data_config, monkeypatch):
    monkeypatch.setitem(pg19.BOOKS, 'test', 2)
    monkeypatch.setitem(pg19.BOOKS, 'validation', 1)
    monkeypatch.setitem(pg19.WORDS, 'test', 74)
    corpus = prepare(data_config(name='pg19'), tmp_path / 'data', source=str(folder), progress=False)
    test, validation = corpus.splits['test'], corpus.splits['validation']
    assert (test.words, test.word_unit, test.note) == (74, 'words, the published count', 'whole')
    # As many files as there are books, but by far not their words.
    assert (validation.words, validation.word_unit, validation.note) == (36, 'words', 'whole')


def test_what_cannot_be_read_is_one_line(folder, tmp_path):
    def refused(location):
        with pytest.raises(DataError) as caught:
            pg19_source(location, progress=False)
        assert '\n' not in str(caught.value)
        return str(caught.value)

    assert 'has to be brought' in refused(None)
    assert refused(str(tmp_path / 'nowhere')).startswith('no such folder')
    assert 'none of the split folders' in refused(str(folder / 'train'))
    (folder / 'test' / '8.txt').write_bytes(b'caf\xe9 noir')
    assert 'test/8.txt is not UTF-8: invalid continuation byte at byte 3' in refused(str(folder))
    for path in (folder / 'test').iterdir():
        path.unlink()
    assert 'test holds no .txt file' in refused(str(folder))
    (folder / 'test').rmdir()
    assert refused(str(folder)).endswith('has the split folders train, validation but no test')


def test_a_split_without_words_is_refused(folder):
    for path in (folder / 'test').iterdir():
        path.write_text(' \n\n ')
    with pytest.raises(DataError, match='as its folders say, has no words for test'):
        pg19_source(str(folder), progress=False)
