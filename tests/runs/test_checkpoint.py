"""What is saved is restored to the bit, on other devices too, and only to a model it fits."""

from __future__ import annotations

import subprocess
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import logging
from small_checkpoints import abstract, assert_same_bits, make_params, make_training, names, run_python, save

from memjax.errors import CheckpointError
from memjax.runs.checkpoint import Checkpoints


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


def test_saving_over_a_good_checkpoint_leaves_it(copied):
    with Checkpoints(copied, keep=2) as checkpoints:
        checkpoints.save(2, make_params(9), make_training(9), {})
    assert_same_bits(Checkpoints(copied).restore_params(2, abstract(make_params())), make_params(2))


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
