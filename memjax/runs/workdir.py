"""A run's working directory: whose it is, which run it holds, and what that run ran on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from typing import Any

import jax
from absl import logging
from etils import epath
from ml_collections import config_dict

from memjax import atomic
from memjax import config as config_lib
from memjax.errors import WorkdirError

CONFIG_FILE = 'config.json'
ENVIRONMENT_FILE = 'environment.json'
_LOCK_FILE = '.lock'


@contextlib.contextmanager
def exclusive(workdir: epath.PathLike, process_index: int = 0) -> Iterator[epath.Path]:
    """Creates the directory and holds it against any other training while the context lasts.

    The lock belongs to the process and vanishes with it, however it ends. Object stores have no locks; there, as on a
    file system that refuses them, only the directory is made.

    Args:
      workdir: any `etils.epath` path.
      process_index: only process 0 locks.

    Yields:
      The directory as an `epath.Path`.

    Raises:
      WorkdirError: another training runs on it, or it cannot be written.
    """
    workdir = epath.Path(workdir)
    with writing(workdir):
        workdir.mkdir(parents=True, exist_ok=True)
    if process_index != 0 or not atomic.is_local(workdir):
        yield workdir
        return
    with writing(workdir):
        # Not inherited by programs that this one starts (PEP 446): they must not hold the lock after it ends.
        lock = os.open(workdir / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WorkdirError(f'another training runs on {workdir}') from error
        except OSError as error:
            logging.warning('%s cannot be locked (%s): start no second training on it', workdir, error.strerror)
        yield workdir
    finally:
        os.close(lock)


@contextlib.contextmanager
def writing(path: epath.PathLike) -> Iterator[None]:
    """Turns an operating system's refusal to write the path into a WorkdirError of one line."""
    try:
        yield
    except OSError as error:
        raise WorkdirError(f'cannot write {os.fspath(path)}: {error.strerror or error}') from error


def write_config(workdir: epath.PathLike, config: config_dict.ConfigDict) -> None:
    """Writes `config.json`.

    Raises:
      WorkdirError: it cannot be written.
    """
    path = epath.Path(workdir) / CONFIG_FILE
    with writing(path):
        atomic.write_text(path, config_lib.to_json(config))


def read_config(workdir: epath.PathLike) -> config_dict.ConfigDict:
    """The config of the run in the directory.

    Raises:
      WorkdirError: it holds no run, or one whose config cannot be read.
      ConfigError: its config is damaged or of another version.
    """
    path = epath.Path(workdir) / CONFIG_FILE
    try:
        return config_lib.from_json(path.read_text())
    except FileNotFoundError as error:
        raise WorkdirError(f'{os.fspath(workdir)} holds no run: there is no {CONFIG_FILE}') from error
    except (OSError, UnicodeDecodeError) as error:
        raise WorkdirError(f'cannot read {os.fspath(path)}: {getattr(error, "strerror", None) or error}') from error


def check_same_run(workdir: epath.PathLike, config: config_dict.ConfigDict) -> None:
    """Makes the directory this run's, or checks that it is: what may change on resume is taken over.

    A run that has no checkpoint yet, such as one that could not begin, gives way to any other.

    Raises:
      WorkdirError: it holds another run (every field that differs and must not is named, with both values), or it
        cannot be written.
      ConfigError: the config in it is damaged.
    """
    path = epath.Path(workdir) / CONFIG_FILE
    if path.exists():
        differences = config_lib.differences_forbidden_on_resume(read_config(workdir), config)
        if differences and has_checkpoint(workdir):
            listed = ', '.join(f'{name} is {old!r} there, {new!r} here' for name, (old, new) in differences.items())
            raise WorkdirError(f'{os.fspath(workdir)} holds another run: {listed}')
    write_config(workdir, config)


def has_checkpoint(workdir: epath.PathLike) -> bool:
    """Whether anything is there that a training would go on from, good or not."""
    checkpoints = epath.Path(workdir) / 'checkpoints'
    return checkpoints.exists() and any(path.name.isdecimal() for path in checkpoints.iterdir())


def check_environment(workdir: epath.PathLike) -> None:
    """Records in `environment.json` what the run runs on; warns if it began on something else.

    Floating-point sums depend on how they are split over devices and cores, so only in an equal environment is a
    resumed run equal to one never stopped, to the bit.

    Raises:
      WorkdirError: it cannot be written.
    """
    path = epath.Path(workdir) / ENVIRONMENT_FILE
    now = _environment()
    before = _read_environment(path)
    changes = [f'{name} {before[name]} -> {value}' for name, value in now.items() if before.get(name, value) != value]
    if changes:
        logging.warning('this run resumes elsewhere and will not be equal to the bit: %s', ', '.join(changes))
    with writing(path):
        atomic.write_text(path, json.dumps(now, indent=2) + '\n')


def _environment() -> dict[str, Any]:
    return {
        'jax': jax.__version__,
        'backend': jax.default_backend(),
        'devices': jax.device_count(),
        'processes': jax.process_count(),
        'cpus': _usable_cpus(),
    }


def _usable_cpus() -> int:
    # What this process may use, not what the machine has; macOS has no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def _read_environment(path: epath.Path) -> dict[str, Any]:
    try:
        environment = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return environment if isinstance(environment, dict) else {}
