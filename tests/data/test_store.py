"""The token store: what was written is what is read, or an error."""

from __future__ import annotations

import json

import numpy as np
import pytest

from memjax.data import store_writing
from memjax.data.store import open_store
from memjax.data.store_writing import WordCount, write_meta, write_split
from memjax.data.tokenizers import ByteTokenizer, SymbolTokenizer
from memjax.errors import DataError

TEXTS = {
    'train': [[b'one ', b'two'], [b''], [b'three\n']],
    'validation': [[b'four']],
    'test': [[b'f', b'i', b've six']],
}


class WideTokenizer(ByteTokenizer):
    """Ids above 255: every byte's value times some factor."""

    def __init__(self, factor):
        super().__init__()
        self.vocab_size = 256 * factor
        self._factor = factor

    def encode_pieces(self, pieces, is_open=False):
        return (ids.astype(np.int64) * self._factor for ids in super().encode_pieces(pieces))


def write(directory, tokenizer=None, count_words=True):
    tokenizer = tokenizer or ByteTokenizer()
    for split, documents in TEXTS.items():
        write_split(directory, split, documents, tokenizer, WordCount() if count_words else None)
    write_meta(directory, 'files', 'bytes', tokenizer, {'identity': 'abc', 'location': 'here'})


def reopen(directory):
    return open_store(directory, 'a licence', 'do this')


def test_what_was_written_is_read(tmp_path):
    write(tmp_path)
    corpus = reopen(tmp_path)
    train = corpus.splits['train']
    assert isinstance(train.tokens, np.memmap) and train.tokens.dtype == np.uint8
    assert corpus.tokenizer.decode(train.tokens) == 'one twothree\n'
    assert train.document_offsets.tolist() == [0, 7, 13]  # the empty document is left out
    assert (train.num_documents, train.num_targets, train.words, train.num_bytes) == (2, 11, 3, 13)
    assert [corpus.splits[split].num_targets for split in ('validation', 'test')] == [3, 7]
    assert (corpus.name, corpus.convention, corpus.licence, corpus.vocab_size) == ('files', 'bytes', 'a licence', 256)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        'meta.json',
        *(f'{split}.{kind}' for split in ('test', 'train', 'validation') for kind in ('offsets', 'tokens')),
    ]


@pytest.mark.parametrize(('factor', 'dtype'), [(1, np.uint8), (2, np.uint16), (256, np.uint16), (257, np.int32)])
def test_ids_are_stored_as_narrowly_as_they_fit(tmp_path, factor, dtype):
    write(tmp_path, WideTokenizer(factor))
    tokens = reopen(tmp_path).splits['validation'].tokens
    assert tokens.dtype == dtype
    assert tokens.tolist() == [byte * factor for byte in b'four']


def test_words_are_none_where_they_are_not_counted(tmp_path):
    write(tmp_path, count_words=False)
    assert reopen(tmp_path).splits['train'].words is None


def test_fingerprint_tells_other_tokens_and_other_tokenizers(tmp_path, monkeypatch):
    fingerprints = []
    letters = b'\n efhinorstuvwx'
    for i, (tokenizer, last) in enumerate(
        [(ByteTokenizer(), b'x'), (ByteTokenizer(), b'x'), (ByteTokenizer(), b'n'), (SymbolTokenizer(letters), b'x')]
    ):
        monkeypatch.setitem(TEXTS, 'test', [[b'fi', last]])
        (tmp_path / str(i)).mkdir()
        write(tmp_path / str(i), tokenizer)
        fingerprints.append(reopen(tmp_path / str(i)).fingerprint)
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints)) == 3


def test_one_flipped_bit_anywhere_is_told(tmp_path):
    write(tmp_path)
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        for position in range(0, len(content), 7):
            damaged = bytearray(content)
            damaged[position] ^= 1
            if path.name == 'meta.json' and chr(content[position]) in ' \n':
                continue  # white space between values says nothing
            path.write_bytes(damaged)
            with pytest.raises(DataError, match=r'; do this$') as caught:
                reopen(tmp_path)
            assert '\n' not in str(caught.value)
        path.write_bytes(content)
    assert reopen(tmp_path).splits['test'].words == 2


@pytest.mark.parametrize('name', ['meta.json', 'train.tokens', 'test.offsets'])
@pytest.mark.parametrize('damage', ['truncated', 'longer', 'empty', 'missing'])
def test_a_file_of_another_size_is_told(tmp_path, name, damage):
    write(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    path.unlink()
    if damage != 'missing':
        path.write_bytes({'truncated': content[:-1], 'longer': content + b'x', 'empty': b''}[damage])
    how = 'bytes instead of' if name != 'meta.json' and damage != 'missing' else ''
    with pytest.raises(DataError, match=f'{name}.*{how}.*; do this$'):
        reopen(tmp_path)


def test_another_format_is_told(tmp_path):
    write(tmp_path)
    meta = json.loads((tmp_path / 'meta.json').read_text())
    (tmp_path / 'meta.json').write_text(json.dumps({**meta, 'format': 99}))
    with pytest.raises(DataError, match='has format 99, this version reads 1; do this'):
        reopen(tmp_path)


def test_a_finished_split_is_not_written_again(tmp_path):
    write_split(tmp_path, 'train', TEXTS['train'], ByteTokenizer(), WordCount())
    before = (tmp_path / 'train.tokens').stat().st_ino
    write_split(tmp_path, 'train', iter(()), ByteTokenizer(), WordCount())
    assert (tmp_path / 'train.tokens').stat().st_ino == before


@pytest.mark.parametrize('fault', [KeyboardInterrupt, OSError, DataError])
def test_an_interrupted_split_leaves_nothing(tmp_path, fault):
    def documents():
        yield [b'some text']
        assert sorted(path.name for path in tmp_path.iterdir()) == ['train.offsets', 'train.tokens']
        raise fault

    with pytest.raises(fault):
        write_split(tmp_path, 'train', documents(), ByteTokenizer(), WordCount())
    assert not list(tmp_path.iterdir())


def test_a_summary_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def write_bytes(path, content):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(store_writing.atomic, 'write_bytes', write_bytes)
    with pytest.raises(OSError, match='No space'):
        write_split(tmp_path, 'train', TEXTS['train'], ByteTokenizer(), WordCount())
    assert not list(tmp_path.iterdir())


def test_a_split_without_text_is_refused(tmp_path):
    with pytest.raises(DataError, match='the split test holds no text'):
        write_split(tmp_path, 'test', [[b''], [b'']], ByteTokenizer(), WordCount())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('stopped_after', [1, 3, 4])
def test_a_split_that_was_stopped_goes_on_after_its_last_note(tmp_path, monkeypatch, stopped_after):
    texts = [[b'one ', b'two'], [b''], [b'three\nfour'], [b'five'], [b'six seven']]
    whole, stopped = tmp_path / 'whole', tmp_path / 'stopped'
    whole.mkdir()
    stopped.mkdir()
    write_split(whole, 'train', texts, ByteTokenizer(), WordCount('words and line ends', 11), 'whole')
    monkeypatch.setattr(store_writing, '_PART_BYTES', 6)  # a note after documents 0, 2 and, with 3, 4

    def documents():
        yield from texts[:stopped_after]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_split(stopped, 'train', documents(), ByteTokenizer(), WordCount('words and line ends'))
    assert (stopped / 'train.part.json').exists()
    # What a killed process has written beyond the note does not count.
    for kind in ('tokens', 'offsets'):
        with (stopped / f'train.{kind}').open('ab') as file:
            file.write(b'torn')
    tokenized = []

    class Watched(ByteTokenizer):
        def encode_pieces(self, pieces, is_open=False):
            pieces = list(pieces)
            tokenized.append(b''.join(pieces))
            return super().encode_pieces(pieces)

    write_split(stopped, 'train', texts, Watched(), WordCount('words and line ends', 11), 'whole')
    assert tokenized == [b''.join(pieces) for pieces in texts[1 if stopped_after < 3 else 3 :]]
    names = ['train.json', 'train.offsets', 'train.tokens']
    assert sorted(path.name for path in stopped.iterdir()) == names
    assert [(stopped / name).read_bytes() for name in names] == [(whole / name).read_bytes() for name in names]
    assert json.loads((whole / 'train.json').read_text())['words'] == 12  # 7 words, 5 line ends; 11 is too far off


def test_a_stopped_splits_file_that_was_cut_is_refused_and_begun_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(store_writing, '_PART_BYTES', 1)

    def documents():
        yield [b'one two three']
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_split(tmp_path, 'train', documents(), ByteTokenizer(), None)
    with (tmp_path / 'train.tokens').open('r+b') as file:
        file.truncate(5)
    texts = [[b'one two three'], [b'four']]
    with pytest.raises(DataError, match='shorter than when its writing was interrupted'):
        write_split(tmp_path, 'train', texts, ByteTokenizer(), None)
    write_split(tmp_path, 'train', texts, ByteTokenizer(), None)
    assert (tmp_path / 'train.tokens').read_bytes() == b'one two threefour'


def test_a_published_count_is_taken_if_it_is_near():
    count = WordCount(published=100)
    assert count.result(104) == {'words': 100, 'word_unit': 'words, the published count'}
    assert count.result(106) == {'words': 106, 'word_unit': 'words'}
    assert count.result(None) == {'words': None, 'word_unit': 'words'}


def test_a_split_without_words_is_refused_where_they_are_defined(tmp_path):
    with pytest.raises(DataError, match=r'^the split test holds no words$'):
        write_split(tmp_path, 'test', [[b' \n']], ByteTokenizer(), WordCount())
    assert not list(tmp_path.iterdir())
    write_split(tmp_path, 'test', [[b' \n']], ByteTokenizer(), None)
