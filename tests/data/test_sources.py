"""Cutting documents into splits."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memjax.data.sources import SPLITS, Source, Span, SpanReader, cut, cut_points


@given(st.lists(st.binary(max_size=9), max_size=8), st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_cut_keeps_every_byte_in_order_and_no_empty_span(documents, shares):
    whole = b''.join(documents)
    points = tuple(sorted(int(share * len(whole)) for share in shares))
    splits = cut([len(document) for document in documents], points)
    texts = {name: [documents[s.document][s.start : s.stop] for s in splits[name]] for name in SPLITS}
    assert all(all(spans) for spans in texts.values())
    first, second = points
    assert [b''.join(texts[name]) for name in SPLITS] == [whole[:first], whole[first:second], whole[second:]]


def test_a_cut_document_becomes_two():
    splits = cut([10, 10], (15, 18))
    assert splits == {
        'train': (Span(0, 0, 10), Span(1, 0, 5)),
        'validation': (Span(1, 5, 8),),
        'test': (Span(1, 8, 10),),
    }


@pytest.mark.parametrize('total', [100, 4_139_441, 100_000_000])
def test_cut_points_take_fractions_as_decimals(total):
    # In binary floating point 1 - 0.1 - 0.2 is below 0.7, which would put the cut a byte early.
    assert cut_points(total, 0.1, 0.2) == (total * 7 // 10, total * 8 // 10)
    assert cut_points(total, 0.05, 0.05) == (total * 90 // 100, total * 95 // 100)


def test_reader_opens_a_document_once_for_spans_in_order():
    opened = []

    def open_document(document):
        opened.append(document)
        return io.BytesIO(bytes([document]) * 10)

    source = Source('', '', '', {}, open_document)
    with SpanReader(source) as reader:
        spans = [Span(0, 0, 4), Span(0, 4, 10), Span(1, 2, 10), Span(1, 10, 12)]
        assert [reader.read(span) for span in spans] == [b'\0' * 4, b'\0' * 6, b'\1' * 8, b'']
    assert opened == [0, 1]
