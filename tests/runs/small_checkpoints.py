"""A small checkpoint of many kinds of arrays, its files, and programs that save in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Counters(NamedTuple):
    step: jax.Array
    rest: tuple


def make_params(seed=0):
    return {'embed': {'kernel': jax.random.normal(jax.random.key(seed), (3, 4))}, 'layers': [jnp.ones(2), jnp.zeros(3)]}


def make_training(seed=0):
    return {
        'counters': Counters(step=jnp.int32(7 + seed), rest=(np.arange(3, dtype=np.int32), None, ())),
        # -0.0, infinity and a NaN with a payload among arbitrary bits.
        'halves': jax.lax.bitcast_convert_type(
            jnp.array([0x8000, 0x7F80, 0x7FC1, 0x3F81], jnp.uint16) + seed, jnp.bfloat16
        ),
        'key': jax.random.key_data(jax.random.key(2**31 + seed)),
        'empty_memory': jnp.zeros((2, 0, 4), jnp.bfloat16),
        'scalar': np.float32(1.5),
    }


def abstract(tree):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)


def assert_same_bits(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert isinstance(a, jax.Array)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def save(checkpoints, step, validation_loss=None):
    checkpoints.save(step, make_params(step), make_training(step), {'cursor': [step, 2**40]}, validation_loss)


def names(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def files(step_directory):
    return sorted(path for path in Path(step_directory).rglob('*') if path.is_file())


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def run_python(code, *arguments, devices=1):
    flags = {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': f'--xla_force_host_platform_device_count={devices}'}
    command = [sys.executable, '-c', code, *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, **flags}, stdout=subprocess.PIPE, text=True)
