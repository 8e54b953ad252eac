"""Transformer-XL on WikiText-103, the large model of arXiv 1901.02860.

Row: Table 1's "Transformer-XL Large". The paper says 257 M. The authors' code has 285,170,506 parameters, of which
1,048,576 are the head's own projection of the first band; its script also keeps u and v apart in each layer
(`model.untie_r=True`, 34,816 more). To be 257 M, 28 M would have to go that the published dimensions do not leave out.
Reported figure: 18.3 perplexity, evaluated with segments of 128, a memory of 1,600, distances clamped at 1,000,
same_length.
Hardware and time: not known here.

Sizes, dropout, batch, rate (2.5e-4 after 16,000 steps of warmup, cosine over 4,000,000 steps), the initial scale and
the adaptive bands, each four times as narrow as the one before, are the authors'; the rest is as in `wt103_txl_base`.

  python launch/prepare.py --dataset=wikitext103 --convention=words --source=FOLDER_OR_ZIP
  python launch/train.py --config=configs/wt103_txl_large.py
  python launch/eval.py --workdir=runs/wt103_txl_large --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of the base model, larger."""
    config = from_file(pathlib.Path(__file__).with_name('wt103_txl_base.py'))
    config.name = 'wt103_txl_large'

    config.data.batch_size = 128
    config.data.segment_length = 384

    model = config.model
    model.adaptive_div = 4
    model.tied_projections = 'all_but_first'
    model.num_layers = 18
    model.num_heads = 16
    model.head_dim = 64
    model.model_dim = 1024
    model.mlp_dim = 4096
    model.memory_length = 384
    model.dropout_rate = 0.2
    model.attention_dropout_rate = 0.2
    model.init_scale = 0.005

    training = config.training
    training.num_steps = 4_000_000
    training.warmup_steps = 16_000
    training.decay_steps = 4_000_000
    training.learning_rate_start = 0.0

    config.eval.segment_length = 128
    config.eval.memory_length = 1600
    config.eval.clamp_length = 1000
    return config
