"""Evaluation of a run: the result file, its figures, and what it refuses; and the README's library example."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from memjax.data.prepare import open_corpus
from memjax.data.store import TokenSplit
from memjax.data.tokenizers import SymbolTokenizer
from memjax.errors import CheckpointError, WorkdirError
from memjax.evaluation.likelihood import Score, Scorer
from memjax.evaluation.loading import check_tokenizer, load_run
from memjax.evaluation.results import _by_words
from memjax.evaluation.run import evaluate_run
from memjax.evaluation.sweep import sweep_run
from memjax.generation.generate import sample_run
from memjax.training.loop import train

FIELDS = {
    'config', 'commit', 'seed', 'step', 'parameters', 'train_tokens', 'train_seconds', 'dataset', 'convention', 'split',
    'targets', 'scored', 'nll_nats', 'bpc', 'token_perplexity', 'word_perplexity', 'words', 'protocol', 'seconds',
    'compressors', 'word_unit',
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


def test_another_vocabulary_is_refused_in_one_line(tiny_config, data_dir, finished, monkeypatch):
    workdir = finished(tiny_config, data_dir)
    config = load_run(workdir).config
    other = dataclasses.replace(open_corpus(config.data, data_dir), tokenizer=SymbolTokenizer(range(256)))
    for module in ('evaluation.loading', 'training.loop'):
        monkeypatch.setattr(f'memjax.{module}.open_corpus', lambda *_: other)
    longer = config.copy_and_resolve_references()
    longer.training.num_steps += 1
    for attempt in (
        lambda: evaluate_run(workdir, data_dir, config, 'test'),
        lambda: next(sample_run(workdir, data_dir, config, 'a', 1, 1.0, None, None, 0)),
        lambda: sweep_run(workdir, data_dir, config, 'memory_length', [8], 'test'),
        lambda: train(longer, workdir, data_dir),
    ):
        with pytest.raises(CheckpointError, match=r'^the run was trained with another vocabulary .*--data_dir$'):
            attempt()
    check_tokenizer({}, other.tokenizer)  # a run from before tokenizers were recorded


def test_what_perplexity_by_words_divides_by():
    def by_words(convention, words=20, unit='words'):
        split = TokenSplit(np.zeros(11, np.uint8), np.array([0, 11]), words, 50, unit)
        return _by_words(convention, split, Score(30.0, 10, 10, 0, 1.0, None))

    # Words as symbols: of those scored, as published. Else: the whole loss by the words of the text.
    assert by_words('words')['word_perplexity'] == pytest.approx(math.exp(3.0))
    assert by_words('words')['words'] == 10
    assert by_words('sentencepiece')['word_perplexity'] == pytest.approx(math.exp(1.5))
    published = by_words('bytes', 15, 'words, the published count')
    assert published == {
        'words': 15,
        'word_unit': 'words, the published count',
        'word_perplexity': pytest.approx(math.exp(2.0)),
    }
    assert by_words('txl', None) == {}


def test_directory_without_a_run_is_refused(tiny_config, data_dir, tmp_path):
    with pytest.raises(WorkdirError, match='holds no run'):
        load_run(tmp_path)
    with pytest.raises(CheckpointError, match='no good checkpoint'):
        evaluate_run(tmp_path, data_dir, tiny_config, 'test')


def test_readmes_library_examples_run(tiny_config, data_dir, finished, request, capsys):
    readme = (request.config.rootpath / 'README.md').read_text()
    example, another = re.findall(r'```python\n(.*?)```', readme[readme.index('## As a library') :], re.DOTALL)
    workdir = finished(tiny_config, data_dir)
    capsys.readouterr()
    namespace = {}
    exec(compile(example.replace('runs/demo_ct', str(workdir)), 'README.md', 'exec'), namespace)
    nats = float(re.fullmatch(r'([\d.]+) nats\n', capsys.readouterr().out)[1])
    # 53 targets, each near a uniform choice of 256 after so short a training.
    assert 53 * 3 < nats < 53 * 7
    assert namespace['output'].logits_BxTxV.shape[-1] == 256
    # Of both prompts there is a last piece, and as many bytes as were asked for.
    another = another.replace('~/.cache/memjax', str(data_dir)).replace('length=200', 'length=9')
    exec(
        compile(
            f'import collections\ndrawn = collections.Counter()\n{another}    drawn[row, is_last] += 1',
            'README.md',
            'exec',
        ),
        namespace,
    )
    assert namespace['drawn'][0, True] == namespace['drawn'][1, True] == 1
