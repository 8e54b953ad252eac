from __future__ import annotations

import json
import math

import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.evaluation.frequency import analyze_frequency, by_frequency, count_tokens
from memjax.evaluation.loading import load_run


def test_bounds_are_those_of_the_table():
    counts_V = np.array([10_001, 10_000, 1_000, 999, 100, 99, 0])
    nll = np.array([1, 2, 4, 8, 16, 32, 64, 128], np.float32)
    buckets = by_frequency(counts_V, np.array([0, 1, 2, 3, 4, 5, 6, 6]), nll)
    found = [(each['occurrences'], each['targets'], each['kinds'], each['nll_nats']) for each in buckets]
    assert found == [('> 10K', 1, 1, 1), ('1K-10K', 2, 2, 6), ('100-1K', 2, 2, 24), ('< 100', 3, 2, 224)]
    assert buckets[1]['perplexity'] == pytest.approx(math.exp(3))


def test_buckets_sum_to_the_whole(tiny_config, data_dir, finished, text_folder):
    workdir = finished(tiny_config, data_dir)
    found = analyze_frequency(workdir, data_dir, load_run(workdir).config, 'test')
    assert sum(each['nll_nats'] for each in found['buckets']) == pytest.approx(found['nll_nats'], rel=1e-12)
    assert sum(each['targets'] for each in found['buckets']) == found['scored'] == 285
    assert found['buckets'][0]['perplexity'] is None
    assert (found['unit'], found['max_targets']) == ('tokens', None)
    assert json.loads((workdir / 'eval' / 'frequency_test.json').read_text()) == found

    train = ''.join(path.read_text() for path in (text_folder / 'train').iterdir())
    counts_V = count_tokens(open_corpus(tiny_config.data, data_dir).splits['train'], 256)
    assert [counts_V[ord(symbol)] for symbol in ' aez~'] == [train.count(symbol) for symbol in ' aez~']
