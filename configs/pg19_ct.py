"""Compressive Transformer on PG-19, as in arXiv 1911.05507.

Row: Table 3's "Compressive Transformer".
Reported figure: 43.4 perplexity on validation, 33.6 on test, by the published counts of words.
Hardware and time: 256 TPUv3 cores, about 100 billion subwords.

The paper gives 36 layers, n_s = n_m = n_cm = 512, c = 2, a batch of 512, a vocabulary of 32,000 subwords, the
schedule for words (see `wt103_ct`) and the clip of 0.1. Not given in the paper, and chosen here:
  width             1,024, 16 heads, an mlp of 4,096, as in its model of WikiText-103
  number of steps   400,000: with 512 rows of 512 subwords, 105 billion subwords
  dropout           none: an epoch is some 3 billion subwords, in which nothing repeats
  the rest          as in `enwik8_ct`

A folder of a few books in PG-19's layout will do; it is then said to be a subset.

  python launch/prepare.py --dataset=pg19 --convention=sentencepiece --source=FOLDER
  python launch/train.py --config=configs/pg19_ct.py
  python launch/eval.py --workdir=runs/pg19_ct --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: the schedule of `wt103_ct`, for books."""
    config = from_file(pathlib.Path(__file__).with_name('wt103_ct.py'))
    config.name = 'pg19_ct'

    config.data.name = 'pg19'
    config.data.convention = 'sentencepiece'
    config.data.batch_size = 512

    model = config.model
    model.vocab_size = 32_000
    model.adaptive_cutoffs = ()
    model.adaptive_div = 1
    model.num_layers = 36
    model.compression_rate = 2
    model.dropout_rate = 0.0
    model.attention_dropout_rate = 0.0
    model.remat = True

    config.training.num_steps = 400_000
    config.eval.compressed_memory_length = None
    return config
