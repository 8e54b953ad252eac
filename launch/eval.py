"""Evaluates a run on a whole split, every target once; writes WORKDIR/eval/SPLIT.json and prints it as a table.

python launch/eval.py --workdir=runs/demo_ct --split=test
python launch/eval.py --workdir=runs/demo_ct --split=validation --config.eval.compressed_memory_length=256
"""

from __future__ import annotations

from absl import flags
from etils import epath
from ml_collections import config_dict

from memjax import command_line
from memjax.config_checks import SPLITS

FLAGS = flags.FlagValues()
command_line.define_workdir(FLAGS, 'the directory of the run')
command_line.define_data_dir(FLAGS)
command_line.define_step(FLAGS)
flags.DEFINE_enum('split', None, SPLITS, 'what to score', flag_values=FLAGS)
flags.DEFINE_string('per_token', None, 'also write the loss of every target to this .npz file', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Evaluates."""
    split = command_line.required(flag_values, 'split')
    per_token = epath.Path(flag_values.per_token).expanduser() if flag_values.per_token else None

    from memjax.evaluation.run import evaluate_run

    evaluate_run(
        command_line.workdir(flag_values),
        command_line.data_dir(flag_values),
        config,
        split=split,
        step=flag_values.step,
        per_token=per_token,
    )


COMMAND = command_line.Command(
    __doc__, FLAGS, command_line.config_from_workdir, run, command_line.CHANGEABLE_AFTER_TRAINING
)

if __name__ == '__main__':
    command_line.main(COMMAND)
