"""How much memory preparing takes: bounded, and the same for a corpus four times as large."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from memjax.data import lm1b

_PROGRAM = """
import pathlib, re, sys
from memjax.config import base_config
from memjax.data import builders
from memjax.data.prepare import prepare
if len(sys.argv) > 5:
    builders.PIECE_BYTES, builders.SHARD_BYTES = 1 << 20, 8 << 20
data = base_config().data
data.name, data.convention, data.path, data.subset = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[1] == 'lm1b'
corpus = prepare(data, sys.argv[4], progress=False)
# Not getrusage's: a process takes over the peak of the one that it was forked from, here a test worker's gigabytes.
peak = re.search(r'VmHWM:\\s*(\\d+) kB', pathlib.Path('/proc/self/status').read_text())
print(corpus.splits['train'].num_documents, int(peak[1]) / 1024)
"""


def lines(megabytes, seed=0):
    """Sentences of words from a vocabulary of 20,000, 1 MB at a time."""
    generator = np.random.default_rng(seed)
    words = [f'w{number:x}' for number in range(20_000)]
    for _ in range(megabytes):
        chosen = generator.choice(20_000, 9000 * 22)
        yield [' '.join(words[i] for i in row) for row in chosen.reshape(-1, 22)]


def prepared(corpus, convention, folder, *small):
    command = (sys.executable, '-c', _PROGRAM, corpus, convention, folder / 'source', folder / 'data', *small)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    documents, megabytes = done.stdout.split()
    return int(documents), float(megabytes)


def write_sentences(root, megabytes):
    for split, files in lm1b.FILES.items():
        path = root / files[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open('w') as file:
            for block in lines(megabytes if split == 'train' else 1):
                file.write('\n'.join(block) + '\n')


def write_json(root, megabytes):
    (root / 'train').mkdir(parents=True)
    for name, size in (('train/00', megabytes), ('val', 1), ('test', 1)):
        with (root / f'{name}.jsonl').open('w') as file:
            for block in lines(size):
                file.writelines(json.dumps({'text': '\n'.join(block[i : i + 3])}) + '\n' for i in range(0, 9000, 3))


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path('/proc/self/status').exists(), reason='the peak of memory is read from /proc')
@pytest.mark.parametrize(
    ('corpus', 'convention', 'write'), [('lm1b', 'words', write_sentences), ('pile', 'bytes', write_json)]
)
def test_memory_does_not_grow_with_the_corpus(tmp_path, corpus, convention, write):
    """With TFDS splits of 8 MB in place of 256, so that a few dozen megabytes are many of them."""
    documents, megabytes = [], []
    for size in (20, 80):
        write(tmp_path / str(size) / 'source', size)
        found = prepared(corpus, convention, tmp_path / str(size), 'small')
        documents.append(found[0])
        megabytes.append(found[1])
    assert documents[1] == 4 * documents[0]
    # 540,000 more sentences: with an object each it would be 50 MB and more.
    assert megabytes[1] < megabytes[0] + 30
    assert megabytes[1] < 700
