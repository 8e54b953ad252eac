"""Trains one config on several meshes of 8 fake CPU devices; run by test_sharding.py in a process of its own.

python train_on_meshes.py CONFIG.json DATA_DIR OUT_DIR 2,2,2 8,1,1 ..
"""

from __future__ import annotations

import pathlib
import sys

import jax

from memjax.config import from_json
from memjax.training.loop import train


def main(config_path: str, data_dir: str, out_dir: str, *meshes: str) -> None:
    jax.config.update('jax_num_cpu_devices', 8)
    for sizes in meshes:
        config = from_json(pathlib.Path(config_path).read_text())
        config.mesh.data, config.mesh.fsdp, config.mesh.tensor = map(int, sizes.split(','))
        train(config, pathlib.Path(out_dir) / sizes, data_dir)


if __name__ == '__main__':
    main(*sys.argv[1:])
