"""Data directories that cannot be memory-mapped (gs:// and the like): stores are copied to and from a local one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from etils import epath

from memjax.data.disk import replace_directory
from memjax.data.store import META


def is_remote(data_dir: epath.Path) -> bool:
    """Whether a data directory is reached through something other than the file system."""
    return '://' in os.fspath(data_dir)


def local_directory(data_dir: epath.Path) -> Path:
    """Where the stores of a data directory are used from: itself, or a cache of its own in the user's home."""
    if not is_remote(data_dir):
        return Path(data_dir).expanduser()
    address = os.fspath(data_dir).rstrip('/')
    return Path('~/.cache/memjax_remote').expanduser() / hashlib.sha256(address.encode()).hexdigest()[:16]


def _same(local: Path, remote: epath.Path) -> bool:
    """Whether both stores are there and hold the same: `meta.json` has the digest of everything else."""
    ours, theirs = local / META, remote / META
    return ours.exists() and theirs.exists() and ours.read_bytes() == theirs.read_bytes()


def fetch_store(remote: epath.Path, local: Path, scratch: Path) -> None:
    """Copies a remote store, if there is one, unless the local one was copied from the same."""
    if not (remote / META).exists() or _same(local, remote):
        return
    copy = scratch / 'fetched'
    copy.mkdir()
    for path in remote.iterdir():
        path.copy(copy / path.name)
    replace_directory(copy, local, scratch)


def publish_store(local: Path, remote: epath.Path) -> None:
    """Copies a local store to its remote place, unless it is there; `meta.json` goes last and makes it valid."""
    if _same(local, remote):
        return
    (remote / META).unlink(missing_ok=True)
    remote.mkdir(parents=True, exist_ok=True)
    names = sorted(path.name for path in local.iterdir() if path.name != META)
    for name in (*names, META):
        epath.Path(local / name).copy(remote / name, overwrite=True)
