"""The kernels' machine code: compiled on the machine that runs it, once, and kept in a cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax
import jaxlib

_HERE = Path(__file__).parent
_SOURCES = ('layer.cc', 'products.h', 'team.h')
_COMPILERS = ('c++', 'g++', 'clang++')
CACHE = Path('~/.cache/memjax/kernels')


@functools.cache
def load() -> ctypes.CDLL | None:
    """The library, its functions known to XLA by their names.

    Returns:
      None if there is no C++ compiler, or it fails: what then takes the kernels' place is slower. The log says so.
    """
    compiler = find_compiler()
    if compiler is None:
        logging.warning('no C++ compiler: tokens are read by XLA alone, which is slower on a CPU')
        return None
    try:
        library = _loaded(compiler)
        jax.ffi.register_ffi_target('memjax_read_token', jax.ffi.pycapsule(library.MemjaxReadToken), platform='cpu')
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, 'stderr', None) or str(error)
        logging.warning('%s fails, tokens are read by XLA alone: %s', shlex.join(compiler), reason.strip())
        return None
    return library


def _loaded(compiler: list[str]) -> ctypes.CDLL:
    try:
        cache = CACHE.expanduser()
    except RuntimeError:  # nobody's home
        with tempfile.TemporaryDirectory() as scratch:
            return ctypes.cdll.LoadLibrary(os.fspath(build(compiler, Path(scratch))))
    path = build(compiler, cache)
    try:
        return ctypes.cdll.LoadLibrary(os.fspath(path))
    except OSError:  # damaged, or made elsewhere
        path.unlink()
        return ctypes.cdll.LoadLibrary(os.fspath(build(compiler, cache)))


def find_compiler() -> list[str] | None:
    """The words of `$CXX`, or the first of the usual names; None if there is no such program."""
    given = shlex.split(os.environ.get('CXX', ''))
    if given and shutil.which(given[0]) is None:
        logging.warning('there is no %s, which CXX names', given[0])
    names = [given] if given else [[name] for name in _COMPILERS]
    return next(([path, *rest] for name, *rest in names if (path := shutil.which(name))), None)


def build(compiler: list[str], cache: Path) -> Path:
    """Compiles what the cache does not hold.

    Args:
      compiler: its path, and what it is always given.
      cache: a directory; made if it is not there.

    Returns:
      The library's file.

    Raises:
      OSError: the cache cannot be written.
      subprocess.SubprocessError: the compiler fails.
    """
    native = '-march=native' if platform.machine() in ('x86_64', 'AMD64') else '-mcpu=native'
    flags = ('-std=c++17', '-O3', native, '-Wno-psabi', '-fPIC', '-shared', '-pthread')
    version = _run([*compiler, '--version'])
    told = [*flags, *compiler, version, jaxlib.__version__, _processor(), *map(_source, _SOURCES)]
    path = cache / f'{hashlib.sha256(repr(told).encode()).hexdigest()[:32]}.so'
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        unfinished = Path(scratch, path.name)
        _run([*compiler, *flags, '-isystem', jax.ffi.include_dir(), _HERE / _SOURCES[0], '-o', unfinished])
        unfinished.replace(path)
    return path


def _source(name: str) -> str:
    return (_HERE / name).read_text()


def _run(command: list[str | Path]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, errors='replace').stdout


def _processor() -> str:
    """What instructions there are, so that a home directory can be shared by machines that differ."""
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(('flags', 'Features'))), platform.processor())
