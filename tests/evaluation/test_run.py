"""Evaluation of a run: the result file, its figures, and what it refuses; and the README's library example."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.errors import CheckpointError, WorkdirError
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import load_run
from memjax.evaluation.run import evaluate_run
from memjax.generation.generate import sample_run

FIELDS = {
    'config', 'commit', 'seed', 'step', 'parameters', 'train_tokens', 'train_seconds', 'dataset', 'convention', 'split',
    'targets', 'scored', 'nll_nats', 'bpc', 'token_perplexity', 'word_perplexity', 'words', 'protocol', 'seconds',
    'compressors',
}  # fmt: skip


def test_end_of_training_evaluates_samples_and_draws(tiny_config, data_dir, finished, capsys):
    workdir = finished(tiny_config, data_dir)
    result = json.loads((workdir / 'eval' / 'test.json').read_text())
    assert set(result) == FIELDS
    assert (result['config'], result['dataset'], result['convention'], result['split'], result['step']) == (
        'tiny', 'files', 'bytes', 'test', 4,
    )  # fmt: skip
    assert result['scored'] == result['targets'] == 206 + 79
    assert result['bpc'] == pytest.approx(result['nll_nats'] / 285 / math.log(2))
    assert result['token_perplexity'] == pytest.approx(math.exp(result['nll_nats'] / 285))
    assert result['train_tokens'] == json.loads((workdir / 'metrics.jsonl').read_text().splitlines()[-1])['tokens']
    assert set(result['compressors']) == {'gzip', 'xz'}
    assert result['protocol']['warmup'] == 16
    assert (workdir / 'loss.png').read_bytes().startswith(b'\x89PNG')


def test_words_are_those_of_the_text(tiny_config, data_dir, finished, text_folder):
    result = json.loads((finished(tiny_config, data_dir) / 'eval' / 'test.json').read_text())
    words = sum(len(path.read_text().split()) for path in (text_folder / 'test').iterdir())
    assert result['words'] == words
    assert result['word_perplexity'] == pytest.approx(math.exp(result['nll_nats'] / words))


def test_per_token_file_adds_up_to_the_result(tiny_config, data_dir, finished, tmp_path):
    workdir = finished(tiny_config, data_dir)
    result = evaluate_run(workdir, data_dir, load_run(workdir).config, 'validation', per_token=tmp_path / 'nll.npz')
    nll = np.load(tmp_path / 'nll.npz', allow_pickle=False)['nll']
    assert nll.shape == (result['targets'],)
    assert nll.sum(dtype=np.float64) == pytest.approx(result['nll_nats'], rel=1e-12)
    assert json.loads((workdir / 'eval' / 'validation.json').read_text()) == result


def test_step_and_best_choose_the_checkpoint(tiny_config, data_dir, finished):
    workdir = finished(tiny_config, data_dir)
    config = load_run(workdir).config
    assert evaluate_run(workdir, data_dir, config, 'validation', step=2)['step'] == 2
    # The loss falls, so that the last is the best.
    assert evaluate_run(workdir, data_dir, config, 'validation', step='best')['step'] == 4
    with pytest.raises(CheckpointError, match='no checkpoint 3'):
        evaluate_run(workdir, data_dir, config, 'validation', step=3)


def test_periodic_validation_equals_evaluation(tiny_config, data_dir, finished):
    workdir = finished(tiny_config, data_dir)
    run = load_run(workdir)
    split = open_corpus(run.config.data, data_dir).splits['validation']
    loss = Scorer(run.config).score(run.params, split, max_segments=3).loss
    line = json.loads((workdir / 'metrics.jsonl').read_text().splitlines()[-1])
    assert line['split'] == 'validation'
    assert line['loss'] == pytest.approx(loss, rel=1e-6)


def test_sample_continues_a_text_or_a_file_with_the_length_asked_for(tiny_config, data_dir, finished, tmp_path):
    workdir = finished(tiny_config, data_dir)
    settings = {'length': 11, 'temperature': 1.0, 'top_k': 1, 'top_p': None, 'seed': 3}
    config = load_run(workdir).config

    def sample(prompt):
        return ''.join(piece.text for piece in sample_run(workdir, data_dir, config, prompt, **settings))

    text = sample('a lazy dog')
    assert 1 <= len(text) <= 11
    (tmp_path / 'prompt.txt').write_text('a lazy dog')
    assert sample(tmp_path / 'prompt.txt') == text
    with pytest.raises(FileNotFoundError):
        sample(tmp_path / 'absent.txt')


def test_directory_without_a_run_is_refused(tiny_config, data_dir, tmp_path):
    with pytest.raises(WorkdirError, match='holds no run'):
        load_run(tmp_path)
    with pytest.raises(CheckpointError, match='no good checkpoint'):
        evaluate_run(tmp_path, data_dir, tiny_config, 'test')


def test_readmes_library_example_runs(tiny_config, data_dir, finished, request, capsys):
    readme = (request.config.rootpath / 'README.md').read_text()
    example = re.search(r'## As a library\n\n```python\n(.*?)```', readme, re.DOTALL)[1]
    workdir = finished(tiny_config, data_dir)
    capsys.readouterr()
    namespace = {}
    exec(compile(example.replace('runs/demo_ct', str(workdir)), 'README.md', 'exec'), namespace)
    nats = float(re.fullmatch(r'([\d.]+) nats\n', capsys.readouterr().out)[1])
    # 53 targets, each near a uniform choice of 256 after so short a training.
    assert 53 * 3 < nats < 53 * 7
    assert namespace['output'].logits_BxTxV.shape[-1] == 256
