from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.errors import DataError
from memjax.evaluation.beginning import beginning_of, target_tokens
from memjax.evaluation.documents import analyze_documents, bootstrap, document_sums
from memjax.evaluation.loading import load_run


@pytest.fixture
def texts(text_folder):
    """The test split's documents in order."""
    return [path.read_text() for path in sorted((text_folder / 'test').iterdir())]


def test_documents_add_up_to_the_whole(tiny_config, data_dir, finished, texts):
    workdir = finished(tiny_config, data_dir)
    found = analyze_documents(workdir, data_dir, load_run(workdir).config, 'test', resamples=50)
    alone = json.loads((workdir / 'eval' / 'test.json').read_text())
    assert {*alone} - {'compressors'} <= {*found}
    for unit in ('nll_nats', 'targets', 'words', 'bytes'):
        assert found['pooled'][unit] == sum(document[unit] for document in found['by_document'])
    assert found['pooled']['nll_nats'] == found['nll_nats'] == pytest.approx(alone['nll_nats'], rel=1e-6)
    assert (found['pooled']['words'], found['words_factor']) == (alone['words'], 1)
    assert found['pooled']['bpc'] == pytest.approx(alone['bpc'], rel=1e-6)
    assert [document['bytes'] for document in found['by_document']] == [len(text) for text in texts]
    assert [document['words'] for document in found['by_document']] == [len(text.split()) for text in texts]
    first = found['by_document'][0]
    assert first['bits_per_byte'] == pytest.approx(first['nll_nats'] / first['bytes'] / math.log(2))
    assert first['token_perplexity'] == pytest.approx(math.exp(first['nll_nats'] / first['targets']))
    assert found['by_document'][1]['token_perplexity'] is None  # one symbol, which is no target
    for measure, (low, high) in found['intervals'].items():
        if low is not None:
            assert low <= found['pooled'][measure] <= high
    assert json.loads((workdir / 'eval' / 'documents_test.json').read_text()) == found
    assert (workdir / 'eval' / 'documents_test.png').read_bytes().startswith(b'\x89PNG')


def test_a_beginning_counts_what_it_holds(tiny_config, data_dir, texts):
    corpus = open_corpus(tiny_config.data, data_dir)
    whole = corpus.splits['test']
    found, factor = document_sums(corpus, whole, beginning_of(whole, 250), np.ones(250, np.float32))
    cut = texts[2][: 250 - 206 + 1]
    assert found['targets'].tolist() == found['nll_nats'].tolist() == [206, 0, 44]
    assert found['words'].tolist() == [len(texts[0].split()), 1, len(cut.split())]
    assert found['bytes'].tolist() == [207, 1, 45]
    assert factor == 1


def test_words_are_those_that_were_counted_when_the_text_was_prepared(tiny_config, data_dir):
    corpus = open_corpus(tiny_config.data, data_dir)
    whole = corpus.splits['test']
    published = dataclasses.replace(whole, words=2 * whole.words)
    found, factor = document_sums(corpus, published, published, np.ones(285, np.float32))
    assert (found['words'].sum(), factor) == (2 * whole.words, 2)
    found, factor = document_sums(corpus, dataclasses.replace(whole, words=None), whole, np.ones(285, np.float32))
    assert (found['words'], factor) == (None, None)


def test_where_line_ends_are_words_documents_count_them_too(tiny_config, data_dir):
    corpus = open_corpus(tiny_config.data, data_dir)
    whole = dataclasses.replace(corpus.splits['test'], word_unit='words and line ends')
    losses = np.ones(whole.num_targets, np.float32)
    plain = document_sums(corpus, corpus.splits['test'], corpus.splits['test'], losses)[0]['words']
    # A line each, without a newline at its end.
    beginning = beginning_of(whole, 250)
    found, _ = document_sums(corpus, whole, beginning, losses[:250])
    assert found['words'][:2].tolist() == (plain[:2] + 1).tolist()
    # Where each is a symbol, those scored: as the whole result counts.
    words = dataclasses.replace(corpus, convention='words')
    found, factor = document_sums(words, whole, whole, losses)
    assert (found['words'].tolist(), factor) == (found['targets'].tolist(), 1)


def test_beginnings_of_a_split(tiny_config, data_dir):
    split = open_corpus(tiny_config.data, data_dir).splits['test']
    assert beginning_of(split, None) is beginning_of(split, 285) is split
    for targets in (1, 206, 207, 284):
        part = beginning_of(split, targets)
        assert part.num_targets == targets
        assert target_tokens(part).tolist() == target_tokens(split)[:targets].tolist()
    with pytest.raises(DataError, match='max_targets=0'):
        beginning_of(split, 0)


def sums(nll, targets):
    return {'nll_nats': np.array(nll), 'targets': np.array(targets), 'words': None, 'bytes': None}


def test_interval_of_two_documents_is_the_two():
    # Both draws are document 0 a quarter of the time, document 1 another: 2.5 % and 97.5 % lie within.
    assert bootstrap(sums([6.0, 2.0], [2, 4]), 400, seed=0) == {'targets': (0.5, 3.0)}
    assert bootstrap(sums([6.0, 2.0], [2, 4]), 1, seed=0)['targets'][0] in (0.5, 8 / 6, 3.0)


def test_interval_has_a_seed_and_needs_two_documents():
    many = sums(np.random.default_rng(0).gamma(2.0, size=30) * 100, [100] * 30)
    assert bootstrap(many, 20, seed=1) == bootstrap(many, 20, seed=1) != bootstrap(many, 20, seed=2)
    assert bootstrap(sums([1.0], [1]), 20, seed=0) is None
