"""Prepares a corpus: fetches or reads its source, checks it, splits it, and stores it as tokens.

python launch/prepare.py --dataset=enwik8
python launch/prepare.py --dataset=enwik8 --source=downloads/enwik8.zip --convention=txl
python launch/prepare.py --dataset=files --source=my_texts --config.data.test_fraction=0.1
python launch/prepare.py --dataset=pg19 --source=FOLDER --convention=sentencepiece
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config import base_config

FLAGS = flags.FlagValues()
command_line.define_data_dir(FLAGS)
flags.DEFINE_string('dataset', None, 'the name of the corpus, such as kjv, enwik8 or files', flag_values=FLAGS)
flags.DEFINE_string('source', None, 'a file, folder or address to read it from instead of its own', flag_values=FLAGS)
flags.DEFINE_string(
    'convention',
    None,
    'what a symbol is: bytes (the default), txl, awd, characters, words or sentencepiece',
    flag_values=FLAGS,
)
flags.DEFINE_bool('overwrite', False, 'replace what was prepared from another source', flag_values=FLAGS)


def load_config(flag_values: flags.FlagValues) -> config_dict.ConfigDict:
    """The base config with the corpus that the flags name."""
    config = base_config()
    config.data.name = command_line.required(flag_values, 'dataset')
    if flag_values.convention is not None:
        config.data.convention = flag_values.convention
    return config


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Prepares."""
    from memjax.data.prepare import prepare
    from memjax.data.sources import WHOLE

    corpus = prepare(
        config.data,
        command_line.data_dir(flag_values),
        overwrite=flag_values.overwrite,
        source=flag_values.source,
    )
    for name, split in corpus.splits.items():
        line = f'{corpus.name} {corpus.convention} {name:<10} {len(split.tokens):>13,} symbols'
        if split.words is not None:
            line += f', {split.words:,} {split.word_unit}'
        print(line if split.note in (None, WHOLE) else f'{line}; {split.note}')
    if corpus.documents is not None:
        print(f'documents: {corpus.documents}')
    print(f'vocabulary of {corpus.vocab_size:,}; licence: {corpus.licence}')


COMMAND = command_line.Command(__doc__, FLAGS, load_config, run, ('data',))

if __name__ == '__main__':
    command_line.main(COMMAND)
