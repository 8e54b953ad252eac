"""Scoring: exactly once, whatever the rows and lengths, and the same figures whoever adds them up."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.data.streams import EvaluationSegment
from memjax.evaluation import likelihood
from memjax.evaluation.likelihood import SEGMENTS_A_CALL, Scorer, jit_together, read_together
from memjax.memory.fifo import Projected
from memjax.models.contract import joined
from memjax.models.factory import build_model, init_params
from memjax.models.layer import is_apart
from memjax.models.segments import segments


@pytest.fixture(scope='module')
def params():
    """Parameters of the tiny model, drawn wide enough that memory matters."""
    made = {}

    def make(config):
        key = (config.model.name, config.model.compression)
        if key not in made:
            model = build_model(config.model.copy_and_resolve_references().unlock())
            small = init_params(model, 8, jax.random.key(0))
            made[key] = jax.tree.map(lambda leaf: leaf * 8 if leaf.ndim > 1 else leaf, small)
        return made[key]

    return make


@pytest.fixture
def split(tiny_config, data_dir):
    """The test split: documents of 207, 1 and 80 symbols."""
    return open_corpus(tiny_config.data, data_dir).splits['test']


@pytest.mark.parametrize(('batch_size', 'segment_length'), [(1, 8), (3, 8), (64, 8), (2, 4)])
def test_every_target_is_scored_exactly_once(tiny_config, split, params, batch_size, segment_length):
    tiny_config.eval.update({'batch_size': batch_size, 'segment_length': segment_length})
    score = Scorer(tiny_config).score(params(tiny_config), split, keep_tokens=True)
    assert score.targets == score.scored == 206 + 0 + 79
    assert np.isfinite(score.per_token).all()
    assert score.nll_nats == pytest.approx(score.per_token.sum(dtype=np.float64), rel=1e-12)


def test_rows_warmed_up_over_the_whole_reach_equal_one_row(tiny_config, split, params):
    reach = tiny_config.model.num_layers * (8 + 2 * 4)

    def per_token(rows, warmup):
        tiny_config.eval.update({'batch_size': rows, 'warmup': warmup})
        return Scorer(tiny_config).score(params(tiny_config), split, keep_tokens=True).per_token

    one = per_token(1, None)
    np.testing.assert_allclose(per_token(4, reach), one, rtol=0, atol=1e-5)
    # The comparison can fail: without warm-up the rows do differ.
    assert np.abs(per_token(4, 0) - one).max() > 1e-3


def test_several_short_segments_are_read_at_once_with_the_same_result(tiny_config, split, params, monkeypatch):
    tiny_config.model.update(name='transformer_xl', memory_length=18, compressed_memory_length=0)
    tiny_config.eval.update({'batch_size': 3, 'segment_length': 4})
    weights, counts = params(tiny_config), []

    def per_token():
        return Scorer(tiny_config).score(weights, split, keep_tokens=True).per_token

    def counted(segments, count):
        counts.append(count)
        return joined(segments, count)

    monkeypatch.setattr(likelihood, 'joined', counted)
    at_once = per_token()
    assert counts == [2]
    monkeypatch.setattr(likelihood, 'segments_at_once', lambda model, segment_length: 1)
    np.testing.assert_allclose(at_once, per_token(), rtol=0, atol=1e-5)
    assert counts == [2, 1]


@pytest.mark.parametrize(('eval_section', 'count'), [({}, SEGMENTS_A_CALL), ({'window_stride': 1}, 1)])
def test_no_more_are_read_at_once_than_a_call_has_and_of_windows_each_by_itself(
    tiny_config, split, params, monkeypatch, eval_section, count
):
    tiny_config.model.update(name='transformer_xl', memory_length=32, compressed_memory_length=0)
    tiny_config.eval.update({'batch_size': 64, 'segment_length': 1, 'warmup': 0} | eval_section)
    counts = []
    monkeypatch.setattr(likelihood, 'joined', lambda segments, count: counts.append(count) or joined(segments, count))
    score = Scorer(tiny_config).score(params(tiny_config), split, max_segments=SEGMENTS_A_CALL)
    assert counts == [count] and score.scored > 0


def test_windows_score_each_target_with_the_tokens_right_before_it(tiny_config, split, params):
    tiny_config.model.update(name='transformer_xl', memory_length=0, compressed_memory_length=0)
    tiny_config.eval.update({'batch_size': 3, 'window_stride': 1})
    weights = params(tiny_config)
    score = Scorer(tiny_config).score(weights, split, keep_tokens=True)
    assert score.targets == score.scored == 206 + 0 + 79
    model, tokens = build_model(tiny_config.model), np.asarray(split.tokens[: 8 + 9])
    for begin in (0, 5, 8):
        (segment,) = segments(tokens[begin : begin + 9].tolist(), 8)
        output, _ = model.apply({'params': weights}, segment, model.init_memory(1))
        assert score.per_token[begin + 7] == pytest.approx(float(output.nll_BxT[0, 7]), abs=1e-5)
    tiny_config.eval.window_stride = None
    plain = Scorer(tiny_config).score(weights, split, keep_tokens=True)
    np.testing.assert_allclose(plain.per_token[:8], score.per_token[:8], rtol=0, atol=1e-5)
    assert np.abs(plain.per_token[8:16] - score.per_token[8:16]).max() > 1e-3


def test_default_warmup_is_the_memorys_span_in_whole_segments(tiny_config, split, params):
    tiny_config.eval.update({'batch_size': 2, 'compressed_memory_length': 6})
    score = Scorer(tiny_config).score(params(tiny_config), split)
    assert score.warmup == 24  # 8 + 2 x 6 = 20, rounded up to segments of 8


def test_scores_equal_a_loop_over_ones_own_segments(tiny_config, split, params):
    tiny_config.eval.batch_size = 1
    score = Scorer(tiny_config).score(params(tiny_config), split, keep_tokens=True)
    model = build_model(tiny_config.model)
    read = jax.jit(lambda segment, memory: model.apply({'params': params(tiny_config)}, segment, memory))
    memory, losses = model.init_memory(1), []
    for begin, end in zip(split.document_offsets[:-1], split.document_offsets[1:], strict=True):
        for segment in segments(split.tokens[begin:end], 8):
            output, memory = read(segment, memory)
            losses.append(np.asarray(output.nll_BxT)[segment.weights_BxT > 0])
    np.testing.assert_allclose(np.concatenate(losses), score.per_token, rtol=0, atol=1e-5)


def test_limited_segments_score_less_and_say_so(tiny_config, split, params):
    tiny_config.eval.batch_size = 2
    score = Scorer(tiny_config).score(params(tiny_config), split, max_segments=3)
    assert 0 < score.scored < score.targets


def test_segments_are_read_with_memory_projected_and_layers_apart(tiny_config, split, params, monkeypatch):
    scorer, given = Scorer(tiny_config), []
    read = scorer._read

    def record(params, segments, memory):
        given.append((params, memory))
        return read(params, segments, memory)

    monkeypatch.setattr(scorer, '_read', record)
    scorer.score(params(tiny_config), split, max_segments=9)
    assert len(given) == 2
    for used, memory in given:
        assert isinstance(memory[0].levels[0].slots_LxBxMxD, Projected)
        assert is_apart(used['core']['layers'])


def test_memory_lengths_of_evaluation_are_used(tiny_config, split, params):
    tiny_config.eval.batch_size = 1
    short = Scorer(tiny_config).score(params(tiny_config), split)
    tiny_config.eval.update({'memory_length': 16, 'compressed_memory_length': 8})
    long = Scorer(tiny_config).score(params(tiny_config), split)
    assert abs(long.nll_nats - short.nll_nats) > 1e-3


def test_segments_read_together_come_back_one_by_one_and_no_more():
    def segment(number: int) -> EvaluationSegment:
        tokens = np.full((2, 4), number, np.int32)
        lengths = np.array([0, 3], np.int32)  # a row that is finished, and one that is not
        return EvaluationSegment(tokens, tokens, np.ones((2, 4)), np.zeros(2, bool), lengths, tokens.astype(np.int64))

    def read(params, segment, memory):
        return segment.inputs_BxT.sum() + params, memory + 1

    count = SEGMENTS_A_CALL + 3
    found = list(read_together(jit_together(read), 5, 0, map(segment, range(count))))
    assert [int(each.inputs_BxT[0, 0]) for each, _ in found] == list(range(count))
    assert [int(result) for _, result in found] == [8 * number + 5 for number in range(count)]
