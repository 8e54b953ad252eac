"""Transformer-XL on WikiText-103, the base model of arXiv 1901.02860.

Row: Table 1's "Transformer-XL Standard" (151 M; 151,107,538 parameters), and with the overrides of `configs/README.md`
the rows of Table 6.
Reported figure: 24.0 perplexity, evaluated with segments of 64, a memory of 640, distances clamped at 400, same_length.
Hardware and time: not known here.

Sizes, dropout, batch, rate (2.5e-4, cosine over 200,000 steps, no warmup), clip (0.25) and the adaptive bands are the
authors'. Not given in the paper: where the cosine ends (0 here), Adam's constants (0.9, 0.999, 1e-8), how many rows
evaluation reads at once (60 here, as in training; each row first reads the memory's span unscored).

  python launch/prepare.py --dataset=wikitext103 --convention=words --source=FOLDER_OR_ZIP
  python launch/train.py --config=configs/wt103_txl_base.py
  python launch/eval.py --workdir=runs/wt103_txl_base --split=test
"""

from ml_collections import config_dict

from memjax.config import base_config


def get_config() -> config_dict.ConfigDict:
    """The config."""
    config = base_config()
    config.name = 'wt103_txl_base'

    config.data.name = 'wikitext103'
    config.data.convention = 'words'
    config.data.batch_size = 60
    config.data.segment_length = 150

    model = config.model
    model.name = 'transformer_xl'
    model.vocab_size = 267_735
    model.adaptive_cutoffs = (20_000, 40_000, 200_000)
    model.num_layers = 16
    model.num_heads = 10
    model.head_dim = 41
    model.model_dim = 410
    model.mlp_dim = 2100
    model.norm = 'post'
    model.memory_length = 150
    model.compressed_memory_length = 0
    model.dropout_rate = 0.1
    model.attention_dropout_rate = 0.0

    training = config.training
    training.num_steps = 200_000
    training.warmup_steps = 0
    training.decay_steps = 200_000
    training.learning_rate = 2.5e-4
    training.learning_rate_end = 0.0
    training.gradient_clip = 0.25
    training.log_every = 200
    training.eval_every = 10_000
    training.checkpoint_every = 2_000

    config.eval.segment_length = 64
    config.eval.memory_length = 640
    config.eval.clamp_length = 400
    config.eval.same_length = True
    return config
