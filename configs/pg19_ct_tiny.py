"""Compressive Transformer on some books of PG-19: for trying the corpus, its subwords and its perplexity on a laptop.

Row: a small counterpart of the paper's PG-19 model (arXiv 1911.05507, section 5): n_s = n_m = n_cm = 64, c = 2, a book
a row, memory cleared at each. Its partner at equal cost of attention is `pg19_txl_tiny`.
Reported figure: none.
Hardware and time: one CPU core, 11 to 12 minutes, while other work ran.

  python launch/prepare.py --dataset=pg19 --source=FOLDER --convention=sentencepiece \
      --config.data.sentencepiece_vocab_size=8000
  python launch/train.py --config=configs/pg19_ct_tiny.py
  python launch/eval.py --workdir=runs/pg19_ct_tiny --split=test
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'pg19_ct_tiny'

    config.data.name = 'pg19'
    config.data.convention = 'sentencepiece'
    config.data.sentencepiece_vocab_size = 8000
    config.data.batch_size = 8
    config.data.segment_length = 64

    model = config.model
    model.name = 'compressive'
    model.vocab_size = 8000
    model.num_layers = 2
    model.num_heads = 4
    model.model_dim = 128
    model.mlp_dim = 512
    model.memory_length = 64
    model.compressed_memory_length = 64
    model.compression_rate = 2
    model.init_scale = 0.06
    model.layer_unroll = 2

    training = config.training
    training.num_steps = training.decay_steps = 3_000
    training.warmup_steps = 200
    training.learning_rate = 1e-3
    training.adam_b2 = 0.99
    training.log_every = 100
    training.eval_every = 1_000
    training.eval_segments = 30
    training.checkpoint_every = 1_000

    config.eval.batch_size = 32
    return config
