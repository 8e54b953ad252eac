"""Transformer-XL on the One Billion Word benchmark, the base model as far as arXiv 1901.02860 and its code give it.

Row: the One Billion Word table's "Transformer-XL Base" (0.46 B). The paper does not give its dimensions, and those of
the authors' script, which are used here, make 357,846,898.
Reported figure: 23.5 perplexity, evaluated with segments of 32 and a memory of 128, same_length.
Hardware and time: not known here.

The vocabulary is the benchmark's 793,470 words and the mark between sentences. Sizes, dropout, batch, rate (2.5e-4,
cosine over 400,000 steps, no warmup), u and v of each layer and the bands are the script's; not given: as in
`wt103_txl_base`. Of sentences and memory: see `lm1b_txl_large`.

  python launch/prepare.py --dataset=lm1b --convention=words --source=FOLDER --config.data.documents=stream
  python launch/train.py --config=configs/lm1b_txl_base.py
  python launch/eval.py --workdir=runs/lm1b_txl_base --split=test
"""

import pathlib

from ml_collections import config_dict

from memjax.config import from_file


def get_config() -> config_dict.ConfigDict:
    """The config: that of WikiText-103's base model for another text and vocabulary."""
    config = from_file(pathlib.Path(__file__).with_name('wt103_txl_base.py'))
    config.name = 'lm1b_txl_base'

    config.data.name = 'lm1b'
    config.data.documents = 'stream'
    config.data.batch_size = 256
    config.data.segment_length = 256

    model = config.model
    model.vocab_size = 793_471
    model.adaptive_cutoffs = (60_000, 100_000, 640_000)
    model.adaptive_div = 4
    model.tied_projections = 'none'
    model.untie_r = True
    model.num_layers = 18
    model.num_heads = 8
    model.head_dim = 128
    model.model_dim = 1024
    model.mlp_dim = 4096
    model.memory_length = 256

    training = config.training
    training.num_steps = 400_000
    training.decay_steps = 400_000

    config.eval.segment_length = 32
    config.eval.memory_length = 128
    config.eval.clamp_length = None
    return config
