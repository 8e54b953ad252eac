from __future__ import annotations

import json
import types

import jax
import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.errors import ConfigError, DataError
from memjax.evaluation.loading import load_run
from memjax.evaluation.recl import losses_after, measure_recl, recl, sample_positions
from memjax.models.factory import build_model
from memjax.models.segments import segments


def test_by_hand():
    # Model 0 learns from the second step of context at position 0 alone, model 1 from both at both.
    zero = [[4.0, 1.0], [3.0, 1.0], [3.0, 1.0]]
    one = [[4.0, 2.0], [2.0, 1.5], [1.0, 0.5]]
    nll_MxCxP = np.array([zero, one])
    lengths = [100, 200, 300]

    # All positions: b(100) = (4, 1), mean 2.5. Model 0 at 200: (3, 1), mean 2: a gain of 1 - e^-0.5. From 200 on it is
    # measured against b(200) = (2, 1), mean 1.5, which its (3, 1) does not improve: it stops at 200.
    # Model 1 at 200: min((4, 1), (2, 1.5)) = (2, 1), mean 1.5: 1 - e^-1; at 300: (1, 0.5), mean 0.75: 1 - e^-0.75.
    first, second = recl(nll_MxCxP, lengths, 1.0)
    assert (first['recl'], first['is_bound']) == (200, False)
    assert [gain['gain'] for gain in first['gains']] == pytest.approx([1 - np.exp(-0.5), 0])
    assert (second['recl'], second['is_bound']) == (300, True)
    assert [gain['gain'] for gain in second['gains']] == pytest.approx([1 - np.exp(-1), 1 - np.exp(-0.75)])
    assert second['gains'][1] | {'gain': None} == {'from': 200, 'to': 300, 'gain': None}

    # The harder half is position 0: b(100) = 4; model 0 gains 1 - e^-1, then nothing over b(200) = 2.
    first, _ = recl(nll_MxCxP, lengths, 0.5)
    assert (first['recl'], [gain['gain'] for gain in first['gains']]) == (200, pytest.approx([1 - np.exp(-1), 0]))

    # A gain below the threshold is none.
    assert recl(np.array([[[2.0], [1.991]]]), [1, 2], 1.0)[0]['recl'] == 1
    assert recl(np.array([[[2.0], [1.989]]]), [1, 2], 1.0)[0]['recl'] == 2


def test_losses_are_those_after_exactly_so_many_tokens(tiny_config, data_dir, finished):
    workdir = finished(tiny_config, data_dir)
    found = measure_recl([workdir, workdir], data_dir, 'test', [8, 19], samples=5)
    assert (found['samples'], len(found['runs'])) == (8, 2)  # whole batches of 4
    assert found['runs'][0]['recl'] == found['runs'][1]['recl']
    assert json.loads((workdir / 'eval' / 'recl_test.json').read_text()) == found
    assert (workdir / 'eval' / 'recl_test.png').read_bytes().startswith(b'\x89PNG')

    run = load_run(workdir)
    split = open_corpus(run.config.data, data_dir).splits['test']
    positions = sample_positions(split, 19, 8, seed=0)
    model = build_model(run.config.model)
    read = jax.jit(lambda segment, memory: model.apply({'params': run.params}, segment, memory))
    for at, length in enumerate((8, 19)):
        losses = []
        for position in positions:
            memory = model.init_memory(1)
            for segment in segments(split.tokens[position - length : position + 1], 8):
                output, memory = read(segment, memory)
            losses.append(float(output.nll_BxT[0, int(segment.lengths_B[0]) - 1]))
        assert found['runs'][0]['loss_by_length'][at] == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_model_without_memory_reads_one_segment(tiny_config, data_dir):
    split = open_corpus(tiny_config.data, data_dir).splits['test']
    tiny_config.model.update(name='transformer_xl', memory_length=0, compressed_memory_length=0)
    seen = []

    def score(params, text, keep_tokens):
        seen.append(text)
        return types.SimpleNamespace(per_token=np.arange(text.num_targets))

    scorer, run = types.SimpleNamespace(score=score), types.SimpleNamespace(params=None)
    for length, read in ((5, 5), (8, 8), (20, 8)):
        found = losses_after(scorer, run, split, np.array([30, 40]), length, tiny_config)
        text = seen.pop()
        assert text.tokens.tolist() == [*split.tokens[30 - read : 31], *split.tokens[40 - read : 41]]
        assert text.document_offsets.tolist() == [0, read + 1, 2 * read + 2]
        assert found.tolist() == [read - 1, 2 * read - 1]


def test_positions_have_their_context_within_the_document(tiny_config, data_dir):
    split = open_corpus(tiny_config.data, data_dir).splits['test']  # documents of 207, 1 and 80 symbols
    positions = sample_positions(split, 70, 207 - 70 + 10, seed=0)
    assert positions.tolist() == [*range(70, 207), *range(208 + 70, 288)]
    with pytest.raises(DataError, match='147 positions have 70 tokens before them, fewer than the 148 wanted'):
        sample_positions(split, 70, 148, seed=0)


def test_a_group_and_its_lengths_must_make_sense(tmp_path):
    with pytest.raises(ConfigError, match='at least two runs'):
        measure_recl([tmp_path], tmp_path, 'test', [1, 2])
    for lengths in ([4], [4, 2], [0, 2]):
        with pytest.raises(ConfigError, match='must be at least two, rise'):
            measure_recl([tmp_path, tmp_path], tmp_path, 'test', lengths)
