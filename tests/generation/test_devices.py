"""A text on two devices: the same tokens, from a model that is split."""

import json
import pathlib
import subprocess
import sys
import types

import jax
import pytest
from tiny_models import CT, CT_MORE, RECURRENT, TXL, each

from memjax.errors import ConfigError
from memjax.evaluation.loading import Run
from memjax.generation import devices, generate

SCRIPT = pathlib.Path(__file__).parent / 'decode_on_devices.py'
# Two divide these.
SYMBOLS = {'vocab_size': 12}
LSTM = RECURRENT[1]


@each(
    [CT[4] | SYMBOLS],
    [TXL[1] | SYMBOLS | {'tie_embeddings': False}, CT_MORE[0] | SYMBOLS, RECURRENT[0] | SYMBOLS, LSTM | SYMBOLS],
)
def test_two_devices_draw_the_same(variant):
    result = subprocess.run([sys.executable, SCRIPT, json.dumps(variant)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    one, two = json.loads(result.stdout).values()
    assert two['rows'] == one['rows']
    assert [len(row) for row in one['rows']] == [12, 12]
    assert (one['devices'], two['devices']) == (1, 2)
    assert one['split'] == []
    assert 'embed/table' in two['split']
    attention = [name for name in two['split'] if 'attention' in name]
    # Queries, keys, values, positions and the output, of two layers.
    assert len(attention) >= (0 if variant['name'] == 'lstm' else 10)
    # Keys and values of the unfinished segment, of two layers.
    assert two['tail'] >= (4 if variant['name'] in ('transformer_xl', 'compressive') else 0)
    # No length and no later segment compiles anything once more.
    assert max(one['compiled']) == 1
    assert two['compiled'] == one['compiled']


def test_what_cannot_be_split_is_refused(monkeypatch):
    count = len(jax.devices()) + 1
    with pytest.raises(ConfigError, match=f'{count} devices are asked for and there are {count - 1}'):
        devices.spread({}, count)
    monkeypatch.setattr(devices.jax, 'devices', lambda: [None] * 3)
    monkeypatch.setattr(devices, 'make_mesh', lambda *_: types.SimpleNamespace(shape={'fsdp': 1, 'tensor': 3}))
    queries = {'core': {'layers': {'attention': {'query': jax.ShapeDtypeStruct((2, 16, 4, 4), 'float32')}}}}
    with pytest.raises(ConfigError, match=r'3 devices do not divide the heads or the mlp: core.*query: dimension 2'):
        devices.spread(queries, 3)


def test_a_run_is_split_as_asked(monkeypatch):
    run, corpus = Run(None, None, 'whole', step=0, host={}), types.SimpleNamespace(tokenizer=None)
    monkeypatch.setattr(generate, 'open_run', lambda *_: (run, corpus))
    monkeypatch.setattr(generate, 'spread', lambda params, count: (params, count))
    monkeypatch.setattr(generate, 'generate', lambda run, *_: [run.params])
    settings = {'length': 1, 'temperature': 1.0, 'top_k': None, 'top_p': None, 'seed': 0}
    assert list(generate.sample_run('', '', None, 'a', **settings, num_devices=2)) == [('whole', 2)]
