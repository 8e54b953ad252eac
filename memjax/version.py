"""Which code is running, for the files that record a result."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

# What decides a result; a run's own outputs must not make the code look edited.
_CODE = ('memjax', 'launch', 'configs')


def code_version(package: Path = Path(__file__).parent) -> str:
    """The commit of the checkout that the package lies in, or the installed version where it lies in none.

    Args:
      package: the folder of the package; it counts as a checkout only if it lies at the top of one, so that an
        installation inside another project's repository is not taken for that project's commit.

    Returns:
      40 hex digits, with `-dirty` appended if a file of the code differs from that commit; or a version such as
      `0.1.0`, or `unknown` for a copy that is neither.
    """
    package = package.resolve()
    top = _git(package, 'rev-parse', '--show-toplevel')
    commit = _git(package, 'rev-parse', 'HEAD')
    if commit is None or top is None or Path(top).resolve() != package.parent:
        return _installed_version()
    paths = [name for name in _CODE if (package.parent / name).exists()]
    changes = _git(package.parent, '--no-optional-locks', 'status', '--porcelain', '--', *paths)
    return f'{commit}-dirty' if changes else commit


def _installed_version() -> str:
    try:
        return importlib.metadata.version('memjax')
    except importlib.metadata.PackageNotFoundError:
        return 'unknown'


def _git(folder: Path, *arguments: str) -> str | None:
    # Inside a hook, git's variables point at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith('GIT_')}
    try:
        result = subprocess.run(
            ('git', *arguments), cwd=folder, env=environment, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
