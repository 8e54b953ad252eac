"""Writing a file so that a reader finds the old content or the new one, never half of it."""

from __future__ import annotations

import os
from pathlib import Path

from etils import epath


def is_local(path: epath.PathLike) -> bool:
    """Whether the path is on a file system that can lock, append and memory-map (gs:// and the like cannot)."""
    return '://' not in os.fspath(path)


def write_bytes(path: epath.PathLike, data: bytes) -> None:
    """Replaces the file's content; a crash or a full disk leaves the old content.

    Raises:
      OSError: the file cannot be written; nothing is left behind.
    """
    if not is_local(path):
        # An object store shows an object only once it is complete.
        epath.Path(path).write_bytes(data)
        return
    path = Path(path)
    # Beside the target, since a rename is atomic only within one file system.
    unfinished = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
    try:
        with unfinished.open('wb') as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_text(path: epath.PathLike, text: str) -> None:
    """`write_bytes` of the text in UTF-8."""
    write_bytes(path, text.encode())
