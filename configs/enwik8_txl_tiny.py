"""Transformer-XL on enwik8, small: `enwik8_ct_tiny` without compression, at the same cost of attention.

Row: a small counterpart of the Transformer-XL that arXiv 1911.05507 compares with. Its memory has as many slots as
enwik8_ct_tiny's two together, n_m + n_cm = 240, all plain; the rest is the same.
Reported figure: none.
Hardware and time: one CPU core, about an hour of training.

  python launch/prepare.py --dataset=enwik8
  python launch/train.py --config=configs/enwik8_txl_tiny.py
  python launch/eval.py --workdir=runs/enwik8_txl_tiny --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import plain_partner


def get_config() -> config_dict.ConfigDict:
    """The config."""
    return plain_partner(pathlib.Path(__file__).with_name('enwik8_ct_tiny.py'), 'enwik8_txl_tiny')
