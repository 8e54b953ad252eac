"""Counting words piece by piece."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memjax.data.word_count import WordCounter


def count(pieces_of_documents):
    counter = WordCounter()
    for pieces in pieces_of_documents:
        for piece in pieces:
            counter.add(piece)
        counter.end_document()
    return counter.words


@given(st.lists(st.text(alphabet='aé \n\u2003\x1c漢', max_size=12), max_size=4), st.integers(1, 5), st.integers(1, 5))
def test_pieces_do_not_change_the_count(documents, piece_bytes, slice_bytes):
    encoded = [document.encode() for document in documents]
    pieces = [[text[i : i + piece_bytes] for i in range(0, len(text), piece_bytes)] for text in encoded]
    expected = sum(len(document.split()) for document in documents)
    assert count(pieces) == expected
    counter = WordCounter()
    counter._SLICE_BYTES = slice_bytes
    for document in encoded:
        counter.add(document)
        counter.end_document()
    assert counter.words == expected


def test_a_text_that_is_not_utf8_has_no_words():
    assert count([[b'a b'], [b'c \xff d'], [b'e']]) is None
    assert count([['é'.encode()[:1]], ['é'.encode()[1:]]]) is None  # a character may not span documents
