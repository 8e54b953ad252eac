"""Transformer-XL on text8, 24 layers, as in arXiv 1901.02860.

Row: the text8 table's "24L Transformer-XL" (277 M; 277,050,395 parameters with 27 symbols).
Reported figure: 1.08 bpc. The paper says that the model and its settings are those of enwik8, without a new search.
Hardware and time: not known here.

  python launch/prepare.py --dataset=text8 --convention=characters
  python launch/train.py --config=configs/text8_txl_24l.py
  python launch/eval.py --workdir=runs/text8_txl_24l --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of enwik8."""
    config = from_file(pathlib.Path(__file__).with_name('enwik8_txl_24l.py'))
    config.name = 'text8_txl_24l'
    config.data.name = 'text8'
    config.data.convention = 'characters'
    config.model.vocab_size = 27
    return config
