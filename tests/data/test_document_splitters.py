"""Finding documents in files."""

from __future__ import annotations

import pytest

from memjax.data.documents import articles, json_text, json_texts, lines, sentences, whole_file
from memjax.errors import DataError

WIKI = b' \n = First = \n \n A = b = c . \n \n = = Section = = \n \n text \n \n = Second (film) = \n \n more \n'


def documents(splitter, text, size):
    return [b''.join(pieces) for pieces in splitter(text[i : i + size] for i in range(0, len(text), size))]


@pytest.mark.parametrize('size', [1, 3, 100])
def test_wherever_a_file_is_cut(size):
    assert documents(whole_file, WIKI, size) == [WIKI]
    second = WIKI.index(b' = Second')
    assert documents(articles, WIKI, size) == [WIKI[:second], WIKI[second:]]
    assert documents(sentences, b'a b\n\nc\n \nd', size) == [b'a b\n', b'c\n', b'd']
    assert documents(json_texts, b'{"text": "a\\n"}\n\n{"x": 1, "text": ""}\n{"text": "\\u00e9"}', size) == [
        b'a\n',
        b'',
        'é'.encode(),
    ]
    assert list(lines([b'', b'a', b'\n', b'b\nc'])) == [b'a\n', b'b\n', b'c']


def test_a_title_needs_an_empty_line_before_it():
    assert len(documents(articles, b' = A = \n \n x \n = B = \n', 100)) == 1
    assert documents(articles, b'no title \n', 100) == [b'no title \n']


def test_half_a_surrogate_pair_is_no_text():
    assert json_text(b'{"text": "a\\ud83d"}', 1) == 'a\ufffd'.encode()
    assert json_text(b'{"text": "\\ud83d\\ude42"}', 1) == '🙂'.encode()


@pytest.mark.parametrize(
    'line', [b'{"text": "a"', b'["text"]', b'{"txt": "a"}', b'{"text": 3}', b'\xff', b'[' * 100_000]
)
def test_a_line_that_is_no_object_with_text_is_told_by_its_number(line):
    with pytest.raises(DataError, match=r'^line 2 is not a JSON object'):
        documents(json_texts, b'{"text": "a"}\n' + line + b'\n', 7)
