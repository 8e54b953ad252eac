"""Compressive Transformer on enwik8, its lengths an eighth of the paper's: for comparisons on a laptop's CPU.

Row: a small counterpart of `enwik8_ct` (arXiv 1911.05507, Table 4): n_s = n_m = 96, n_cm = 144, c = 3, so each layer
looks back n_m + c n_cm = 528 bytes. Its partner at equal cost of attention is `enwik8_txl_tiny`. Unlike the paper's
model it is evaluated with the memory that it was trained with: on validation more slots did not help
(`results/README.md`, sweeps).
Reported figure: none.
Hardware and time: one CPU core, about an hour of training.

  python launch/prepare.py --dataset=enwik8
  python launch/train.py --config=configs/enwik8_ct_tiny.py
  python launch/eval.py --workdir=runs/enwik8_ct_tiny --split=test
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'enwik8_ct_tiny'

    config.data.name = 'enwik8'
    config.data.convention = 'bytes'
    config.data.batch_size = 4
    config.data.segment_length = 96
    config.data.piece_length = 96 * 50  # few rows of one stream would learn the places where they are, not the language

    model = config.model
    model.name = 'compressive'
    model.num_layers = 2
    model.num_heads = 3
    model.model_dim = 192
    model.mlp_dim = 768
    model.memory_length = 96
    model.compressed_memory_length = 144
    model.compression_rate = 3
    model.init_scale = 0.06
    model.layer_unroll = 2

    training = config.training
    training.num_steps = training.decay_steps = 24_000
    training.warmup_steps = 200
    training.learning_rate = 1.2e-3
    training.adam_b2 = 0.99
    training.log_every = 200
    training.eval_every = 4_000
    training.eval_segments = 30
    training.checkpoint_every = 1_000

    config.eval.batch_size = 32
    config.eval.compressors = ('gzip', 'bzip2', 'xz_extreme', 'ppmd')
    return config
