"""Transformer-XL on the One Billion Word benchmark, the large model of arXiv 1901.02860.

Row: the One Billion Word table's "Transformer-XL Large" (0.8 B; 841,354,862 parameters).
Reported figure: 21.8 perplexity, evaluated with segments of 32 and a memory of 128, same_length.
Hardware and time: not known here.

Sizes, dropout, batch, rate (1e-4 after 30,000 steps of warmup, cosine over 1,200,000 steps), the initial scale, u and
v of each layer and the bands, none of whose projections the softmax shares, are the authors' script's. Its text is one
stream of sentences with a mark between two, and memory is carried over it; `data.documents=sentences` clears memory at
each instead, and results say which it was. Not given: as in `wt103_txl_base`.

  python launch/prepare.py --dataset=lm1b --convention=words --source=FOLDER --config.data.documents=stream
  python launch/train.py --config=configs/lm1b_txl_large.py
  python launch/eval.py --workdir=runs/lm1b_txl_large --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of the base model, larger."""
    config = from_file(pathlib.Path(__file__).with_name('lm1b_txl_base.py'))
    config.name = 'lm1b_txl_large'

    config.data.batch_size = 512
    config.data.segment_length = 32

    model = config.model
    model.num_layers = 24
    model.num_heads = 16
    model.head_dim = 80
    model.model_dim = 1280
    model.mlp_dim = 8192
    model.memory_length = 32
    model.dropout_rate = 0.05
    model.attention_dropout_rate = 0.05
    model.init_scale = 0.005

    training = config.training
    training.num_steps = 1_200_000
    training.warmup_steps = 30_000
    training.decay_steps = 1_200_000
    training.learning_rate = 1e-4
    training.learning_rate_start = 0.0
    return config
