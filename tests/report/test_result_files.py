"""Result files are refused if they cannot be trusted, and compared with the experiment that a table wants."""

import json
import re

import pytest

from memjax.errors import UserError
from memjax.report.experiments import Experiment, settings
from memjax.report.result_files import difference, read, read_all

DEMO = Experiment('demo_ct')


def test_files_are_read_in_the_order_of_runs_and_seeds(put, score_of, results_dir):
    for seed in (10, 2):
        put(f'demo_ct-{seed}-test.json', score_of(DEMO, seed))
    put('demo_ct-2-validation.json', score_of(DEMO, 2, split='validation'))
    put('a-b-0-test.json', score_of(Experiment('demo_ct', name='a-b')))
    put('demo_ct-2-attention_test.json', {'anything': 'else'})
    files = read_all(results_dir)
    assert [(file.name, file.seed, file.kind) for file in files] == [
        ('a-b', 0, 'test'),
        ('demo_ct', 2, 'attention_test'),
        ('demo_ct', 2, 'test'),
        ('demo_ct', 2, 'validation'),
        ('demo_ct', 10, 'test'),
    ]
    assert [len(file.scores) for file in files] == [1, 0, 1, 1, 1]


def refusal(path):
    with pytest.raises(UserError) as caught:
        read(path)
    message = str(caught.value)
    assert '\n' not in message
    assert path.name in message
    return message


def test_files_that_cannot_be_trusted_are_refused(put, score_of):
    name = 'demo_ct-0-test.json'
    assert 'is not JSON' in refusal(put(name, '{"config": "demo_ct"'))
    assert 'is not an object' in refusal(put(name, '[1]'))
    score = score_of(DEMO)
    for field in ('config', 'seed', 'step', 'parameters', 'train_tokens', 'dataset', 'convention', 'split', 'targets',
                  'scored', 'nll_nats', 'protocol'):  # fmt: skip
        without = {key: value for key, value in score.items() if key != field}
        assert refusal(put(name, without)).endswith(f'lacks the field {field}')
    assert "step='9' is not a number" in refusal(put(name, score | {'step': '9'}))
    assert 'seed=True is not a whole number' in refusal(put(name, score | {'seed': True}))
    assert 'bpc=nan is not a number' in refusal(put(name, json.dumps(score | {'bpc': float('nan')})))
    assert 'compressors is not' in refusal(put(name, score | {'compressors': {'gzip': 'small'}}))
    assert 'its name says otherwise' in refusal(put('demo_ct-1-test.json', score))
    assert 'its name says otherwise' in refusal(put('demo_txl-0-test.json', score))
    assert 'its name says otherwise' in refusal(put('demo_ct-0-validation.json', score))
    assert 'CONFIG-SEED-SPLIT.json' in refusal(put('demo_ct.json', score))
    assert 'lacks bins' in refusal(put('demo_ct-0-needle_test.json', score))
    assert 'lacks the field accuracy' in refusal(
        put('demo_ct-0-needle_test.json', score | {'bins': [{'from': 8, 'to': 12, 'questions': 3}]})
    )
    assert 'lacks results' in refusal(put('demo_ct-0-sweep_memory_length_test.json', score))
    assert 'lacks the field memory_length' in refusal(
        put('demo_ct-0-sweep_memory_length_test.json', {'results': [score]})
    )


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'step': 100}, 'step 100, not 1,080'),
        ({'dataset': 'enwik8'}, 'dataset enwik8, not kjv'),
        ({'convention': 'txl'}, 'convention txl, not bytes'),
    ],
)
def test_a_result_of_another_experiment_is_told(score_of, change, reason):
    score = score_of(DEMO) | change
    assert difference(score, score, DEMO, None) == reason


def test_a_result_with_other_lengths_is_told_unless_they_were_swept(score_of):
    score = score_of(DEMO)
    assert difference(score, score, DEMO, None) is None
    score['protocol']['rows'] = 3  # decides nothing
    score['protocol'].pop('window_stride')  # an older file's
    assert difference(score, score, DEMO, None) is None
    score['protocol']['compressed_memory_length'] = 32
    assert difference(score, score, DEMO, None) == 'compressed_memory_length 32 in evaluation, not 64'
    score['compressed_memory_length'] = 32
    assert difference(score, score, DEMO, 'compressed_memory_length') is None
    score['compressed_memory_length'] = 64
    assert 'in evaluation' in difference(score, score, DEMO, 'compressed_memory_length')


def test_settings_of_another_experiment_are_told(score_of):
    """Where a file has them: two runs of one name may differ in what no other field shows."""
    score = score_of(DEMO)
    ours = settings(DEMO.load())
    assert difference(score, {'settings': ours}, DEMO, None) is None
    assert difference(score, {'settings': ours | {'data.path': 'elsewhere'}}, DEMO, None) is None
    assert difference(score, {'settings': ours | {'mesh.fsdp': 2}}, DEMO, None) is None
    other = {'settings': ours | {'training.learning_rate': 1e-3}}
    assert difference(score, other, DEMO, None) == 'training.learning_rate 0.001, not 0.003'
    fewer = {'settings': {name: value for name, value in ours.items() if name != 'model.layer_unroll'}}
    assert difference(score, fewer, DEMO, None) == 'model.layer_unroll 1, not 3'
    assert re.match('its settings cannot be read', difference(score, {'settings': {'model.x': 1}}, DEMO, None))
    assert re.match('its settings cannot be read', difference(score, {'settings': 3}, DEMO, None))
