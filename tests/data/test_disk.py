"""The disk's faults, and directories and files that are whole or not there."""

from __future__ import annotations

import errno

import pytest

from memjax.data.disk import disk_faults_told, replace_directory, scratch_directory
from memjax.errors import DataError


def test_a_scratch_directory_is_empty_at_first_and_gone_at_last(tmp_path):
    path = tmp_path / 'below' / 'scratch'
    path.mkdir(parents=True)
    (path / 'stale').touch()
    with pytest.raises(KeyboardInterrupt), scratch_directory(path) as scratch:
        assert not list(scratch.iterdir())
        (scratch / 'new').touch()
        raise KeyboardInterrupt
    assert not path.exists()


def test_a_directory_takes_the_place_of_another(tmp_path):
    for name in ('first', 'second', 'scratch'):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    place = tmp_path / 'below' / 'place'
    for name in ('first', 'second'):
        replace_directory(tmp_path / name, place, tmp_path / 'scratch')
        assert [path.name for path in place.iterdir()] == [name]


def wrapped(error):
    """As a library raises it that adds its own words."""
    try:
        raise error
    except type(error) as cause:
        raise RuntimeError(f'while writing: {cause}') from cause


@pytest.mark.parametrize(
    ('error', 'message'),
    [
        (OSError(errno.ENOSPC, 'No space left on device'), 'cannot do it: No space left on device'),
        (PermissionError(errno.EACCES, 'Permission denied', '/x'), 'cannot do it: Permission denied (/x)'),
        (RuntimeError('write() failed: No space left on device; at byte 3'), 'cannot do it: No space left on device'),
        (DataError('the text is wrong'), 'the text is wrong'),
    ],
)
def test_faults_become_one_line(error, message):
    for raising in (wrapped, _raise):
        with pytest.raises(DataError) as caught, disk_faults_told('cannot do it'):
            raising(error)
        assert str(caught.value) == message


def test_other_errors_stay_what_they_are():
    for error in (KeyError('a bug'), KeyboardInterrupt()):
        with pytest.raises(type(error)), disk_faults_told('cannot do it'):
            raise error


def _raise(error):
    raise error
