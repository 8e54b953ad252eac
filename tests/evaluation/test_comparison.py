from __future__ import annotations

import json

import pytest

from memjax.config import to_json
from memjax.errors import ConfigError, WorkdirError
from memjax.evaluation.comparison import compare_runs

RESULT = {
    'config': 'a', 'dataset': 'files', 'convention': 'bytes', 'split': 'test', 'targets': 100, 'scored': 100,
    'bpc': 2.0, 'token_perplexity': 4.0, 'parameters': 7, 'train_tokens': 1_000, 'train_seconds': 0.5, 'seconds': 0.2,
    'protocol': {'segment_length': 8},
}  # fmt: skip


@pytest.fixture
def made(tiny_config, tmp_path):
    """A function: a workdir with a config and a result."""

    def make(name, model, protocol, **fields):
        config = tiny_config.copy_and_resolve_references()
        config.model.update(model)
        folder = tmp_path / name
        (folder / 'eval').mkdir(parents=True)
        (folder / 'config.json').write_text(to_json(config))
        result = RESULT | {'config': name, 'protocol': RESULT['protocol'] | protocol} | fields
        (folder / 'eval' / 'test.json').write_text(json.dumps(result))
        return folder

    return make


def test_same_cost_and_same_range(made, capsys):
    txl = {'name': 'transformer_xl', 'compressed_memory_length': 0}
    ct = made('ct', {'memory_length': 8, 'compressed_memory_length': 4}, {'compressed_memory_length': 12})
    cost = made('cost', txl | {'memory_length': 12}, {'memory_length': 20}, bpc=2.5)
    reach = made('range', txl | {'memory_length': 16}, {'memory_length': 32})
    lstm = made('lstm', txl | {'name': 'lstm', 'memory_length': 0}, {})
    found = compare_runs([ct, cost, reach, lstm], 'test')
    evaluated = [(each['evaluation']['attended_slots'], each['evaluation']['span']) for each in found['runs']]
    assert evaluated == [(20, 32), (20, 20), (32, 32), (None, None)]
    assert [run['beside'] for run in found['runs']] == [['cost', 'range'], ['cost'], ['range'], []]
    assert [run['training']['attended_slots'] for run in found['runs']] == [12, 12, 16, None]
    # Two layers of 16 float32 a slot; of each compressed slot an age a layer; of each level, and of all, a count.
    assert found['runs'][0]['evaluation']['memory_state_bytes'] == 2 * 20 * 16 * 4 + 2 * 12 * 4 + 2 * 4 + 4
    assert found['runs'][1]['evaluation']['memory_state_bytes'] == 2 * 20 * 16 * 4 + 4 + 4
    assert found['runs'][3]['evaluation']['memory_state_bytes'] == 2 * 2 * 16 * 4
    assert found['runs'][1]['evaluation']['microseconds_per_token'] == pytest.approx(2_000)
    assert found['runs'][1]['training']['microseconds_per_token'] == pytest.approx(500)
    assert found['runs'][1]['bpc'] == 2.5
    assert json.loads((ct / 'eval' / 'comparison_test.json').read_text()) == found
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith('same cost and same range')
    assert '2.5000' in lines[2]


def test_memories_without_slots_are_not_called_alike(made):
    lstm = {'name': 'lstm', 'compressed_memory_length': 0, 'memory_length': 0}
    found = compare_runs([made('one', lstm, {}), made('two', lstm, {})], 'test')
    assert found['runs'][1]['beside'] == []


def test_what_is_not_comparable_is_refused(made):
    first, other = made('first', {}, {}), made('other', {}, {}, targets=99)
    with pytest.raises(ConfigError, match='needs at least two runs'):
        compare_runs([first], 'test')
    with pytest.raises(ConfigError, match=r'targets=99, .* 100: not comparable'):
        compare_runs([first, other], 'test')
    with pytest.raises(WorkdirError, match=r'validation\.json does not exist: run launch/eval\.py'):
        compare_runs([first, other], 'validation')
    (other / 'eval' / 'test.json').write_text('{"bpc": 1}')
    with pytest.raises(WorkdirError, match=r'is not a result of launch/eval\.py'):
        compare_runs([first, other], 'test')
