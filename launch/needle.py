"""Measures how often a run on the corpus needle recalls a value, by distance; writes JSON and a figure.

python launch/train.py --config=configs/needle_ct.py
python launch/needle.py --workdir=runs/needle_ct --split=test
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config_checks import SPLITS

FLAGS = flags.FlagValues()
command_line.define_workdir(FLAGS, 'the directory of the run')
command_line.define_data_dir(FLAGS)
command_line.define_step(FLAGS)
flags.DEFINE_enum('split', None, SPLITS, 'whose questions to ask', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Probes."""
    split = command_line.required(flag_values, 'split')

    from memjax.evaluation.needle import probe_run

    probe_run(command_line.workdir(flag_values), command_line.data_dir(flag_values), config, split, flag_values.step)


COMMAND = command_line.Command(
    __doc__, FLAGS, command_line.config_from_workdir, run, command_line.CHANGEABLE_AFTER_TRAINING
)

if __name__ == '__main__':
    command_line.main(COMMAND)
