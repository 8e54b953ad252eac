"""Transformer-XL on enwik8, small: `enwik8_ct_tiny` without compression, at the same cost of attention.

Row: a small counterpart of the Transformer-XL that arXiv 1911.05507 compares with. Its memory has as many slots as
enwik8_ct_tiny's two together: n_m + n_cm = 240 in training and 480 in evaluation, all plain; the rest is the same.
Reported figure: none.
Hardware and time: 2 CPU cores, about 40 minutes of training.

  python launch/prepare.py --dataset=enwik8
  python launch/train.py --config=configs/enwik8_txl_tiny.py
  python launch/eval.py --workdir=runs/enwik8_txl_tiny --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of its partner, its slots all plain."""
    config = from_file(pathlib.Path(__file__).with_name('enwik8_ct_tiny.py'))
    config.name = 'enwik8_txl_tiny'
    model = config.model
    model.name = 'transformer_xl'
    config.eval.memory_length = model.memory_length + config.eval.compressed_memory_length
    config.eval.compressed_memory_length = None
    model.memory_length += model.compressed_memory_length
    model.compressed_memory_length = 0
    return config
