"""Transformer-XL on the needle probe, at the same cost of attention as `needle_ct`: n_m + n_cm = 128 plain slots.

Row: none, a probe.
Reported figure: none.
Hardware and time: 2 CPU cores, minutes.

  python launch/train.py --config=configs/needle_txl.py
  python launch/needle.py --workdir=runs/needle_txl --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import plain_partner


def get_config() -> config_dict.ConfigDict:
    """The config."""
    return plain_partner(pathlib.Path(__file__).with_name('needle_ct.py'), 'needle_txl')
