"""A Compressive Transformer on the King James Bible: the first thing to run, on a laptop's CPU.

Row: none, a demonstration. n_s = n_m = 128, n_cm = 64, c = 4: each layer looks back n_m + c n_cm = 384 bytes.
Reported figure: none; `gzip -9` needs 2.56 bits a character for the same test bytes and `xz -9` 2.26.
Hardware and time: 2 CPU cores, under 5 minutes with preparation, the test split and a sample.

  python launch/train.py --config=configs/demo_ct.py
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'demo_ct'

    config.data.name = 'kjv'
    config.data.batch_size = 8
    config.data.segment_length = 128

    model = config.model
    model.name = 'compressive'
    model.num_layers = 3
    model.num_heads = 2
    model.model_dim = 128
    model.mlp_dim = 512
    model.memory_length = 128
    model.compressed_memory_length = 64
    model.compression_rate = 4
    model.init_scale = 0.06
    model.layer_unroll = 3

    training = config.training
    training.num_steps = training.decay_steps = 1080
    training.warmup_steps = 50
    training.learning_rate = 3e-3
    training.adam_b2 = 0.99
    training.eval_segments = 15
    training.log_every = 50
    training.checkpoint_every = 500

    config.eval.batch_size = 16
    config.eval.after_training = 'test'
    config.eval.compressors = ('gzip', 'xz')
    config.sample.after_training = True
    config.sample.prompt = 'And it came to pass in those days, that '
    return config
