"""Transformer-XL on enwik8, 24 layers, as in arXiv 1901.02860.

Row: the enwik8 table's "24L Transformer-XL" (277 M; 277,231,820 parameters with the 204 symbols of `txl`).
Reported figure: 0.99 bpc, evaluated with segments of 128, a memory of 3,800, distances clamped at 1,000, same_length.
Hardware and time: not known here.

Sizes, dropout, batch, rate (2.5e-4 after 4,000 steps of warmup, cosine over 400,000 steps) and clip (0.25) are the
authors'; segment and memory are their code's 768 (the paper's text says 784). Not given in the paper: where warmup
begins and the cosine ends (0 here), Adam's constants (0.9, 0.999, 1e-8), how many rows evaluation reads at once (64
here, as in training; each row first reads the memory's span unscored).

  python launch/prepare.py --dataset=enwik8 --convention=txl
  python launch/train.py --config=configs/enwik8_txl_24l.py
  python launch/eval.py --workdir=runs/enwik8_txl_24l --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of the 12 layers, larger."""
    config = from_file(pathlib.Path(__file__).with_name('enwik8_txl_12l.py'))
    config.name = 'enwik8_txl_24l'

    config.data.batch_size = 64
    config.data.segment_length = 768

    model = config.model
    model.num_layers = 24
    model.head_dim = 128
    model.model_dim = 1024
    model.mlp_dim = 3072
    model.memory_length = 768
    model.dropout_rate = 0.15
    model.attention_dropout_rate = 0.15

    config.training.warmup_steps = 4_000
    config.training.learning_rate_start = 0.0

    config.eval.segment_length = 128
    config.eval.memory_length = 3800
    config.eval.clamp_length = 1000
    return config
