from __future__ import annotations

import math
import random
import shutil
import subprocess

import pytest

from memjax.errors import ConfigError
from memjax.evaluation.compressors import COMPRESSORS, compressed_bits_per_byte


def make_text(size):
    words = [bytes(random.Random(i).choices(b'etaoinshrdlu', k=2 + i % 9)) for i in range(3000)]
    chosen = random.Random(0).choices(words, weights=[1 / (1 + i) for i in range(3000)], k=size // 4 + 1)
    return b' '.join(chosen)[:size]


@pytest.mark.parametrize('name', COMPRESSORS)
@pytest.mark.parametrize('size', [1, 400_000])
def test_equals_the_command_line_tool(name, size):
    if shutil.which(name) is None:
        pytest.skip(f'{name} is not installed')
    data = make_text(size)
    # Single-threaded: newer versions of xz otherwise cut the data into blocks for several threads.
    options = ['-9', '-c', '-T1'] if name == 'xz' else ['-9', '-c']
    made = len(subprocess.run([name, *options], input=data, capture_output=True, check=True).stdout)
    assert compressed_bits_per_byte(name, data) == 8 * made / size


@pytest.mark.parametrize('name', COMPRESSORS)
def test_pieces_give_the_same_as_the_whole(name):
    data = make_text(50_000)
    pieces = (data[start : start + 777] for start in range(0, len(data), 777))
    assert compressed_bits_per_byte(name, pieces) == compressed_bits_per_byte(name, data) < 8


def test_no_data_has_no_ratio():
    assert math.isnan(compressed_bits_per_byte('gzip', b''))


def test_an_unknown_name_is_a_config_error():
    with pytest.raises(ConfigError, match=r"\Ano compressor 'zip': there are gzip, bzip2, xz\Z"):
        compressed_bits_per_byte('zip', b'text')
