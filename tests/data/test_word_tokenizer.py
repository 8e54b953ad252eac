"""Words as symbols."""

from __future__ import annotations

import collections
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memjax.data.tokenizers import tokenizer_from_json
from memjax.data.word_count import WordCounter
from memjax.data.words import WordRules, count_words
from memjax.errors import DataError

TEXT = b' the cat saw the dog \n \n a dog'
SENTENCES = WordRules(end='<S>', unknown='<UNK>', begins=True, min_count=2)


def pieces_of(text, size):
    return [text[i : i + size] for i in range(0, len(text), size)]


def ids_of(tokenizer, text, size=1000):
    return np.concatenate([np.zeros(0, np.int32), *tokenizer.encode_pieces(pieces_of(text, size))]).tolist()


def test_ids_fall_with_the_count_and_ties_keep_the_order_of_the_text():
    tokenizer = count_words([[TEXT]], WordRules())
    # <eos> of three lines, the last of which has no newline; the, dog: 2; cat, saw, a: 1.
    assert tokenizer.decode(np.arange(6)) == '\nthe dog cat saw a'
    assert tokenizer.counts.tolist() == [3, 2, 2, 1, 1, 1]
    assert ids_of(tokenizer, TEXT) == [1, 3, 4, 1, 2, 0, 0, 5, 2, 0]
    assert tokenizer.encode(' a dog \n the').tolist() == [5, 2, 0, 1]  # a prompt's line is left open
    assert tokenizer.decode([1, 3, 0, 5, 99]) == 'the cat\na \ufffd'
    assert (tokenizer.vocab_size, tokenizer.bos_id) == (6, None)


@given(st.text('ab \n\u3000é', max_size=40), st.integers(1, 6))
def test_it_numbers_words_as_a_counter_does_and_pieces_may_be_cut_anywhere(text, size):
    reference = collections.Counter()
    lines = text.split('\n')
    lines = lines if lines[-1] else lines[:-1]
    for line in lines:
        reference.update(line.split())
    if not reference:
        return
    tokenizer = count_words([pieces_of(text.encode(), size)], WordRules())
    order = ['<eos>'] + [word for word, _ in reference.most_common()]
    assert tokenizer.to_json()['words'].split(' ') == order
    expected = [order.index(word) for line in lines for word in [*line.split(), '<eos>']]
    assert ids_of(tokenizer, text.encode(), size) == expected
    assert np.bincount(expected, minlength=len(order)).tolist() == tokenizer.counts.tolist()
    counter = WordCounter(line_ends=True)
    for piece in pieces_of(text.encode(), size):
        counter.add(piece)
    counter.end_document()
    assert counter.words == len(expected)


def test_sentences_begin_with_a_symbol_so_that_every_word_is_a_target():
    tokenizer = count_words([[b'the cat sat\n'], [b'the cat ran\n'], [b'the dog\n']], SENTENCES)
    # <S>, then <UNK> for sat, ran and dog, then the words that occur twice.
    assert tokenizer.to_json()['words'] == '<S> <UNK> the cat'
    assert tokenizer.counts.tolist() == [3, 3, 3, 2]
    assert tokenizer.bos_id == 0
    assert ids_of(tokenizer, b'the new cat\n') == [0, 2, 1, 3, 0]
    assert ids_of(tokenizer, b'the\ncat\n', 3) == [0, 2, 0, 3, 0]  # a stream has one between two sentences
    assert tokenizer.encode('the').tolist() == [0, 2]
    assert ids_of(tokenizer, b'') == []


def test_a_text_that_has_the_unknown_symbol_already():
    tokenizer = count_words([[b'<UNK> a a b <UNK> <UNK> <UNK> <S>\n']], SENTENCES)
    assert tokenizer.to_json()['words'] == '<S> <UNK> a'
    assert tokenizer.counts.tolist() == [2, 5, 2]


def test_unknown_words_need_their_symbol():
    with pytest.raises(DataError, match=r"the word 'bird' does not occur .*<unk>") as caught:
        ids_of(count_words([[TEXT]], WordRules()), b'the bird')
    assert '\n' not in str(caught.value)
    with_unknown = count_words([[TEXT + b' <unk>']], WordRules())
    assert ids_of(with_unknown, b'the bird') == [1, with_unknown.to_json()['words'].split().index('<unk>'), 0]


@pytest.mark.parametrize('text', [b'', b' \n \n', b'<eos>\n'])
def test_a_text_without_words_is_refused(text):
    with pytest.raises(DataError, match=r'^the training text holds no words$'):
        count_words([[text]], WordRules())


def test_a_text_that_is_not_utf8_is_refused():
    with pytest.raises(DataError, match='not UTF-8'):
        count_words([[b'a \xff b']], WordRules())


def test_json_round_trip_and_what_the_fingerprint_is_of():
    tokenizer = count_words([[TEXT]], WordRules())
    again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert again.fingerprint == tokenizer.fingerprint
    assert again.counts.tolist() == tokenizer.counts.tolist()
    assert ids_of(again, TEXT) == ids_of(tokenizer, TEXT)
    # The same words in the same order are the same vocabulary, however often they occur.
    assert count_words([[TEXT + b' \n \n the']], WordRules()).fingerprint == tokenizer.fingerprint
    others = [count_words([[TEXT + b' dog dog']], WordRules()), count_words([[TEXT]], WordRules(begins=True))]
    assert len({other.fingerprint for other in [tokenizer, *others]}) == 3
