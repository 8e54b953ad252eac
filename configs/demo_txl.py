"""A Transformer-XL on the King James Bible: `demo_ct` without compression, at the same cost of attention.

Row: none, a demonstration. Its memory has as many slots as demo_ct's two together (n_m + n_cm = 192), all plain, so
each layer looks back 192 bytes instead of 384; everything else is demo_ct's.
Reported figure: none; `gzip -9` needs 2.56 bits a character for the same test bytes and `xz -9` 2.26.
Hardware and time: 2 CPU cores, under 5 minutes with preparation, the test split and a sample.

  python launch/train.py --config=configs/demo_txl.py
"""

import pathlib

from ml_collections import config_dict

from memjax.config import plain_partner


def get_config() -> config_dict.ConfigDict:
    """The config."""
    return plain_partner(pathlib.Path(__file__).with_name('demo_ct.py'), 'demo_txl')
