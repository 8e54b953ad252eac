"""Systems that are made up: every timing takes as many tenths of a second as memory has slots, times a factor."""

import pathlib
import sys

from memjax.benchmark.peers import Peer

_PROGRAM = """
import json, sys
for line in sys.stdin:
    work = json.loads(line)
    if work['kind'] == 'versions':
        print(json.dumps({'NAME': '1.0'}), flush=True)
        continue
    if work['memory_length'] == 13:
        sys.exit('bad luck')
    tokens = work['batch_size'] * work['count']
    print(json.dumps({'seconds': SLOWER * work['memory_length'] / 10, 'tokens': tokens, 'bytes': 7}), flush=True)
"""


def program(folder: pathlib.Path, slower: int = 1, name: str = 'system') -> pathlib.Path:
    """A program that tells its version as `name`'s, and dies where memory has 13 slots."""
    path = folder / f'{name}_{slower}.py'
    path.write_text(_PROGRAM.replace('SLOWER', str(slower)).replace('NAME', name))
    return path


def installed(folder: pathlib.Path, environments: pathlib.Path, name: str, slower: int = 1) -> Peer:
    """A peer whose environment is there."""
    (environments / name / 'bin').mkdir(parents=True)
    (environments / name / 'bin' / 'python').symlink_to(sys.executable)
    (environments / name / 'installed').write_text('nothing')
    return Peer(name, ('nothing',), program(folder, slower, name))
