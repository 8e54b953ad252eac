"""What preparing a corpus does to a disk: one at a time, whole or not at all, and a fault is told in one line."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from memjax.errors import DataError, UserError

# What a library in C++ says when the disk refuses: it passes on the text, not the number.
_DISK_FAULTS = tuple(
    os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)
)


@contextlib.contextmanager
def disk_faults_told(action: str) -> Iterator[None]:
    """Turns a disk's fault into a DataError `ACTION: what the system said`.

    A UserError that another library has wrapped on its way is raised as itself.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        for cause in _chain(error):
            if isinstance(cause, UserError):
                raise cause from None
            if isinstance(cause, OSError) and cause.strerror:
                where = f' ({cause.filename})' if cause.filename else ''
                raise DataError(f'{action}: {cause.strerror}{where}') from error
        for fault in _DISK_FAULTS:
            if fault in str(error):
                raise DataError(f'{action}: {fault}') from error
        raise


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


@contextlib.contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Holds the directory against every other process that asks likewise; waits until it is free."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def scratch_directory(path: Path) -> Iterator[Path]:
    """An empty directory that is gone afterwards; what a killed process left in it goes first."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def replace_directory(new: Path, old: Path, scratch: Path) -> None:
    """Gives the directory `new` the name `old`, whether or not that is taken; all on one filesystem."""
    if old.exists():
        old.rename(scratch / f'replaced_{old.name}')
    else:
        old.parent.mkdir(parents=True, exist_ok=True)
    new.rename(old)
