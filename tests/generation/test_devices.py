"""A text on two devices: the same tokens, from a model that is split."""

import json
import pathlib
import subprocess
import sys

import jax
import pytest
from tiny_models import CT, CT_MORE, RECURRENT, TXL, each

from memjax.errors import ConfigError
from memjax.generation.devices import spread

SCRIPT = pathlib.Path(__file__).parent / 'decode_on_devices.py'


@each([CT[4]], [TXL[1], CT_MORE[0], *RECURRENT[:2]])
def test_two_devices_draw_the_same(variant):
    result = subprocess.run([sys.executable, SCRIPT, json.dumps(variant)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    one, two = json.loads(result.stdout).values()
    assert two['rows'] == one['rows']
    assert [len(row) for row in one['rows']] == [12, 12]
    assert (one['devices'], two['devices']) == (1, 2)
    assert one['split'] == 0
    # An LSTM's layers are split along another axis than this one.
    assert two['split'] >= (0 if variant['name'] == 'lstm' else 12)
    # Not once more after the first call, nor for the second segment.
    assert (one['compiled'], two['compiled']) == (1, 1)


def test_more_devices_than_there_are_are_refused():
    count = len(jax.devices()) + 1
    with pytest.raises(ConfigError, match=f'{count} devices are asked for and there are {count - 1}'):
        spread({}, count)
