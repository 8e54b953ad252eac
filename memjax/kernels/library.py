"""The kernels' machine code: compiled on the machine that runs it, once, and kept in a cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
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
        logging.info('no C++ compiler: tokens are read by XLA alone, which is slower on a CPU')
        return None
    try:
        library = ctypes.cdll.LoadLibrary(os.fspath(build(compiler, CACHE.expanduser())))
        jax.ffi.register_ffi_target('memjax_read_token', jax.ffi.pycapsule(library.MemjaxReadToken), platform='cpu')
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, 'stderr', None) or str(error)
        logging.warning('%s fails, tokens are read by XLA alone: %s', compiler, reason.strip())
        return None
    return library


def find_compiler() -> str | None:
    """`$CXX`, or the first of the usual names; None if there is none."""
    names = (os.environ['CXX'],) if os.environ.get('CXX') else _COMPILERS
    return next(filter(None, map(shutil.which, names)), None)


def build(compiler: str, cache: Path) -> Path:
    """Compiles what the cache does not hold.

    Args:
      compiler: its path.
      cache: a directory; made if it is not there.

    Returns:
      The library's file.

    Raises:
      OSError: the cache cannot be written.
      subprocess.SubprocessError: the compiler fails.
    """
    native = '-march=native' if platform.machine() in ('x86_64', 'AMD64') else '-mcpu=native'
    flags = ('-std=c++17', '-O3', native, '-Wno-psabi', '-fPIC', '-shared', '-pthread')
    version = _run([compiler, '--version'])
    told = [*flags, compiler, version, jaxlib.__version__, _processor(), *map(_source, _SOURCES)]
    path = cache / f'{hashlib.sha256(repr(told).encode()).hexdigest()[:32]}.so'
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        unfinished = Path(scratch, path.name)
        _run([compiler, *flags, '-isystem', jax.ffi.include_dir(), _HERE / _SOURCES[0], '-o', unfinished])
        unfinished.replace(path)
    return path


def _source(name: str) -> str:
    return (_HERE / name).read_text()


def _run(command: list[str | Path]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _processor() -> str:
    """What instructions there are, so that a home directory can be shared by machines that differ."""
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(('flags', 'Features'))), platform.processor())
