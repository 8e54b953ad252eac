"""Digests of checkpoints: which files they cover, and what they tell of a damaged directory."""

from __future__ import annotations

import hashlib

import pytest
from etils import epath

from memjax.runs import digest

CONTENTS = {'a': b'', 'b': b'1', 'sub/c': b'22', 'sub/sub/d': b'x' * 3_000_000}


@pytest.fixture
def covered(tmp_path):
    """A directory and the path for its digest."""
    directory = epath.Path(tmp_path / 'covered')
    for name, content in CONTENTS.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory, epath.Path(tmp_path / 'covered.sha256')


def test_every_file_below_is_covered_in_order(covered):
    digest.write(*covered)
    expected = [f'{hashlib.sha256(content).hexdigest()}  {name}\n' for name, content in CONTENTS.items()]
    assert covered[1].read_text() == ''.join(expected)
    assert digest.fault(covered[0], [covered[1]]) is None


def test_parts_cover_each_file_once_and_are_all_needed(covered):
    directory, path = covered
    parts = [path.with_name(f'{part}.sha256') for part in range(3)]
    for part, part_path in enumerate(parts):
        digest.write(directory, part_path, part, len(parts))
    assert sum(len(part.read_text().splitlines()) for part in parts) == len(CONTENTS)
    assert digest.fault(directory, parts) is None
    assert digest.fault(directory, parts[:2]) == 'sub/c is in no digest'


@pytest.mark.parametrize(
    ('damage', 'fault'),
    [
        (lambda data: data[:-1], 'its digest is cut off'),
        (lambda data: data[:-1] + b'\x0b', 'its digest is cut off'),
        # What splitlines() would take for the end of a line.
        (lambda data: data.replace(b'  a\n', b'  a\x0c'), 'a is in no digest'),
        (lambda data: b'z' + data[1:], 'a differs from its digest'),
        (lambda data: data.replace(b'  b', b'  \xff'), 'b is in no digest'),
        (lambda data: b'', 'a is in no digest'),
    ],
)
def test_a_damaged_digest_vouches_for_nothing(covered, damage, fault):
    digest.write(*covered)
    covered[1].write_bytes(damage(covered[1].read_bytes()))
    assert digest.fault(covered[0], [covered[1]]) == fault


def test_a_file_lost_added_or_changed_is_named(covered):
    digest.write(*covered)
    directory, path = covered
    (directory / 'sub' / 'c').write_bytes(b'23')
    assert digest.fault(directory, [path]) == 'sub/c differs from its digest'
    (directory / 'b').unlink()
    assert digest.fault(directory, [path]) == 'b is missing'
    (directory / 'aa').touch()
    assert digest.fault(directory, [path]) == 'aa is in no digest'


def test_what_cannot_be_read_is_a_fault(covered):
    directory, path = covered
    assert digest.fault(directory, []) == 'it has no digest'
    digest.write(directory, path)
    assert digest.fault(directory / 'nowhere', [path]) == 'it cannot be read: No such file or directory'


def test_nothing_at_all_is_not_intact(tmp_path):
    (tmp_path / 'empty').mkdir()
    digest.write(epath.Path(tmp_path / 'empty'), epath.Path(tmp_path / 'digest'))
    assert digest.fault(epath.Path(tmp_path / 'empty'), [epath.Path(tmp_path / 'digest')]) == 'its digest is empty'
