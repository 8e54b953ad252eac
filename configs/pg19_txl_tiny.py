"""Transformer-XL at the cost of attention of `pg19_ct_tiny`: 128 plain slots.

Row: the comparison of the paper's PG-19 table (arXiv 1911.05507, section 5) in small.
Reported figure: none.
Hardware and time: one CPU core, 11 to 13 minutes, while other work ran.

  python launch/train.py --config=configs/pg19_txl_tiny.py
"""

import pathlib

from ml_collections import config_dict

from memjax.config import plain_partner


def get_config() -> config_dict.ConfigDict:
    """The config."""
    return plain_partner(pathlib.Path(__file__).with_name('pg19_ct_tiny.py'), 'pg19_txl_tiny')
