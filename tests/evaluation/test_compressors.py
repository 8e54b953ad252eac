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


# Single-threaded: newer versions of xz otherwise cut the data into blocks for several threads.
TOOLS = {'gzip': 'gzip -9', 'bzip2': 'bzip2 -9', 'xz': 'xz -9 -T1', 'xz_extreme': 'xz -9e -T1'}


@pytest.mark.parametrize('name', TOOLS)
@pytest.mark.parametrize('size', [1, 400_000])
def test_equals_the_command_line_tool(name, size):
    command = TOOLS[name].split()
    if shutil.which(command[0]) is None:
        pytest.skip(f'{command[0]} is not installed')
    data = make_text(size)
    made = len(subprocess.run([*command, '-c'], input=data, capture_output=True, check=True).stdout)
    assert compressed_bits_per_byte(name, data) == 8 * made / size


@pytest.mark.parametrize('name', COMPRESSORS)
def test_pieces_give_the_same_as_the_whole(name):
    data = make_text(50_000)
    pieces = (data[start : start + 777] for start in range(0, len(data), 777))
    assert compressed_bits_per_byte(name, pieces) == compressed_bits_per_byte(name, data) < 8


def test_the_context_model_needs_five_bytes_of_context_and_no_more():
    # Each byte follows from the n before it (a de Bruijn-like walk): plain to a model of order 5 if n is at most 5.
    def recurrence(n):
        seen, generator = {}, random.Random(1)
        text = bytearray(generator.choices(range(4), k=n))
        for _ in range(60_000):
            if generator.random() < 0.02:  # else the walk soon repeats
                text.append(generator.randrange(4))
            else:
                text.append(seen.setdefault(bytes(text[-n:]), generator.randrange(4)))
        return bytes(text)

    assert compressed_bits_per_byte('ppmd', recurrence(5)) < 0.6
    assert compressed_bits_per_byte('ppmd', recurrence(9)) > 1.2


def test_no_data_has_no_ratio():
    assert math.isnan(compressed_bits_per_byte('gzip', b''))


def test_an_unknown_name_is_a_config_error():
    with pytest.raises(ConfigError, match=r"\Ano compressor 'zip': there are gzip, bzip2, xz, xz_extreme, ppmd\Z"):
        compressed_bits_per_byte('zip', b'text')
