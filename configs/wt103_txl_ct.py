"""Transformer-XL on WikiText-103, as arXiv 1911.05507 compares the Compressive Transformer with it.

Row: the "TransformerXL" that arXiv 1911.05507 trained beside its own model on WikiText-103; as many
slots as `wt103_ct` has.
Reported figure: 18.1 perplexity.
Hardware and time: not known here.

All that is not memory is as in `wt103_ct`.

  python launch/prepare.py --dataset=wikitext103 --convention=words --source=FOLDER_OR_ZIP
  python launch/train.py --config=configs/wt103_txl_ct.py
  python launch/eval.py --workdir=runs/wt103_txl_ct --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import plain_partner


def get_config() -> config_dict.ConfigDict:
    """The config."""
    return plain_partner(pathlib.Path(__file__).with_name('wt103_ct.py'), 'wt103_txl_ct')
