"""A published model becomes a run: its weights as checkpoint 0 of a workdir that every command accepts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import jax
import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.errors import DataError, WorkdirError
from memjax.models.factory import build_model, init_params
from memjax.models.transfo_xl import to_params
from memjax.runs import workdir as workdirs
from memjax.runs.checkpoint import Checkpoints

SUFFIXES = ('.safetensors', '.npz')


def convert_run(source: epath.PathLike, workdir: epath.PathLike, config: config_dict.ConfigDict) -> None:
    """Makes a run of a Transformer-XL's weights under TransfoXL's names, and prints what it made.

    A token's id must mean to the model what it means in the config's corpus. To train it further, begin a run with
    `training.init_from`.

    Args:
      source: a local .safetensors file, or an .npz file with one array a tensor.
      workdir: of the new run.
      config: a whole config, of which the published model is the model.

    Raises:
      DataError: the file cannot be read, or its tensors do not fit the config; all that do not are named.
      ConfigError: no TransfoXL model is like the config's.
      WorkdirError: there is a run already, or it cannot be written.
    """
    path = Path(source)
    tensors = read_tensors(path)
    model = build_model(config.model)
    abstract = jax.eval_shape(lambda: init_params(model, config.data.segment_length, jax.random.key(0)))
    try:
        params = to_params(tensors, abstract, config.model)
    except DataError as error:
        raise DataError(f'{path}: {error}') from error
    with workdirs.exclusive(workdir) as directory:
        if (directory / workdirs.CONFIG_FILE).exists():
            raise WorkdirError(f'{directory} holds a run already')
        with path.open('rb') as file:
            digest = hashlib.file_digest(file, 'sha256').hexdigest()
        host = {'tokens': 0, 'seconds': 0.0, 'converted_from': path.name, 'converted_sha256': digest}
        with Checkpoints(directory / 'checkpoints') as checkpoints:
            # Without a config.json, what is there is of a conversion that was interrupted.
            checkpoints.discard_after(-1)
            checkpoints.save(0, params, {}, host)
        workdirs.write_config(directory, config)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(f'{directory}: {len(tensors)} tensors, {size:,} parameters')


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a file, as float32.

    Raises:
      DataError: it is not there, not of a kind that is read, or damaged. Nothing pickled is ever loaded.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f'{path}: weights are read from {" or ".join(SUFFIXES)} files')
    try:
        if path.suffix == '.npz':
            with np.load(path, allow_pickle=False) as arrays:
                return {name: np.asarray(arrays[name], np.float32) for name in arrays}
        # Its NumPy reader has no bfloat16.
        from safetensors.flax import load_file

        return {name: np.asarray(array, np.float32) for name, array in load_file(path).items()}
    except FileNotFoundError as error:
        raise DataError(f'{path}: no such file') from error
    except OSError as error:
        raise DataError(f'{path} cannot be read: {error.strerror or error}') from error
    except Exception as error:  # each reader has its own for a damaged file
        raise DataError(f'{path} cannot be read: {str(error).splitlines()[0]}') from error
