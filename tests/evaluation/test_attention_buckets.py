"""Attention and compression losses that layers show while their memory is full."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.data.streams import EvaluationStream
from memjax.errors import ConfigError, DataError
from memjax.evaluation.attention import analyze_attention, in_buckets, regions_of
from memjax.evaluation.compression_loss import analyze_compression
from memjax.evaluation.likelihood import as_read
from memjax.evaluation.loading import load_run
from memjax.models.factory import build_model


@pytest.fixture
def run(tiny_config, data_dir, finished):
    """The finished run's workdir and its config; the validation split has documents of 110 and 232 targets."""
    workdir = finished(tiny_config, data_dir)
    return workdir, load_run(workdir).config


def test_all_attention_is_in_the_buckets(run, data_dir):
    workdir, config = run
    config.eval.batch_size = 1
    found = analyze_attention(workdir, data_dir, config, 'validation')
    assert [bucket['region'] for bucket in found['buckets']] == ['compressed'] * 6 + ['memory'] * 6 + ['segment'] * 6
    assert sum(bucket['slots'] for bucket in found['buckets']) == 4 + 8 + 8
    assert sum(bucket['mass'] for bucket in found['buckets']) == pytest.approx(1, abs=1e-5)
    for layer in range(2):
        assert sum(bucket['mass_by_layer'][layer] for bucket in found['buckets']) == pytest.approx(1, abs=1e-5)
    # Two segments fill the memory of 8 and 4 slots, and the first document's last segment is cut.
    assert found['sequences'] == (13 - 2) + (29 - 2)
    assert json.loads((workdir / 'eval' / 'attention_validation.json').read_text()) == found
    assert (workdir / 'eval' / 'attention_validation.png').read_bytes().startswith(b'\x89PNG')


def test_buckets_are_sums_of_neighbours():
    attention_LxN = np.arange(2 * 20, dtype=float).reshape(2, 20)
    buckets = in_buckets(attention_LxN, {'memory': 13, 'segment': 7})
    assert [bucket['slots'] for bucket in buckets] == [2, 2, 2, 2, 2, 3, 1, 1, 1, 1, 1, 2]
    assert buckets[5]['mass_by_layer'] == [10 + 11 + 12, 30 + 31 + 32]
    assert buckets[11]['mass'] == (18 + 19 + 38 + 39) / 2
    with pytest.raises(ValueError, match='20 keys'):
        in_buckets(attention_LxN, {'segment': 19})


def test_regions_of_levels_and_of_models_with_fewer(tiny_config):
    assert regions_of(tiny_config) == {'compressed': 4, 'memory': 8, 'segment': 8}
    tiny_config.model.update(higher_memory_lengths=(6,), higher_compression_rates=(2,))
    assert list(regions_of(tiny_config)) == ['compressed_2', 'compressed', 'memory', 'segment']
    tiny_config.model.update(name='transformer_xl', compressed_memory_length=0, memory_length=0)
    assert regions_of(tiny_config) == {'segment': 8}


def test_compression_loss_is_trainings_over_all_tokens(run, data_dir):
    workdir, config = run
    config.eval.batch_size = 2
    found = analyze_compression(workdir, data_dir, config, 'validation', sequences=1000)

    section = config.model.copy_and_resolve_references()
    section.update(dropout_rate=0.0, attention_dropout_rate=0.0)
    model, params = build_model(section), load_run(workdir).params
    read = jax.jit(lambda segment, memory: model.apply({'params': params}, segment, memory, True))
    memories, total_L, tokens, rows = [model.init_memory(1), model.init_memory(1)], np.zeros(2), 0, 0
    split = open_corpus(config.data, data_dir).splits['validation']
    for segment in EvaluationStream(split, 2, 8, 0):
        for row in range(2):
            of_row = jax.tree.map(lambda array, row=row: array[row : row + 1], as_read(segment))
            length = int(of_row.lengths_B[0])
            is_full = memories[row].levels[0].count_B[0] == 8 and not of_row.start_B[0]
            output, memories[row] = read(of_row, memories[row])
            if is_full and length:
                total_L += length * np.asarray(output.stats['compression_loss'], np.float64)
                tokens, rows = tokens + length, rows + 1
    np.testing.assert_allclose(found['loss_by_layer'], total_L / tokens, rtol=1e-5)
    assert found['sequences'] == rows
    assert (found['loss'], found['reduction'], found['compression']) == ('attention', 'mean', 'conv')
    assert (workdir / 'eval' / 'compression_validation.png').read_bytes().startswith(b'\x89PNG')


def test_models_that_have_nothing_to_show_are_refused(run, data_dir):
    workdir, config = run
    config.model.update(name='lstm', compressed_memory_length=0)
    with pytest.raises(ConfigError, match=r'model\.name=lstm: attention by bucket'):
        analyze_attention(workdir, data_dir, config, 'validation')
    config.model.update(name='transformer_xl')
    with pytest.raises(ConfigError, match=r'model\.name=transformer_xl compresses nothing'):
        analyze_compression(workdir, data_dir, config, 'validation')
    config.model.update(name='compressive', compression_loss='none')
    with pytest.raises(ConfigError, match='no compression loss to show'):
        analyze_compression(workdir, data_dir, config, 'validation')


def test_a_text_that_never_fills_the_memory_is_refused(run, data_dir):
    workdir, config = run
    config.eval.memory_length = 240
    with pytest.raises(DataError, match='no sequence of 8 tokens found a full memory, which takes 248 tokens'):
        analyze_attention(workdir, data_dir, config, 'validation')


@pytest.mark.slow
@pytest.mark.parametrize(
    'fields',
    [
        {'compression': 'most_used', 'compression_rate_by_layer': (2, 4)},
        {'higher_memory_lengths': (6,), 'higher_compression_rates': (2,), 'compression_loss': 'auto_encoding'},
        {'name': 'transformer_xl', 'compressed_memory_length': 0, 'remat': True},
    ],
)
def test_other_models_show_theirs(tiny_config, data_dir, fields):
    from memjax.evaluation.full_memory import read_with_full_memory
    from memjax.models.factory import init_params

    tiny_config.model.update(fields)
    split = open_corpus(tiny_config.data, data_dir).splits['validation']
    params = init_params(build_model(tiny_config.model), 8, jax.random.key(0))
    shown = read_with_full_memory(tiny_config, params, split, 1000, attention=True)
    buckets = in_buckets(shown.attention_LxN, regions_of(tiny_config))
    assert sum(bucket['mass'] for bucket in buckets) == pytest.approx(1, abs=1e-5)
    shown = read_with_full_memory(tiny_config, params, split, 1000, attention=False)
    expected = {} if tiny_config.model.name == 'transformer_xl' else {'compression_loss': (2,)}
    assert {name: losses.shape for name, losses in shown.losses.items()} == expected
