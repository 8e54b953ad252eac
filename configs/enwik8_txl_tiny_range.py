"""Transformer-XL on enwik8, small: `enwik8_ct_tiny` without compression, at the same temporal range.

Row: none; the control that readers of arXiv 1911.05507 ask for. Its memory reaches as far as enwik8_ct_tiny's two
together: n_m + c n_cm = 528 slots, all plain. The rest is the same, the cost is not.
Reported figure: none.
Hardware and time: one CPU core, about an hour and a half of training.

  python launch/prepare.py --dataset=enwik8
  python launch/train.py --config=configs/enwik8_txl_tiny_range.py
  python launch/eval.py --workdir=runs/enwik8_txl_tiny_range --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of `enwik8_ct_tiny`, what it compresses kept as it is."""
    config = from_file(pathlib.Path(__file__).with_name('enwik8_ct_tiny.py'))
    config.name = 'enwik8_txl_tiny_range'
    model = config.model
    model.name = 'transformer_xl'
    model.memory_length += model.compression_rate * model.compressed_memory_length
    model.compressed_memory_length = 0
    return config
