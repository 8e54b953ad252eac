"""The made-up corpus: every question can be answered, at the distances that it names, and nothing gives it away."""

from __future__ import annotations

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
    text = b'abA\x87cccB\x88dddA\x87eB\x88fA\x87'
    assert list(questions(text)) == [Question(13, 10), Question(16, 8), Question(19, 6)]
    for text in DOCUMENTS:
        for question in questions(text):
            place, before = question.place, question.place - question.distance
            assert text[place - 1 : place + 1] == text[before - 1 : before + 1]
            # It does not come in between.
            assert text[before + 1 : place - 1].find(text[place - 1 : place]) == -1


def test_a_key_has_one_value():
    with pytest.raises(ValueError, match='not what was stored'):
        list(questions(b'abA\x87ccA\x86'))


def test_a_document_is_pairs_and_noise_and_a_value_names_its_key():
    for text in DOCUMENTS:
        pairs = re.findall(rb'([A-P])([\x80-\xff])', text)
        assert all((value[0] - 128) // 8 == key[0] - ord('A') for key, value in pairs)
        noise = re.sub(rb'[A-P][\x80-\xff]', b'', text)
        assert not re.search(rb'[^a-h]', noise)
        assert 0.7 < len(noise) / len(text) < 0.95


def test_distances_are_even_in_their_logarithm_and_values_even():
    asked = [(question.distance, text[question.place]) for text in DOCUMENTS for question in questions(text)]
    assert len(asked) > 90 * len(DOCUMENTS)
    distances, values = map(np.array, zip(*asked, strict=True))
    assert distances.min() >= SMALLEST_DISTANCE and distances.max() <= LARGEST_DISTANCE
    octaves = np.bincount(np.log2(distances / SMALLEST_DISTANCE).astype(int))[:7] / len(distances)
    # A document's end leaves less room for the farthest.
    assert (np.abs(octaves[:6] - 1 / 7) < 0.03).all() and octaves[6] > 0.08
    assert (np.abs(np.bincount(values % 8) / len(values) - 1 / 8) < 0.02).all()


def test_splits_are_whole_documents(monkeypatch):
    monkeypatch.setattr(needle, 'NUM_DOCUMENTS', 40)
    source = needle.needle_source()
    assert {name: len(spans) for name, spans in source.splits.items()} == {'train': 36, 'validation': 2, 'test': 2}
    assert all(span.stop - span.start == DOCUMENT_LENGTH for spans in source.splits.values() for span in spans)
    with source.open_document(3) as file:
        assert file.read() == DOCUMENTS[3]
