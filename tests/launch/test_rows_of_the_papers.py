"""The rows of the papers' tables that configs/README.md gives as flags: each is accepted, and is another experiment."""

import pathlib
import re

import pytest

from memjax.config import flatten, from_file

CONFIGS = pathlib.Path(__file__).parents[2] / 'configs'


def rows():
    """Config and flags of every line of the tables."""
    name = None
    for line in (CONFIGS / 'README.md').read_text().splitlines():
        name = match[1] if (match := re.search(r'^## .*`--config=configs/(\w+)\.py`', line)) else name
        if match := re.search(r'\| `(--config\.[^`]+)` \|$', line):
            yield name, tuple(match[1].split())


def test_the_tables_are_read():
    assert {name for name, _ in rows()} == {'enwik8_ct', 'wt103_txl_base', 'lm1b_txl_base'}
    assert len(set(rows())) == len(list(rows())) == 19


@pytest.mark.parametrize(('name', 'row'), list(rows()))
def test_a_row_is_accepted_and_sets_what_it_says(name, row, launch, stand_in):
    calls = stand_in('memjax.training.loop', 'train')
    path = CONFIGS / f'{name}.py'
    code, _, err = launch('train', f'--config={path}', *row)
    assert (code, err) == (0, '')
    plain, given = flatten(from_file(path)), flatten(calls[0]['config'])
    set_by_flags = {flag.removeprefix('--config.').partition('=')[0] for flag in row}
    assert {field for field in plain if plain[field] != given[field]} <= set_by_flags
    assert plain != given or 'model.compression=conv' in row[0]
