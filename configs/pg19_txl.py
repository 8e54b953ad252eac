"""Transformer-XL on PG-19, as arXiv 1911.05507 compares the Compressive Transformer with it.

Row: Table 3's "TransformerXL": a window of 512 and an attention of 1,024, which is `pg19_ct`'s n_m + n_cm.
Reported figure: 45.5 perplexity on validation, 36.3 on test.
Hardware and time: not known here.

All that is not memory is as in `pg19_ct`.

  python launch/prepare.py --dataset=pg19 --convention=sentencepiece --source=FOLDER
  python launch/train.py --config=configs/pg19_txl.py
  python launch/eval.py --workdir=runs/pg19_txl --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import plain_partner


def get_config() -> config_dict.ConfigDict:
    """The config."""
    return plain_partner(pathlib.Path(__file__).with_name('pg19_ct.py'), 'pg19_txl')
