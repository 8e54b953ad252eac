"""Transformer-XL on enwik8, 12 layers, as in arXiv 1901.02860.

Row: the enwik8 table's "12L Transformer-XL" (41 M; 41,055,436 parameters with the 204 symbols of `txl`).
Reported figure: 1.06 bpc, evaluated with segments of 80, a memory of 2,100, distances clamped at 820, same_length.
Hardware and time: not known here.

Sizes, dropout, batch, rate (2.5e-4, cosine over 400,000 steps, no warmup) and clip (0.25) are the authors'. Not given
in the paper: where the cosine ends (0 here), Adam's constants (0.9, 0.999, 1e-8), how many rows evaluation reads at
once (22 here, as in training; each row first reads the memory's span unscored).

  python launch/prepare.py --dataset=enwik8 --convention=txl
  python launch/train.py --config=configs/enwik8_txl_12l.py
  python launch/eval.py --workdir=runs/enwik8_txl_12l --split=test
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'enwik8_txl_12l'

    config.data.name = 'enwik8'
    config.data.convention = 'txl'
    config.data.batch_size = 22
    config.data.segment_length = 512

    model = config.model
    model.name = 'transformer_xl'
    model.vocab_size = 204
    model.num_layers = 12
    model.num_heads = 8
    model.head_dim = 64
    model.model_dim = 512
    model.mlp_dim = 2048
    model.norm = 'post'
    model.memory_length = 512
    model.compressed_memory_length = 0
    model.dropout_rate = 0.1
    model.attention_dropout_rate = 0.0

    training = config.training
    training.num_steps = 400_000
    training.warmup_steps = 0
    training.decay_steps = 400_000
    training.learning_rate = 2.5e-4
    training.learning_rate_end = 0.0
    training.gradient_clip = 0.25
    training.log_every = 200
    training.eval_every = 10_000
    training.checkpoint_every = 2_000

    config.eval.segment_length = 80
    config.eval.memory_length = 2100
    config.eval.clamp_length = 820
    config.eval.same_length = True
    return config
