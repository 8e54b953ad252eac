"""Scores a run on a whole split with several values of one field of evaluation; writes JSON and a figure.

Choose the value on validation, then score it once on test with launch/eval.py.

python launch/sweep.py --workdir=runs/enwik8_ct_tiny --what=compressed_memory_length --values=96,384 --split=validation
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config_checks import SPLITS, SWEPT

FLAGS = flags.FlagValues()
command_line.define_workdir(FLAGS, 'the directory of the run')
command_line.define_data_dir(FLAGS)
command_line.define_step(FLAGS)
flags.DEFINE_enum('what', None, SWEPT, 'the field of eval that changes', flag_values=FLAGS)
command_line.define_integers(FLAGS, 'values', 'what it is set to, one after the other')
flags.DEFINE_enum('split', None, SPLITS, 'what to score', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Sweeps."""
    what, values, split = (command_line.required(flag_values, name) for name in ('what', 'values', 'split'))

    from memjax.evaluation.sweep import sweep_run

    sweep_run(
        command_line.workdir(flag_values),
        command_line.data_dir(flag_values),
        config,
        what=what,
        values=values,
        split=split,
        step=flag_values.step,
    )


COMMAND = command_line.Command(
    __doc__, FLAGS, command_line.config_from_workdir, run, command_line.CHANGEABLE_AFTER_TRAINING
)

if __name__ == '__main__':
    command_line.main(COMMAND)
