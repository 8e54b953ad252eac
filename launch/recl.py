"""Measures how much context each run of a group makes use of (RECL); writes JSON and a figure into the first workdir.

python launch/recl.py --workdirs=runs/enwik8_ct_tiny,runs/enwik8_txl_tiny --split=validation --lengths=96,192,288,384
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config_checks import SPLITS

FLAGS = flags.FlagValues()
command_line.define_workdirs(FLAGS, 'the directories of the runs')
command_line.define_data_dir(FLAGS)
flags.DEFINE_enum('split', None, SPLITS, 'where the positions are', flag_values=FLAGS)
command_line.define_integers(FLAGS, 'lengths', 'of the context, in tokens, the shortest first')
flags.DEFINE_integer('samples', 1024, 'positions', lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer('seed', 0, 'of the positions', lower_bound=0, flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Measures."""
    del config  # each run has its own
    split, lengths = (command_line.required(flag_values, name) for name in ('split', 'lengths'))
    workdirs = command_line.workdirs(flag_values)

    from memjax.evaluation.recl import measure_recl

    measure_recl(
        workdirs,
        command_line.data_dir(flag_values),
        split,
        lengths=lengths,
        samples=flag_values.samples,
        seed=flag_values.seed,
    )


COMMAND = command_line.Command(__doc__, FLAGS, command_line.no_config, run, changeable=())

if __name__ == '__main__':
    command_line.main(COMMAND)
