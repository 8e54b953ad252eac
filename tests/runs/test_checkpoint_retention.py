"""Which checkpoints stay, which is the best, and which are removed."""

from __future__ import annotations

import pytest
from small_checkpoints import files, flip_a_bit, names, save

from memjax.errors import CheckpointError
from memjax.runs import digest
from memjax.runs.checkpoint import Checkpoints


def test_retention_keeps_the_newest_and_the_best(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        for step, loss, kept in (
            (1, None, {1}),
            (2, 3.0, {1, 2}),
            (3, float('nan'), {2, 3}),
            (4, 2.0, {3, 4}),
            (5, 2.5, {4, 5}),
            (6, None, {4, 5, 6}),
            (7, 2.0, {6, 7}),  # the newer of equals is the best
        ):
            save(checkpoints, step, loss)
            checkpoints.wait()
            assert set(names(tmp_path)) == {name for s in kept for name in (f'{s}', f'{s}.sha256')}, step
    assert (checkpoints.latest_good(), checkpoints.best_good()) == (7, 7)


def test_retention_goes_on_in_a_new_process_and_a_bad_best_displaces_no_good_one(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        save(checkpoints, 1, 2.0)
        save(checkpoints, 2, 1.0)
        save(checkpoints, 3, 3.0)
        checkpoints.wait()
        assert {'2', '3'} == {name for name in names(tmp_path) if name.isdecimal()}
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        save(checkpoints, 4, 2.0)
        checkpoints.wait()
        flip_a_bit(files(tmp_path / '2')[0])
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        assert checkpoints.best_good() == 4
        save(checkpoints, 5, 9.0)
    assert {'4', '5'} == {name for name in names(tmp_path) if name.isdecimal()}


def test_best_good_passes_over_a_damaged_best(copied):
    assert Checkpoints(copied).best_good() == 1
    flip_a_bit(files(copied / '1')[0])
    assert Checkpoints(copied).best_good() == 2


def test_without_recorded_losses_there_is_no_best(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        save(checkpoints, 1)
        checkpoints.wait()
        assert checkpoints.best_good() is None


def test_discard_after_removes_what_is_newer_good_or_bad(tmp_path):
    with Checkpoints(tmp_path, keep=9) as checkpoints:
        for step in (1, 2, 3, 10):
            save(checkpoints, step)
    (tmp_path / '3.sha256').unlink()
    (tmp_path / '7').mkdir()
    with Checkpoints(tmp_path, keep=9) as checkpoints:
        checkpoints.discard_after(2)
        assert names(tmp_path) == ['1', '1.sha256', '2', '2.sha256']
        save(checkpoints, 3)
        checkpoints.wait()
        assert checkpoints.good_steps() == [1, 2, 3]


def test_the_old_goes_only_after_the_new_has_its_digest(tmp_path, monkeypatch):
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        save(checkpoints, 1)

    def full(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(digest, 'write', full)
    checkpoints = Checkpoints(tmp_path, keep=1)
    save(checkpoints, 2)
    with pytest.raises(CheckpointError, match=r'checkpoint 2 in .* cannot be written: No space left on device'):
        checkpoints.close()
    assert Checkpoints(tmp_path).good_steps() == [1]
