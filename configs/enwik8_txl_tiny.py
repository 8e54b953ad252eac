"""Transformer-XL on enwik8, small: `enwik8_ct_tiny` without compression, at the same cost of attention.

Row: a small counterpart of the Transformer-XL that arXiv 1911.05507 compares with. Its memory has as many slots as
enwik8_ct_tiny's two together: n_m + n_cm = 240 in training and 480 in evaluation, all plain; the rest is the same.
Reported figure: none.
Hardware and time: 2 CPU cores, about 40 minutes of training.

  python launch/prepare.py --dataset=enwik8
  python launch/train.py --config=configs/enwik8_txl_tiny.py
  python launch/eval.py --workdir=runs/enwik8_txl_tiny --split=test
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'enwik8_txl_tiny'

    config.data.name = 'enwik8'
    config.data.convention = 'bytes'
    config.data.batch_size = 24
    config.data.segment_length = 96

    model = config.model
    model.name = 'transformer_xl'
    model.num_layers = 4
    model.num_heads = 4
    model.model_dim = 192
    model.mlp_dim = 768
    model.memory_length = 240
    model.compressed_memory_length = 0

    training = config.training
    training.num_steps = training.decay_steps = 4000
    training.warmup_steps = 200
    training.learning_rate = 1e-3
    training.log_every = 100
    training.eval_every = 1000
    training.eval_segments = 50
    training.checkpoint_every = 500

    config.eval.memory_length = 480
    config.eval.compressors = ('gzip', 'xz')
    return config
