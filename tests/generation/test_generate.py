"""Texts continued: strings in, pieces of strings out."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import memjax
from memjax.data.tokenizers import ByteTokenizer, SymbolTokenizer
from memjax.data.words import WordRules, count_words
from memjax.errors import ConfigError, DataError
from memjax.evaluation.loading import Run
from memjax.generation.generate import Piece, _tokens_of, generate, in_order

PROMPTS = ['a', 'the quick brown fox', 'naïve']


@pytest.fixture
def run(tiny_config):
    model = memjax.build_model(tiny_config.model)
    params = memjax.init_params(model, 8, jax.random.key(0))
    return Run(tiny_config, model, params, step=0, host={})


def texts(run, prompts=PROMPTS, tokenizer=None, **settings):
    rows = {}
    for piece in generate(run, tokenizer or ByteTokenizer(), prompts, **{'length': 40, **settings}):
        rows.setdefault(piece.row, []).append(piece)
    for pieces in rows.values():
        assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    return [''.join(piece.text for piece in rows[row]) for row in sorted(rows)]


def test_rows_stream_stop_by_themselves_and_follow_the_seed(run):
    whole = texts(run)
    assert whole == texts(run) != texts(run, seed=1)
    stop = whole[1][7:10]
    assert texts(run, stop=stop) == [text.partition(stop)[0] for text in whole]
    assert memjax.generate is generate


def test_samples_of_one_prompt_differ_and_pieces_of_a_text_are_the_text(run):
    pieces = (PROMPTS[1].encode()[begin : begin + 5] for begin in range(0, 19, 5))
    samples = texts(run, [pieces], num_samples=3)
    assert len(set(samples)) == 3
    assert samples == texts(run, PROMPTS[1:2], num_samples=3)


def test_what_cannot_be_continued_is_refused(run):
    for empty in ('', [], [b'', b'']):
        with pytest.raises(ConfigError, match='empty'):
            texts(run, ['a', empty])
    with pytest.raises(DataError, match="b'z'"):
        texts(run, ['abz'], SymbolTokenizer(b'abc'))
    for wrong in ({'length': 0}, {'num_samples': 0}, {'stop': ''}, {'top_p': 2.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            texts(run, **wrong)


def test_pieces_in_order():
    pieces = [Piece(1, 'c', False), Piece(0, 'a', False), Piece(1, 'd', True), Piece(0, 'b', True), Piece(2, 'e', True)]
    assert [piece.text for piece in in_order(pieces)] == list('abcde')


def test_a_prompt_of_words_begins_once_and_its_line_stays_open():
    def tokens(prompt, begins):
        tokenizer = count_words([[b'the dog the\n']], WordRules('<S>' if begins else '<eos>', begins=begins))
        return np.concatenate(list(_tokens_of(tokenizer, prompt))).tolist()

    assert tokens('the dog', begins=True) == [0, 1, 2]
    assert tokens('the dog', begins=False) == [1, 2]
    assert tokens('the\n', begins=False) == [1, 0]
    assert tokens([b'the d', b'og'], begins=True) == [0, 1, 2]
    assert tokens('', begins=True) == [0]
