"""A tiny corpus and the config of a tiny run over it, compiled programs shared between tests, odd file systems."""

from __future__ import annotations

import os
import random
import socket
import subprocess

import pytest

from memjax.config import base_config

# The suite's time is compilation, and its programs are too small to gain from optimization.
_QUICK_COMPILATION = (
    '--xla_llvm_disable_expensive_passes=true',
    '--xla_backend_optimization_level=0',
    '--xla_cpu_use_fusion_emitters=false',
)


def pytest_configure():
    """Before JAX starts, for this process and those that tests start."""
    os.environ['XLA_FLAGS'] = ' '.join([os.environ.get('XLA_FLAGS', ''), *_QUICK_COMPILATION])


@pytest.fixture(scope='session', autouse=True)
def shared_compilations(tmp_path_factory, worker_id):
    """Keeps compiled programs on disk for the session: many tests, and their subprocesses, compile the same ones."""
    session = tmp_path_factory.getbasetemp()
    if worker_id != 'master':
        session = session.parent  # that of all workers
    settings = {
        'JAX_COMPILATION_CACHE_DIR': str(session / 'compiled'),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
        'JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES': '0',
    }
    os.environ |= settings
    import jax

    for name, value in settings.items():
        jax.config.update(name.lower(), value if name.endswith('DIR') else int(value))


@pytest.fixture(scope='session')
def text_folder(tmp_path_factory):
    """A `files` corpus: several documents a split, of lengths that no segment length divides."""
    words = ('the', 'quick', 'brown', 'fox', 'jumps', 'over', 'a', 'lazy', 'dog', 'by', 'night')
    generator = random.Random(0)
    folder = tmp_path_factory.mktemp('texts')
    for split, sizes in {'train': (130, 61, 217, 83), 'validation': (111, 233), 'test': (207, 1, 80)}.items():
        (folder / split).mkdir()
        for index, size in enumerate(sizes):
            text = ' '.join(generator.choice(words) for _ in range(size))[:size]
            (folder / split / f'{index}.txt').write_text(text)
    return folder


@pytest.fixture(scope='session')
def data_dir(tmp_path_factory):
    """Where the session's corpora are prepared."""
    return tmp_path_factory.mktemp('data')


@pytest.fixture
def tiny_config(text_folder):
    """A run of 12 steps that has everything a run can have: dropout, an unroll, accumulation, compression."""
    config = base_config()
    config.name = 'tiny'
    config.data.update({'name': 'files', 'path': str(text_folder), 'batch_size': 4, 'segment_length': 8})
    config.model.update(
        {'num_layers': 2, 'num_heads': 2, 'model_dim': 16, 'mlp_dim': 32, 'memory_length': 8, 'compression_rate': 2}
    )
    config.model.update({'compressed_memory_length': 4, 'dropout_rate': 0.1, 'attention_dropout_rate': 0.1})
    config.training.update(
        {'num_steps': 12, 'warmup_steps': 2, 'decay_steps': 20, 'learning_rate': 1e-2, 'segments_per_step': 2}
    )
    config.training.update({'update_period': 2, 'update_period_start': 4, 'figure': False})
    config.training.update({'log_every': 3, 'eval_every': 6, 'eval_segments': 3, 'checkpoint_every': 4})
    return config


@pytest.fixture
def tmpfs(tmp_path_factory):
    """A function `mount(options) -> Path` of a fresh tmpfs; the test is skipped where mounting is not allowed.

    Root ignores permissions, so `chmod` cannot stand in for a file system that refuses.
    """
    mounted = []

    def mount(options):
        path = tmp_path_factory.mktemp('tmpfs')
        try:
            subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', path], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip('needs the right to mount a tmpfs')
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(['umount', '--lazy', path], check=True)


@pytest.fixture
def unused_port():
    """A TCP port of this machine that nothing listens on."""
    with socket.socket() as server:
        server.bind(('localhost', 0))
        return server.getsockname()[1]
