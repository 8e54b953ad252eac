"""Checkpoints that are either whole or not used: orbax behind one class.

On disk, for a checkpoint of step 1000 in a directory:

    1000/params, 1000/training, 1000/host   orbax's items, written in the background, renamed into place when complete
    1000.sha256                             digest of all files of 1000/ (1000.PROCESS.sha256: several processes)

Orbax restores flipped bits without a word, so a checkpoint without a digest, or that differs from it, is not good and
is never used.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath
from flax import traverse_util
from jax.experimental import multihost_utils

from memjax import atomic
from memjax.errors import CheckpointError
from memjax.runs import digest, named_arrays, storage_errors

PyTree = Any

storage_errors.silence()


class Checkpoints:
    """The checkpoints of one directory, for the training that writes them and for whoever reads them.

    Only `save`, the retention that follows it, and `discard_after` change the directory, so evaluation may read beside
    a running training. With several processes all must make the same calls. Not for use from several threads.

    Args:
      directory: where the checkpoints are; created by the first save.
      keep: how many of the newest to keep; the best of validation is kept besides.
    """

    def __init__(self, directory: epath.PathLike, keep: int = 1):
        # Orbax wants an absolute path.
        self._directory = epath.Path(os.path.abspath(directory) if atomic.is_local(directory) else directory)
        self._keep = keep
        self._manager: ocp.CheckpointManager | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix='checkpoint')
        self._pending: Future[None] | None = None
        self._verified: set[int] = set()  # read back and equal to their digests
        self._written: set[int] = set()  # committed with a digest by this process

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def save(
        self,
        step: int,
        params: PyTree,
        training: PyTree,
        host: dict[str, Any],
        validation_loss: float | None = None,
    ) -> None:
        """Starts writing a checkpoint; returns as soon as the arrays may be donated.

        First waits for the save before, whose error it raises. A good checkpoint of the same step stays as it is; a bad
        one is replaced.

        Args:
          step: training steps done.
          params: a pytree of arrays, at least one level deep.
          training: another: optimizer state, memory, running sums. Keys as their raw data (`jax.random.key_data`).
          host: what JSON can hold: the data's cursor, counters.
          validation_loss: what `best_good` and retention go by; None (or not finite): not a candidate.

        Raises:
          CheckpointError: it, or the one before, cannot be written. Earlier good ones stay good.
        """
        self.wait()
        if self._is_present(step):
            if self._is_good(step):
                return
            self._remove(step)
        trees = {'params': params, 'training': training}
        items = {item: _save_arguments(arrays) for item, tree in trees.items() if (arrays := named_arrays.named(tree))}
        metadata = {}
        if validation_loss is not None and math.isfinite(validation_loss):
            metadata['validation_loss'] = float(validation_loss)
        # A copy: it is written in the background, when the caller's own may have changed.
        host = json.loads(json.dumps(host))
        with self._reporting(step):
            self._writer().save(
                step,
                args=ocp.args.Composite(host=ocp.args.JsonSave(host), **items),
                custom_metadata=metadata,
                force=True,
            )
        self._pending = self._executor.submit(self._commit, step)

    def wait(self) -> None:
        """Waits until the last save is on disk with its digest, then removes what retention does not keep.

        Raises:
          CheckpointError: it could not be written.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return
        pending.result()
        if jax.process_count() > 1:
            # Every process's digest must exist before an older checkpoint goes.
            multihost_utils.sync_global_devices('checkpoint digests')
        self._retain()

    def close(self) -> None:
        """`wait`, then releases the background threads."""
        try:
            self.wait()
        finally:
            self._executor.shutdown()
            if self._manager is not None:
                self._manager.close()
                self._manager = None

    def good_steps(self) -> list[int]:
        """The steps of all checkpoints that equal their digests, in order; reads every file."""
        return [step for step in self._steps() if self._is_good(step)]

    def latest_good(self) -> int | None:
        """The newest good step, with a warning for each newer one that is not; None if there is none."""
        for step in reversed(self._steps()):
            if self._is_good(step, warn=True):
                return step
        return None

    def best_good(self) -> int | None:
        """The good step of the lowest validation loss (the newest of equals); None if none has recorded a loss."""
        return self._best(self.good_steps())

    def validation_loss(self, step: int) -> float | None:
        """The loss recorded with a good checkpoint, or None."""
        # Without handlers for the items, so that their metadata (a line for every array) is not read.
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
            return reader.metadata(self._directory / str(step)).custom_metadata.get('validation_loss')

    def restore(
        self, step: int, abstract_params: PyTree, abstract_training: PyTree
    ) -> tuple[PyTree, PyTree, dict[str, Any]]:
        """Reads a checkpoint, whatever devices wrote it.

        Args:
          step: which one.
          abstract_params: `jax.ShapeDtypeStruct`s (or arrays) in the structure that was saved; each leaf comes back
            with its sharding, or on the default device if it has none.
          abstract_training: the same.

        Returns:
          params, training, host.

        Raises:
          CheckpointError: it is missing or damaged, or its shapes are of another model.
        """
        restored = self._restore(step, {'params': abstract_params, 'training': abstract_training}, host=True)
        return restored['params'], restored['training'], restored['host']

    def restore_params(self, step: int, abstract_params: PyTree) -> PyTree:
        """`restore` of the parameters alone."""
        return self._restore(step, {'params': abstract_params}, host=False)['params']

    def host(self, step: int) -> dict[str, Any]:
        """What `save` was given as `host` (see `restore` for errors)."""
        return self._restore(step, {}, host=True)['host']

    def discard_after(self, step: int) -> None:
        """Removes every checkpoint newer than the step: bad ones, or those of a future that will not be.

        Raises:
          CheckpointError: one cannot be removed, or the last save failed.
        """
        self.wait()
        for newer in self._steps():
            if newer > step:
                self._remove(newer)

    def _writer(self) -> ocp.CheckpointManager:
        if self._manager is None:
            options = ocp.CheckpointManagerOptions(
                # Retention is ours: orbax would remove the old before the new has its digest, and count bad ones in.
                preservation_policy=ocp.checkpoint_managers.LatestN(None),
                cleanup_tmp_directories=True,
                save_root_metadata=False,
            )
            self._manager = ocp.CheckpointManager(self._directory, options=options)
        return self._manager

    def _commit(self, step: int) -> None:
        """In the background: waits until the checkpoint is in place, then writes its digest."""
        with self._reporting(step):
            self._manager.wait_until_finished()
            processes, process = jax.process_count(), jax.process_index()
            name = f'{step}.sha256' if processes == 1 else f'{step}.{process}.sha256'
            digest.write(self._directory / str(step), self._directory / name, process, processes)
            self._written.add(step)

    @contextlib.contextmanager
    def _reporting(self, step: int, action: str = 'written') -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # This one would raise the same error at every further call; the next sweeps what is half-written.
            self._manager = None
            if not storage_errors.is_storage_error(error):
                raise
            raise CheckpointError(
                f'checkpoint {step} in {self._directory} cannot be {action}: {storage_errors.reason(error)}'
            ) from error

    def _retain(self) -> None:
        steps = self._steps()
        good = [step for step in steps if step in self._written or step in self._verified or self._is_good(step)]
        kept = {*good[-self._keep :], self._best(good)}
        for step in steps:
            if step not in kept:
                self._remove(step)

    def _remove(self, step: int) -> None:
        self._verified.discard(step)
        self._written.discard(step)
        with self._reporting(step, 'removed'):
            # The digest first: what is left if this is interrupted is then plainly not good.
            for path in self._digests(step) if jax.process_index() == 0 else ():
                path.unlink()
            if step in self._writer().all_steps():
                self._writer().delete(step)

    def _is_present(self, step: int) -> bool:
        return bool(_agreed([(self._directory / str(step)).exists() or bool(self._digests(step))])[0])

    def _steps(self) -> list[int]:
        if not self._directory.exists():
            return _agreed([])
        return _agreed(sorted(int(path.name) for path in self._directory.iterdir() if path.name.isdecimal()))

    def _digests(self, step: int) -> list[epath.Path]:
        if not self._directory.exists():
            return []
        return [*self._directory.glob(f'{step}.sha256'), *self._directory.glob(f'{step}.*.sha256')]

    def _is_good(self, step: int, warn: bool = False) -> bool:
        fault = None
        if jax.process_index() == 0:
            fault = digest.fault(self._directory / str(step), self._digests(step))
            if fault and warn:
                logging.warning('checkpoint %d in %s is not used: %s', step, self._directory, fault)
        good = bool(_agreed([fault is None])[0])
        if good:
            self._verified.add(step)
        return good

    def _best(self, good: list[int]) -> int | None:
        losses = {step: self.validation_loss(step) for step in good}
        return min((step for step in good if losses[step] is not None), key=lambda s: (losses[s], -s), default=None)

    def _restore(self, step: int, abstract: dict[str, PyTree], host: bool) -> dict[str, Any]:
        if step not in self._steps():
            raise CheckpointError(f'there is no checkpoint {step} in {self._directory}')
        if step not in self._verified and not self._is_good(step, warn=True):
            raise CheckpointError(f'checkpoint {step} in {self._directory} is damaged')
        arguments: dict[str, Any] = {'host': ocp.args.JsonRestore()} if host else {}
        with _reader() as reader:
            saved = reader.metadata(self._directory / str(step)).item_metadata
            for item, tree in abstract.items():
                wanted = named_arrays.named(tree)
                self._check_shapes(step, item, saved.get(item), wanted)
                if wanted:
                    arguments[item] = _restore_arguments(wanted)
            restored = reader.restore(self._directory / str(step), args=ocp.args.Composite(**arguments))
        trees = {
            item: named_arrays.rebuild(tree, _flat(restored.get(item)), _empty_array) for item, tree in abstract.items()
        }
        return {**trees, 'host': restored['host']} if host else trees

    def _check_shapes(self, step: int, item: str, metadata: Any, wanted: dict[str, Any]) -> None:
        saved = _flat(metadata.tree) if metadata is not None else {}
        difference = named_arrays.first_difference(saved, wanted)
        if difference is not None:
            name, there, here = difference
            raise CheckpointError(
                f'checkpoint {step} in {self._directory} is of another model: {item}/{name} is {there} there, '
                f'{here} here'
            )


def _reader() -> ocp.Checkpointer:
    handler = ocp.CompositeCheckpointHandler(
        params=ocp.PyTreeCheckpointHandler(), training=ocp.PyTreeCheckpointHandler(), host=ocp.JsonCheckpointHandler()
    )
    return ocp.Checkpointer(handler)


def _flat(tree: PyTree | None) -> dict[str, Any]:
    return traverse_util.flatten_dict(tree, sep='/') if tree is not None else {}


def _empty_array(leaf: Any) -> jax.Array:
    return jax.device_put(np.zeros(leaf.shape, leaf.dtype), _sharding(leaf))


def _save_arguments(arrays: dict[str, Any]) -> ocp.args.PyTreeSave:
    # Orbax turns NumPy's scalars into Python's, which have no dtype.
    arrays = {name: array if isinstance(array, jax.Array) else np.asarray(array) for name, array in arrays.items()}
    return ocp.args.PyTreeSave(traverse_util.unflatten_dict(arrays, sep='/'))


def _sharding(leaf: Any) -> jax.sharding.Sharding:
    sharding = getattr(leaf, 'sharding', None)
    return sharding if sharding is not None else jax.sharding.SingleDeviceSharding(jax.local_devices()[0])


def _restore_arguments(leaves: dict[str, Any]) -> ocp.args.PyTreeRestore:
    arguments = {
        name: ocp.ArrayRestoreArgs(restore_type=jax.Array, dtype=leaf.dtype, sharding=_sharding(leaf))
        for name, leaf in leaves.items()
    }
    return ocp.args.PyTreeRestore(
        item=traverse_util.unflatten_dict(leaves, sep='/'),
        restore_args=traverse_util.unflatten_dict(arguments, sep='/'),
    )


def _agreed(numbers: list[int]) -> list[int]:
    """Process 0's numbers, on every process: what others see of a shared file system may lag behind."""
    if jax.process_count() == 1:
        return numbers
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(numbers))))
    padded = np.zeros(length, np.int32)
    if jax.process_index() == 0:
        padded[:] = numbers
    return [int(number) for number in multihost_utils.broadcast_one_to_all(padded)]
