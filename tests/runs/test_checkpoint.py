from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import logging
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax.errors import CheckpointError
from memjax.runs import digest
from memjax.runs.checkpoint import Checkpoints


class Counters(NamedTuple):
    step: jax.Array
    rest: tuple


def make_params(seed=0):
    return {'embed': {'kernel': jax.random.normal(jax.random.key(seed), (3, 4))}, 'layers': [jnp.ones(2), jnp.zeros(3)]}


def make_training(seed=0):
    return {
        'counters': Counters(step=jnp.int32(7 + seed), rest=(np.arange(3, dtype=np.int32), None, ())),
        # -0.0, infinity and a NaN with a payload among arbitrary bits.
        'halves': jax.lax.bitcast_convert_type(
            jnp.array([0x8000, 0x7F80, 0x7FC1, 0x3F81], jnp.uint16) + seed, jnp.bfloat16
        ),
        'key': jax.random.key_data(jax.random.key(2**31 + seed)),
        'empty_memory': jnp.zeros((2, 0, 4), jnp.bfloat16),
        'scalar': np.float32(1.5),
    }


def abstract(tree):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)


def assert_same_bits(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert isinstance(a, jax.Array)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def save(checkpoints, step, validation_loss=None):
    checkpoints.save(step, make_params(step), make_training(step), {'cursor': [step, 2**40]}, validation_loss)


def names(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def files(step_directory):
    return sorted(path for path in Path(step_directory).rglob('*') if path.is_file())


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
    """Checkpoints 1 and 2; tests that change something copy it."""
    directory = tmp_path_factory.mktemp('saved')
    with Checkpoints(directory, keep=2) as checkpoints:
        save(checkpoints, 1, validation_loss=1.0)
        save(checkpoints, 2, validation_loss=2.0)
    return directory


@pytest.fixture
def copied(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / 'checkpoints'))


def test_every_bit_comes_back(saved):
    checkpoints = Checkpoints(saved)
    params, training, host = checkpoints.restore(2, abstract(make_params()), abstract(make_training()))
    assert_same_bits(params, make_params(2))
    assert_same_bits(training, make_training(2))
    assert host == {'cursor': [2, 2**40]}
    assert_same_bits(checkpoints.restore_params(1, abstract(make_params())), make_params(1))


def test_restored_arrays_can_be_donated(saved):
    params = Checkpoints(saved).restore_params(1, abstract(make_params()))
    doubled = jax.jit(lambda tree: jax.tree.map(lambda x: 2 * x, tree), donate_argnums=0)(params)
    assert params['embed']['kernel'].is_deleted()
    np.testing.assert_array_equal(doubled['embed']['kernel'], 2 * make_params(1)['embed']['kernel'])


def test_donating_right_after_save_does_not_change_what_is_saved(tmp_path):
    increment = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    params = increment({f'w{i}': jnp.zeros((500, 500)) for i in range(10)})
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, params, {}, {})
            params = increment(params)
        checkpoints.wait()
        for step in (1, 2, 3):
            restored = checkpoints.restore_params(step, abstract(params))
            assert {float(value) for w in restored.values() for value in np.unique(w)} == {step}


def test_digests_are_what_sha256sum_checks(saved):
    for step in (1, 2):
        subprocess.run(
            ['sha256sum', '--check', '--quiet', '--strict', saved / f'{step}.sha256'], cwd=saved / str(step), check=True
        )


def test_the_digest_is_there_without_waiting(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        save(checkpoints, 1)
        deadline = time.monotonic() + 30
        while not (tmp_path / '1.sha256').exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert Checkpoints(tmp_path).latest_good() == 1


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


def test_saving_over_a_good_checkpoint_leaves_it(copied):
    with Checkpoints(copied, keep=2) as checkpoints:
        checkpoints.save(2, make_params(9), make_training(9), {})
    assert_same_bits(Checkpoints(copied).restore_params(2, abstract(make_params())), make_params(2))


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


def test_what_json_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        with pytest.raises(TypeError, match='not JSON serializable'):
            checkpoints.save(1, make_params(), {}, {'cursor': object()})
        assert names(tmp_path) == []
        save(checkpoints, 1)
    assert checkpoints.good_steps() == [1]


def test_checkpoint_of_another_model_names_the_first_parameter_that_differs(saved):
    params = abstract(make_params())
    params['embed']['kernel'] = jax.ShapeDtypeStruct((3, 5), jnp.float32)
    with pytest.raises(
        CheckpointError,
        match=r'\A[^\n]*of another model: params/embed/kernel is float32\[3, 4\] there, float32\[3, 5\] here\Z',
    ):
        Checkpoints(saved).restore(1, params, abstract(make_training()))
    params = abstract(make_params())
    params['layers'] = params['layers'][:1]
    with pytest.raises(CheckpointError, match=r'params/layers/1 is float32\[3\] there, absent here'):
        Checkpoints(saved).restore_params(1, params)
    params = abstract(make_params())
    params['head'] = jax.ShapeDtypeStruct((2,), jnp.float32)
    with pytest.raises(CheckpointError, match=r'params/head is absent there, float32\[2\] here'):
        Checkpoints(saved).restore_params(1, params)
    training = abstract(make_training())
    training['halves'] = jax.ShapeDtypeStruct((4,), jnp.float32)
    with pytest.raises(CheckpointError, match=r'training/halves is bfloat16\[4\] there, float32\[4\] here'):
        Checkpoints(saved).restore(1, abstract(make_params()), training)


def test_missing_checkpoint_and_missing_directory(saved, tmp_path):
    with pytest.raises(CheckpointError, match='there is no checkpoint 3 in '):
        Checkpoints(saved).restore_params(3, abstract(make_params()))
    nothing = Checkpoints(tmp_path / 'nowhere')
    assert (nothing.good_steps(), nothing.latest_good(), nothing.best_good()) == ([], None, None)
    with pytest.raises(CheckpointError, match='there is no checkpoint 1 in '):
        nothing.restore_params(1, abstract(make_params()))
    assert not (tmp_path / 'nowhere').exists()


def test_reading_does_not_disturb_a_save_in_progress(tmp_path):
    with Checkpoints(tmp_path, keep=2) as writer:
        save(writer, 1)
        writer.wait()
        unfinished = tmp_path / '2.orbax-checkpoint-tmp'
        unfinished.mkdir()
        reader = Checkpoints(tmp_path)
        assert reader.latest_good() == 1
        reader.restore_params(1, abstract(make_params()))
        reader.close()
        assert unfinished.exists()


def test_leftovers_of_a_killed_save_are_swept_by_the_next(tmp_path):
    (tmp_path / '2.orbax-checkpoint-tmp' / 'params').mkdir(parents=True)
    with Checkpoints(tmp_path) as checkpoints:
        save(checkpoints, 3)
    assert names(tmp_path) == ['3', '3.sha256']


def test_orbax_does_not_log(tmp_path, caplog):
    before = logging.get_verbosity()
    logging.set_verbosity(logging.DEBUG)
    try:
        with Checkpoints(tmp_path) as checkpoints:
            save(checkpoints, 1)
            checkpoints.wait()
            checkpoints.restore(1, abstract(make_params()), abstract(make_training()))
    finally:
        logging.set_verbosity(before)
    assert [record for record in caplog.records if record.name == 'absl'] == []


def run_python(code, *arguments, devices=1):
    flags = {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': f'--xla_force_host_platform_device_count={devices}'}
    command = [sys.executable, '-c', code, *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, **flags}, stdout=subprocess.PIPE, text=True)


RESHARD = """
import sys, jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from memjax.runs.checkpoint import Checkpoints

mesh = jax.make_mesh((4, 2), ('x', 'y'))
value = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
written = NamedSharding(mesh, P('x', 'y'))
read = NamedSharding(mesh, P(None, 'x'))
with Checkpoints(sys.argv[1]) as checkpoints:
    checkpoints.save(1, {'w': jax.device_put(value, written)}, {}, {})
    checkpoints.wait()
    wanted = {'w': jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=read)}
    w = checkpoints.restore_params(1, wanted)['w']
assert w.sharding == read, w.sharding
assert len({shard.device for shard in w.addressable_shards}) == 8
np.testing.assert_array_equal(w, value)
"""


def test_what_eight_devices_saved_is_restored_to_another_sharding_and_to_one_device(tmp_path):
    assert run_python(RESHARD, tmp_path, devices=8).wait(timeout=120) == 0
    w = Checkpoints(tmp_path).restore_params(1, {'w': jax.ShapeDtypeStruct((8, 16), jnp.float32)})['w']
    np.testing.assert_array_equal(w, np.arange(8 * 16).reshape(8, 16))


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


TWO_PROCESSES = """
import sys, jax, numpy as np
jax.config.update('jax_cpu_collectives_implementation', 'gloo')
jax.distributed.initialize(f'localhost:{sys.argv[2]}', num_processes=2, process_id=int(sys.argv[3]))
from jax.sharding import NamedSharding, PartitionSpec as P
from memjax.runs.checkpoint import Checkpoints

sharding = NamedSharding(jax.make_mesh((2,), ('x',)), P('x'))
make = lambda step: jax.make_array_from_callback((8,), sharding, lambda index: np.full(8, step, np.float32)[index])
with Checkpoints(sys.argv[1], keep=1) as checkpoints:
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 5.0)):
        checkpoints.save(step, {'w': make(step)}, {'count': make(step)}, {'step': step}, loss)
    checkpoints.wait()
    assert checkpoints.good_steps() == [2, 4], checkpoints.good_steps()
    wanted = {'w': jax.ShapeDtypeStruct((8,), np.float32, sharding=sharding)}
    w = checkpoints.restore_params(checkpoints.best_good(), wanted)['w']
    np.testing.assert_array_equal(w.addressable_shards[0].data, np.full(4, 2))
    checkpoints.discard_after(2)
    assert checkpoints.good_steps() == [2], checkpoints.good_steps()
"""


@pytest.mark.slow
def test_two_processes_save_what_one_restores(tmp_path, unused_port):
    children = [run_python(TWO_PROCESSES, tmp_path, unused_port, process) for process in (0, 1)]
    assert [child.wait(timeout=180) for child in children] == [0, 0]
    assert names(tmp_path) == ['2', '2.0.sha256', '2.1.sha256']
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest_good() == 2
    w = checkpoints.restore_params(2, {'w': jax.ShapeDtypeStruct((8,), jnp.float32)})['w']
    np.testing.assert_array_equal(w, np.full(8, 2))
    (tmp_path / '2.1.sha256').unlink()
    assert Checkpoints(tmp_path).latest_good() is None
