from __future__ import annotations

import json
import statistics

import jax
import pytest

from memjax.data.prepare import open_corpus
from memjax.errors import ConfigError, DataError
from memjax.evaluation import window_cost
from memjax.evaluation.loading import Run
from memjax.evaluation.window_cost import analyze_window
from memjax.models.factory import build_model, init_params


@pytest.fixture
def run(tiny_config, data_dir, monkeypatch):
    """The config of a Transformer-XL of random parameters, which is what every workdir holds here."""
    tiny_config.model.update(name='transformer_xl', compressed_memory_length=0, num_layers=1)
    tiny_config.eval.batch_size = 2
    model = build_model(tiny_config.model)
    params = jax.jit(lambda key: init_params(model, 8, key))(jax.random.key(0))
    made = Run(tiny_config, model, params, 7, {'tokens': 1, 'seconds': 1.0})
    corpus = open_corpus(tiny_config.data, data_dir)
    monkeypatch.setattr(window_cost, 'open_run', lambda workdir, data_dir, config, step: (made, corpus))
    return tiny_config


def test_a_ratio_of_medians_by_attention_length(run, data_dir, tmp_path):
    found = analyze_window(tmp_path, data_dir, run, 'validation', attention_lengths=[16], repeats=3, calls=8)
    (length,) = found['lengths']
    window, reuse = length['window'], length['reuse']
    assert length['attention_length'] == 16
    for way in (window, reuse):
        assert len(way['runs']) == 3
        assert way['seconds_per_token'] == statistics.median(way['runs']) > 0
    assert length['ratio'] == window['seconds_per_token'] / reuse['seconds_per_token']
    settings = ('memory_length', 'segment_length', 'window_stride')
    assert [window['protocol'][name] for name in settings] == [0, 16, 1]
    assert [reuse['protocol'][name] for name in settings] == [16, 8, None]
    assert (found['rows'], found['segment_length'], found['step']) == (2, 8, 7)
    assert json.loads((tmp_path / 'eval' / 'window_validation.json').read_text()) == found
    assert (tmp_path / 'eval' / 'window_validation.png').read_bytes().startswith(b'\x89PNG')


def test_what_cannot_be_timed_is_refused(run, data_dir, tmp_path):
    with pytest.raises(DataError, match=r'the longest document has 233 symbols and 257 are to be read'):
        analyze_window(tmp_path, data_dir, run, 'validation', attention_lengths=[16], calls=16)
    with pytest.raises(ConfigError, match='nothing to time'):
        analyze_window(tmp_path, data_dir, run, 'validation', attention_lengths=[])
    run.model.update(name='compressive')
    with pytest.raises(ConfigError, match=r'model\.name=compressive: windows are compared'):
        analyze_window(tmp_path, data_dir, run, 'validation')
