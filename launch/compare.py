"""Lays results of launch/eval.py side by side: quality, seconds, bytes of memory; writes JSON into the first workdir.

The first run is what the others are compared with: the same cost (slots attended to), the same range (tokens that the
slots stand for), or neither.

python launch/compare.py --workdirs=runs/enwik8_ct_tiny,runs/enwik8_txl_tiny,runs/enwik8_txl_tiny_range --split=test
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config_checks import SPLITS

FLAGS = flags.FlagValues()
command_line.define_workdirs(FLAGS, 'the directories of the runs')
flags.DEFINE_enum('split', None, SPLITS, 'whose results to compare', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Compares."""
    del config  # each run has its own
    split = command_line.required(flag_values, 'split')

    from memjax.evaluation.comparison import compare_runs

    compare_runs(command_line.workdirs(flag_values), split)


COMMAND = command_line.Command(__doc__, FLAGS, command_line.no_config, run, changeable=())

if __name__ == '__main__':
    command_line.main(COMMAND)
