"""Analyses a run; each analysis writes WORKDIR/eval/WHAT_SPLIT.json, most a figure beside it, and prints a table.

  documents    perplexity of words and tokens and bits a character, by document and of all, with bootstrap intervals
  attention    attention in buckets, from the oldest compressed memory to the end of the segment
  compression  compression loss by layer
  frequency    perplexity by how often a token occurs in training
  dynamic      the score while the parameters follow the text, each segment scored before the update on it
  window       seconds a token of a window that moves by a token, against segments with memory, by attention length

python launch/analyze.py --workdir=runs/demo_ct --what=documents --split=test
python launch/analyze.py --workdir=runs/demo_ct --what=attention --split=validation --sequences=1000
python launch/analyze.py --workdir=runs/demo_ct --what=dynamic --learning_rate=1e-4 --split=validation
python launch/analyze.py --workdir=runs/demo_txl --what=window --attention_lengths=128,512 --split=validation
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config_checks import SPLITS
from memjax.errors import UserError

# What each analysis reads besides what all do; what is not given has the default of the analysis.
OPTIONS = {
    'documents': ('max_targets', 'resamples', 'seed'),
    'attention': ('sequences',),
    'compression': ('sequences',),
    'frequency': ('max_targets',),
    'dynamic': ('learning_rate', 'optimizer', 'max_targets'),
    'window': ('attention_lengths', 'repeats', 'calls'),
}

FLAGS = flags.FlagValues()
command_line.define_workdir(FLAGS, 'the directory of the run')
command_line.define_data_dir(FLAGS)
command_line.define_step(FLAGS)
flags.DEFINE_enum('what', None, list(OPTIONS), 'the analysis', flag_values=FLAGS)
flags.DEFINE_enum('split', None, SPLITS, 'what to read', flag_values=FLAGS)
for name, meaning in {
    'max_targets': 'documents, frequency, dynamic: score only the first so many; by default all',
    'resamples': 'documents: of the bootstrap',
    'sequences': 'attention, compression: stop after so many that had a full memory',
    'repeats': 'window: timed runs of each way',
    'calls': 'window: segments, or windows, of each row in a timed run; a multiple of 8',
}.items():
    flags.DEFINE_integer(name, None, meaning, lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer('seed', None, 'documents: of the bootstrap', lower_bound=0, flag_values=FLAGS)
flags.DEFINE_float('learning_rate', None, 'dynamic: of every update', lower_bound=0, flag_values=FLAGS)
flags.DEFINE_enum('optimizer', None, ['adam', 'sgd'], 'dynamic: what makes an update', flag_values=FLAGS)
command_line.define_integers(FLAGS, 'attention_lengths', 'window: in tokens')


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Analyses."""
    what, split = (command_line.required(flag_values, name) for name in ('what', 'split'))
    given = {name for names in OPTIONS.values() for name in names if flag_values[name].value is not None}
    for name in sorted(given - set(OPTIONS[what])):
        raise UserError(f'--{name} means nothing to --what={what}')
    if what == 'dynamic' and 'learning_rate' not in given:
        raise UserError(f'--learning_rate is needed: {flag_values["learning_rate"].help}')

    from memjax.evaluation import attention, compression_loss, documents, dynamic, frequency, window_cost

    analyze = {
        'documents': documents.analyze_documents,
        'attention': attention.analyze_attention,
        'compression': compression_loss.analyze_compression,
        'frequency': frequency.analyze_frequency,
        'dynamic': dynamic.analyze_dynamic,
        'window': window_cost.analyze_window,
    }[what]
    analyze(
        command_line.workdir(flag_values),
        command_line.data_dir(flag_values),
        config,
        split,
        step=flag_values.step,
        **{name: flag_values[name].value for name in given},
    )


COMMAND = command_line.Command(
    __doc__, FLAGS, command_line.config_from_workdir, run, command_line.CHANGEABLE_AFTER_TRAINING
)

if __name__ == '__main__':
    command_line.main(COMMAND)
