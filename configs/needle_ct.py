"""Compressive Transformer on the needle probe: values to be recalled after up to 1,024 symbols.

Row: none; a probe that readers of arXiv 1911.05507 ask for. n_s = n_m = 64, n_cm = 64, c = 4, two layers: L n_m = 128,
L (n_m + n_cm) = 256, which is what Transformer-XL reaches at the same cost of attention (`needle_txl`), and
L (n_m + c n_cm) = 640; a single layer's memory spans 320 symbols.
Reported figure: none.
Hardware and time: 2 CPU cores, minutes.

  python launch/train.py --config=configs/needle_ct.py
  python launch/needle.py --workdir=runs/needle_ct --split=test
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'needle_ct'

    config.data.name = 'needle'
    config.data.batch_size = 16
    config.data.segment_length = 64

    model = config.model
    model.name = 'compressive'
    model.num_layers = 2
    model.num_heads = 2
    model.model_dim = 64
    model.mlp_dim = 256
    model.memory_length = 64
    model.compressed_memory_length = 64
    model.compression_rate = 4
    model.init_scale = 0.12
    model.layer_unroll = 2

    training = config.training
    training.num_steps = training.decay_steps = 3_000
    training.warmup_steps = 200
    training.learning_rate = 2e-3
    training.adam_b2 = 0.99
    training.log_every = 100
    training.eval_every = None
    training.checkpoint_every = 1_000
    return config
