"""Damaged checkpoints, disks that refuse, killed saves: the good checkpoints before are not lost."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_checkpoints import (
    abstract,
    assert_same_bits,
    files,
    flip_a_bit,
    make_params,
    make_training,
    names,
    run_python,
    save,
)

from memjax.errors import CheckpointError
from memjax.runs import digest
from memjax.runs.checkpoint import Checkpoints

DAMAGES = ('flip', 'truncate', 'extend', 'delete', 'add', 'digest lost', 'digest flipped', 'digest cut', 'digest empty')


def damage(directory, kind, draw):
    paths = files(directory / '2')
    path = paths[draw(st.integers(0, len(paths) - 1))]
    digest_path = directory / '2.sha256'
    if kind in ('flip', 'digest flipped'):
        target = path if kind == 'flip' else digest_path
        data = bytearray(target.read_bytes())
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
        target.write_bytes(data)
    elif kind == 'truncate':
        os.truncate(path, draw(st.integers(0, path.stat().st_size - 1)))
    elif kind == 'extend':
        path.write_bytes(path.read_bytes() + b'\0')
    elif kind == 'delete':
        path.unlink()
    elif kind == 'add':
        path.with_name('extra').write_bytes(b'')
    elif kind == 'digest lost':
        digest_path.unlink()
    elif kind == 'digest cut':
        lines = digest_path.read_bytes().splitlines(keepends=True)
        digest_path.write_bytes(b''.join(lines[: draw(st.integers(0, len(lines) - 1))]))
    else:
        digest_path.write_bytes(b'')


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_damage_makes_a_checkpoint_bad_and_the_one_before_is_taken(saved, tmp_path_factory, data):
    directory = Path(shutil.copytree(saved, tmp_path_factory.mktemp('damaged') / 'checkpoints'))
    damage(directory, data.draw(st.sampled_from(DAMAGES)), data.draw)
    checkpoints = Checkpoints(directory)
    assert checkpoints.good_steps() == [1]
    assert checkpoints.latest_good() == 1
    with pytest.raises(CheckpointError, match=r'\Acheckpoint 2 in .* is damaged\Z'):
        checkpoints.restore_params(2, abstract(make_params()))
    shutil.rmtree(directory)


def test_one_warning_says_what_is_wrong_with_a_bad_checkpoint(copied, caplog):
    path = files(copied / '2')[-1]
    flip_a_bit(path)
    assert Checkpoints(copied).latest_good() == 1
    assert [record.getMessage() for record in caplog.records] == [
        f'checkpoint 2 in {copied} is not used: {path.relative_to(copied / "2")} differs from its digest'
    ]


@pytest.mark.parametrize(
    'lost',
    [
        '_CHECKPOINT_METADATA',
        'commit_success.txt',
        'params',
        'everything',
        'digest',
        'sense of metadata',
        'all but digest',
    ],
)
def test_saving_over_a_bad_checkpoint_replaces_it(copied, lost):
    if lost == 'everything':
        shutil.rmtree(copied / '2')
        (copied / '2').mkdir()
    elif lost == 'all but digest':
        # Of a run on two processes, so that the new digest does not simply replace it.
        shutil.rmtree(copied / '2')
        (copied / '2.sha256').rename(copied / '2.0.sha256')
    elif lost == 'digest':
        (copied / '2.sha256').unlink()
    elif lost == 'sense of metadata':
        (copied / '2' / '_CHECKPOINT_METADATA').write_bytes(b'\xff')
    elif lost == 'params':
        shutil.rmtree(copied / '2' / 'params')
    else:
        (copied / '2' / lost).unlink()
    with Checkpoints(copied, keep=2) as checkpoints:
        assert checkpoints.latest_good() == 1
        checkpoints.save(2, make_params(9), make_training(9), {}, 0.5)
        checkpoints.wait()
        assert checkpoints.good_steps() == [1, 2]
        assert_same_bits(checkpoints.restore_params(2, abstract(make_params())), make_params(9))


def test_a_read_only_directory_is_one_line(tmpfs):
    directory = tmpfs('size=1m,ro') / 'checkpoints'
    with pytest.raises(CheckpointError, match='cannot be written: Read-only file system'), Checkpoints(directory) as c:
        save(c, 1)


def test_faults_of_the_program_are_not_reported_as_the_users(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError('a fault of ours')

    monkeypatch.setattr(digest, 'write', broken)
    with pytest.raises(ValueError, match='a fault of ours'), Checkpoints(tmp_path) as checkpoints:
        save(checkpoints, 1)


def test_leftovers_of_a_killed_save_are_swept_by_the_next(tmp_path):
    (tmp_path / '2.orbax-checkpoint-tmp' / 'params').mkdir(parents=True)
    with Checkpoints(tmp_path) as checkpoints:
        save(checkpoints, 3)
    assert names(tmp_path) == ['3', '3.sha256']


FILL_THE_DISK = """
import sys, jax
from memjax.errors import CheckpointError
from memjax.runs.checkpoint import Checkpoints

params = {f'w{i}': jax.random.normal(jax.random.key(i), (3_000,)) for i in range(16)}
try:
    with Checkpoints(sys.argv[1], keep=20) as checkpoints:
        for step in range(1, 20):
            checkpoints.save(step, params, {}, {})
except CheckpointError as error:
    print(error)
"""


def test_a_full_disk_is_one_line_and_earlier_checkpoints_stay_good(tmpfs, capfd):
    directory = tmpfs('size=1m') / 'checkpoints'
    message, _ = run_python(FILL_THE_DISK, directory).communicate(timeout=120)
    failed = re.fullmatch(rf'checkpoint (\d+) in {directory} cannot be written: No space left on device\n', message)
    assert failed, message
    assert capfd.readouterr().err == ''
    good = list(range(1, int(failed[1])))
    assert len(good) > 1
    assert Checkpoints(directory).good_steps() == good


SAVE_WITHOUT_END = """
import sys, itertools, jax, jax.numpy as jnp, numpy as np
from memjax.runs.checkpoint import Checkpoints

abstract = {'w': jax.ShapeDtypeStruct((50_000,), jnp.float32)}
checkpoints = Checkpoints(sys.argv[1], keep=1)
step = checkpoints.latest_good()
if step is None:
    step = 0
else:
    params, training, host = checkpoints.restore(step, abstract, abstract)
    for tree in (params, training):
        np.testing.assert_array_equal(tree['w'], np.full(50_000, step))
    assert host == {'step': step}
checkpoints.discard_after(step)
print(step, flush=True)
for step in itertools.count(step + 1):
    tree = {'w': jnp.full((50_000,), float(step))}
    checkpoints.save(step, tree, tree, {'step': step}, validation_loss=1.0 / step)
"""


@pytest.mark.slow
def test_kill_at_any_moment_loses_no_good_checkpoint(tmp_path):
    moments = random.Random(0)
    latest = 0
    for _ in range(12):
        child = run_python(SAVE_WITHOUT_END, tmp_path)
        assert int(child.stdout.readline()) == latest
        time.sleep(moments.uniform(0.0, 1.5))
        child.send_signal(signal.SIGKILL)
        child.wait()
        step = Checkpoints(tmp_path).latest_good()
        assert step is not None or latest == 0
        assert (step or 0) >= latest
        latest = step or 0
    assert latest > 3
