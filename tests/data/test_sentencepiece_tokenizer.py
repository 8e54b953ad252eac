"""Subwords: exact round trip, the same ids wherever a text is cut, one line for what cannot be learned."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memjax.data import sentencepieces
from memjax.data.sentencepieces import train_sentencepiece, units
from memjax.data.tokenizers import tokenizer_from_json
from memjax.errors import DataError

ODD = 'ab \n\t\r\u2581\u3000\u00a0\u0301é漢🙂\x00<>0x0A_'


def corpus():
    generator = random.Random(0)
    words = [''.join(generator.choices('abcdefgh', k=generator.randint(1, 5))) for _ in range(60)]
    return [[('  '.join(generator.choices(words, k=8)) + '.\n').encode() * 4] for _ in range(30)]


@pytest.fixture(scope='module')
def tokenizer():
    return train_sentencepiece(corpus(), 10_000, 300)


def ids_of(tokenizer, text, size):
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    return np.concatenate([np.zeros(0, np.int32), *tokenizer.encode_pieces(pieces)]).tolist()


@given(text=st.text(st.characters(codec='utf-8') | st.sampled_from(ODD), max_size=40))
@example('\u2581 \u2581<unk><0x0A>\n\n  \n ')
@example(' leading, trailing ')
def test_every_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids.dtype == np.int32
    assert ids_of(tokenizer, text.encode(), 3) == ids.tolist()
    assert not len(ids) or (ids.min() > 0 and ids.max() < tokenizer.vocab_size)  # 0 stands for nothing


def test_words_of_the_text_are_few_symbols_and_a_newline_is_one(tokenizer):
    text = corpus()[0][0].decode()
    assert len(tokenizer.encode(text)) < 0.6 * len(text)
    assert len(tokenizer.encode('\n\n')) == 2
    assert tokenizer.vocab_size == 300


def test_bytes_that_are_no_text_come_back_as_bytes(tokenizer):
    ids = tokenizer.encode(b'a\xffb'.decode(errors='surrogateescape'))
    assert tokenizer.decode(ids) == 'a\ufffdb'
    assert ids_of(tokenizer, b'a\xffb', 2) == ids.tolist()
    assert tokenizer.decode([-1, 300]) == '\ufffd\ufffd'


@given(st.lists(st.text('ab \né', max_size=9), max_size=20), st.integers(1, 30))
def test_units_do_not_depend_on_where_pieces_are_cut(parts, size):
    text = ''.join(parts).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentencepieces, '_UNIT_BYTES', 8)
        whole = list(units([text]))
        assert list(units(text[i : i + size] for i in range(0, len(text), size))) == whole
        assert b''.join(whole) == text
        for unit in whole:
            unit.decode()  # no cut falls within a character
            assert 0 < len(unit) <= 8


def test_where_units_end(monkeypatch):
    monkeypatch.setattr(sentencepieces, '_UNIT_BYTES', 8)
    assert list(units([b'ab\ncd\nefgh'])) == [b'ab\ncd\n', b'efgh']  # after the last newline
    assert list(units([b'abc de fghi'])) == [b'abc de', b' fghi']  # before the last space
    assert list(units(['abcdefgé'.encode()])) == [b'abcdefg', 'é'.encode()]  # before a character


def test_the_same_text_gives_the_same_vocabulary_and_json_keeps_it(tokenizer):
    assert train_sentencepiece(corpus(), 10_000, 300).fingerprint == tokenizer.fingerprint
    again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode('abc é').tolist() == tokenizer.encode('abc é').tolist()
    assert train_sentencepiece(corpus()[:20], 10_000, 300).fingerprint != tokenizer.fingerprint


def test_a_large_text_is_learned_from_in_part():
    documents = [[bytes([97 + i]) * 10] for i in range(20)]
    assert ''.join(sentencepieces._sample(documents, Fraction(1, 4))) == ''.join(letter * 10 for letter in 'dhlpt')
    assert len(list(sentencepieces._sample(documents, Fraction(1)))) == 20


def test_what_cannot_be_learned_is_one_line():
    def refused(documents, vocab_size):
        with pytest.raises(DataError) as caught:
            train_sentencepiece(documents, 1000, vocab_size)
        assert '\n' not in str(caught.value)
        return str(caught.value)

    message = refused(corpus(), 5000)
    assert message.startswith('the training text is too small for data.sentencepiece_vocab_size=5,000')
    largest = int(message.rpartition(' ')[2].replace(',', ''))
    assert train_sentencepiece(corpus(), 1000, largest).vocab_size == largest
    assert 'is too small for the characters' in refused(corpus(), 200)
    for empty in ([], [[b'']], [[b' \n ']]):
        assert refused(empty, 300) == 'the training text holds no words'
