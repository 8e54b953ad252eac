"""Transformer-XL on the Penn Treebank, at the size of the model of arXiv 1901.02860.

Row: the Penn Treebank table's "Transformer-XL" (24 M).
Reported figure: 54.52 perplexity, with variational dropout and averaged weights, which are not offered here: this
config shows how the corpus is used and is not expected to reach it.
Hardware and time: not known here.

The paper gives no dimensions. Chosen here: 12 layers of width 400 (24.2 M parameters), segments and memory of 70, a
batch of 20, ordinary dropout of 0.4, 2.5e-4 after 1,000 steps of warmup, cosine over 60,000 steps, clip 0.25.

  python launch/prepare.py --dataset=ptb --convention=words --source=FOLDER
  python launch/train.py --config=configs/ptb_txl.py
  python launch/eval.py --workdir=runs/ptb_txl --split=test
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'ptb_txl'

    config.data.name = 'ptb'
    config.data.convention = 'words'
    config.data.batch_size = 20
    config.data.segment_length = 70

    model = config.model
    model.name = 'transformer_xl'
    model.vocab_size = 10_000
    model.num_layers = 12
    model.num_heads = 10
    model.model_dim = 400
    model.mlp_dim = 1100
    model.norm = 'post'
    model.memory_length = 70
    model.compressed_memory_length = 0
    model.dropout_rate = 0.4

    training = config.training
    training.num_steps = training.decay_steps = 60_000
    training.warmup_steps = 1_000
    training.learning_rate = 2.5e-4
    training.learning_rate_start = training.learning_rate_end = 0.0
    training.gradient_clip = 0.25
    training.eval_every = 1_000

    config.eval.memory_length = 280
    return config
