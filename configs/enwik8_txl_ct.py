"""Transformer-XL on enwik8, as arXiv 1911.05507 compares the Compressive Transformer with it.

Row: the "TransformerXL" that arXiv 1911.05507 trained beside its own model on enwik8 (Table 4), with a memory of 2,304,
which is more than `enwik8_ct`'s 1,920 slots, and of 4,096 in evaluation.
Reported figure: 0.98 bpc.
Hardware and time: not known here.

All that is not memory is as in `enwik8_ct`.

  python launch/prepare.py --dataset=enwik8
  python launch/train.py --config=configs/enwik8_txl_ct.py
  python launch/eval.py --workdir=runs/enwik8_txl_ct --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import plain_partner


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = plain_partner(pathlib.Path(__file__).with_name('enwik8_ct.py'), 'enwik8_txl_ct')
    config.model.memory_length = 2304
    config.eval.memory_length = 4096
    return config
