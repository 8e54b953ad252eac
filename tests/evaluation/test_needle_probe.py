from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from memjax.data import needle
from memjax.data.needle import questions
from memjax.data.prepare import open_corpus
from memjax.errors import ConfigError
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import load_run
from memjax.evaluation.needle import probe_run
from memjax.models.factory import build_model
from memjax.models.segments import segments
from memjax.training.loop import train

_MADE = {}


@pytest.fixture
def run(tiny_config, tmp_path_factory, monkeypatch):
    """A run of a few steps on few documents: its workdir and data; made once."""
    monkeypatch.setattr(needle, 'NUM_DOCUMENTS', 20)
    if not _MADE:
        folder = tmp_path_factory.mktemp('needle')
        tiny_config.data.update(name='needle')
        tiny_config.data.path = None
        tiny_config.training.update(num_steps=2, eval_every=None)
        train(tiny_config, folder / 'run', folder / 'data')
        _MADE['run'] = folder / 'run', folder / 'data'
    return _MADE['run']


def test_accuracy_is_of_the_questions_alone(run):
    workdir, data_dir = run
    loaded = load_run(workdir)
    split = open_corpus(loaded.config.data, data_dir).splits['test']
    found = probe_run(workdir, data_dir, loaded.config, 'test')

    text = bytes(split.tokens)
    (asked,) = [list(questions(text))]
    score = Scorer(loaded.config, likeliest=True).score(loaded.params, split, keep_tokens=True)
    answered = [bool(score.is_likeliest[question.place - 1]) for question in asked]
    assert found['accuracy'] == pytest.approx(np.mean(answered))
    assert sum(each['questions'] for each in found['bins']) == len(asked)
    for each in found['bins']:
        inside = [
            right for question, right in zip(asked, answered, strict=True)
            if each['from'] <= question.distance < each['to']
        ]  # fmt: skip
        assert (each['questions'], each['accuracy']) == (len(inside), pytest.approx(np.mean(inside)))
    assert found['guess'] == 1 / 8
    assert found['temporal_range'] == 2 * (8 + 2 * 4)
    assert json.loads((workdir / 'eval' / 'needle_test.json').read_text()) == found
    assert (workdir / 'eval' / 'needle_test.png').read_bytes().startswith(b'\x89PNG')


def test_the_likeliest_symbol_is_that_of_the_logits(run):
    workdir, data_dir = run
    loaded = load_run(workdir)
    loaded.config.eval.batch_size = 1
    split = open_corpus(loaded.config.data, data_dir).splits['test']
    score = Scorer(loaded.config, likeliest=True).score(loaded.params, split, keep_tokens=True)
    model = build_model(loaded.config.model)
    memory, right = model.init_memory(1), []
    read = jax.jit(lambda segment, memory: model.apply({'params': loaded.params}, segment, memory, return_logits=True))
    for segment in segments(split.tokens[:81].tolist(), 8):
        output, memory = read(segment, memory)
        right += (output.logits_BxTxV.argmax(-1) == segment.targets_BxT)[0].tolist()
    assert score.is_likeliest[: len(right)].tolist() == right
    assert 0 < np.mean(right) < 1


def test_a_run_on_another_corpus_is_refused(tiny_config, data_dir, finished):
    workdir = finished(tiny_config, data_dir)
    with pytest.raises(ConfigError, match=r'data\.name=files: the probe is of runs on data\.name=needle'):
        probe_run(workdir, data_dir, load_run(workdir).config, 'test')
