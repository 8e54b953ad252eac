"""Text to ids and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memjax.data.tokenizers import ByteTokenizer, SymbolTokenizer, make_tokenizer, tokenizer_from_json
from memjax.errors import DataError

UTF8 = st.text(st.characters(codec='utf-8'), max_size=30)


def pieces_of(text, size):
    return [text[i : i + size] for i in range(0, len(text), size)]


@given(UTF8)
def test_bytes_round_trip(text):
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text)
    assert ids.tolist() == list(text.encode())
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids.tolist()) == text


@given(UTF8, UTF8)
def test_symbols_round_trip(corpus, text):
    known = set(corpus.encode())
    for convention in ('awd', 'txl'):
        tokenizer = make_tokenizer(convention, pieces_of(corpus.encode(), 3))
        dropped = set(b'\n') if convention == 'txl' else set()
        assert tokenizer.vocab_size == len(known - dropped)
        own = tokenizer.encode(corpus)
        # Every symbol has an id, the ids are 0 .. vocab_size - 1, and their order is that of the bytes.
        assert set(own.tolist()) == set(range(tokenizer.vocab_size))
        kept = bytes(byte for byte in corpus.encode() if byte not in dropped)
        assert np.array_equal(own, np.searchsorted(sorted(known - dropped), list(kept)))
        assert tokenizer.decode(own) == kept.decode()
        if set(text.encode()) - known - dropped:
            with pytest.raises(DataError, match='none of the'):
                tokenizer.encode(text)


@given(st.binary(max_size=40), st.integers(1, 7), st.sampled_from(['bytes', 'txl', 'awd']))
def test_pieces_may_be_cut_anywhere(text, size, convention):
    tokenizer = make_tokenizer(convention, [text])
    whole = next(iter(tokenizer.encode_pieces([text])))
    pieces = list(tokenizer.encode_pieces(pieces_of(text, size)))
    assert np.array_equal(np.concatenate([whole[:0], *pieces]), whole)


@pytest.mark.parametrize('tokenizer', [ByteTokenizer(), SymbolTokenizer(b'ab\n', b'\n'), SymbolTokenizer(b'ab\n')])
def test_json_round_trip_keeps_the_fingerprint(tokenizer):
    again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode('ab').tolist() == tokenizer.encode('ab').tolist()
    assert again.bos_id is None


def test_fingerprints_differ_with_what_ids_mean():
    tokenizers = [ByteTokenizer(), SymbolTokenizer(b'ab\n', b'\n'), SymbolTokenizer(b'ab\n'), SymbolTokenizer(b'abc\n')]
    assert len({tokenizer.fingerprint for tokenizer in tokenizers}) == len(tokenizers)


def test_invalid_utf8_and_ids_outside_the_vocabulary_decode_to_the_replacement_character():
    assert ByteTokenizer().decode([97, 0xC3, 98, 300, -1]) == 'a\ufffdb\ufffd\ufffd'
    assert SymbolTokenizer(b'ab').decode([1, 2, 0, -1]) == 'b\ufffda\ufffd'
    assert SymbolTokenizer(b'ab').decode([]) == ''


def test_a_shell_argument_that_is_not_utf8_keeps_its_bytes():
    assert ByteTokenizer().encode(b'a\xff'.decode(errors='surrogateescape')).tolist() == [97, 255]


def test_the_newline_is_a_symbol_of_awd_and_dropped_by_txl():
    texts = [b'b\na', b'c\n']
    awd, txl = make_tokenizer('awd', texts), make_tokenizer('txl', texts)
    assert awd.encode('a\nb').tolist() == [1, 0, 2]
    assert txl.encode('a\nb').tolist() == [0, 1]
    assert awd.decode([1, 0, 2]) == 'a\nb'
