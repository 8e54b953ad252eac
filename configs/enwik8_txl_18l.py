"""Transformer-XL on enwik8, 18 layers, as far as arXiv 1901.02860 gives it.

Row: the enwik8 table's "18L Transformer-XL" (88 M). Its dimensions are not published: with a width of 768 and the rest
of a layer as in the 12-layer model it has 92.3 M parameters, with 512 it would have 61.5 M.
Reported figure: 1.03 bpc.
Hardware and time: not known here.

  python launch/prepare.py --dataset=enwik8 --convention=txl
  python launch/train.py --config=configs/enwik8_txl_18l.py
  python launch/eval.py --workdir=runs/enwik8_txl_18l --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of the 12 layers, deeper and wider."""
    config = from_file(pathlib.Path(__file__).with_name('enwik8_txl_12l.py'))
    config.name = 'enwik8_txl_18l'
    config.model.num_layers = 18
    config.model.model_dim = 768
    return config
