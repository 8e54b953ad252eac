"""The made-up corpus: every question can be answered, at the distances that it names, and nothing gives it away."""

from __future__ import annotations

import collections
import re

import numpy as np
import pytest

from memjax.data import needle
from memjax.data.needle import DOCUMENT_LENGTH, LARGEST_DISTANCE, SMALLEST_DISTANCE, Question, document, questions

DOCUMENTS = [document(number) for number in range(150)]


def test_a_document_is_always_the_same_and_no_two_are():
    assert document(7) == DOCUMENTS[7]
    assert len(set(DOCUMENTS)) == len(DOCUMENTS)
    assert {len(text) for text in DOCUMENTS} == {DOCUMENT_LENGTH}


def test_questions_name_the_place_and_the_distance_of_their_value():
    text = b'ab=K7cc=L3dd?K7e?L3'
    assert list(questions(text)) == [Question(place=14, distance=10), Question(place=18, distance=9)]
    for text in DOCUMENTS:
        for question in questions(text):
            assert text[question.place] == text[question.place - question.distance]
            assert text[question.place - 1] == text[question.place - question.distance - 1]


def test_what_was_never_stored_cannot_be_asked_for():
    for text in (b'ab?K7', b'?K7=K7'):
        with pytest.raises(ValueError, match='never stored'):
            list(questions(text))


def test_items_are_whole_and_a_key_is_used_by_one_pair_only():
    for text in DOCUMENTS:
        items = re.findall(rb'([=?])([A-Z])(\d)', text)
        noise = re.sub(rb'[=?][A-Z]\d', b'', text)
        assert not re.search(rb'[^a-h]', noise)
        by_key = collections.defaultdict(list)
        for mark, key, value in items:
            by_key[key].append((mark, value))
        for pair in by_key.values():
            assert [mark for mark, _ in pair] == [b'=', b'?']
            assert pair[0][1] == pair[1][1]


def test_distances_are_even_in_their_logarithm_and_values_even():
    asked = [(question.distance, text[question.place]) for text in DOCUMENTS for question in questions(text)]
    assert len(asked) > 18 * len(DOCUMENTS)
    distances, values = map(np.array, zip(*asked, strict=True))
    assert distances.min() >= SMALLEST_DISTANCE and distances.max() <= LARGEST_DISTANCE
    octaves = np.bincount(np.log2(distances / SMALLEST_DISTANCE).astype(int))[:7] / len(distances)
    assert (np.abs(octaves - 1 / 7) < 0.03).all()
    assert (np.abs(np.unique(values, return_counts=True)[1] / len(values) - 0.1) < 0.02).all()


def test_splits_are_whole_documents(monkeypatch):
    monkeypatch.setattr(needle, 'NUM_DOCUMENTS', 40)
    source = needle.needle_source()
    assert {name: len(spans) for name, spans in source.splits.items()} == {'train': 36, 'validation': 2, 'test': 2}
    assert all(span.stop - span.start == DOCUMENT_LENGTH for spans in source.splits.values() for span in spans)
    with source.open_document(3) as file:
        assert file.read() == DOCUMENTS[3]
