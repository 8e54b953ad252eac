"""Trains on from one checkpoint at lower rates and with longer update periods, and shows what each does to the loss.

Writes WORKDIR/eval/optimization_train.json and a figure beside it, and prints a table. The branches are runs in
WORKDIR/branches; stopped, the same command goes on where it was.

python launch/train.py --config=configs/demo_txl.py --workdir=runs/trunk --config.training.num_steps=600 \
  --config.eval.after_training=none --config.sample.after_training=false
python launch/optimization.py --workdir=runs/trunk --num_steps=200 --learning_rates=1e-9,1e-7 --update_periods=2,4

The run is best one in the middle of its schedule, as here: at the end of its decay the rate is next to nothing already.
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line

FLAGS = flags.FlagValues()
command_line.define_workdir(FLAGS, 'the directory of the run that the branches leave')
command_line.define_data_dir(FLAGS)
command_line.define_step(FLAGS)
flags.DEFINE_integer('num_steps', None, 'of each branch', lower_bound=2, flag_values=FLAGS)
command_line.define_floats(FLAGS, 'learning_rates', 'constant rates to try')
command_line.define_integers(FLAGS, 'update_periods', 'gradients accumulated per update, to try')


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Studies."""
    workdir = command_line.workdir(flag_values)
    num_steps = command_line.required(flag_values, 'num_steps')

    from memjax.training.optimization_study import study_optimization

    study_optimization(
        workdir,
        command_line.data_dir(flag_values),
        config,
        num_steps,
        flag_values.learning_rates or (),
        flag_values.update_periods or (),
        flag_values.step,
    )


COMMAND = command_line.Command(__doc__, FLAGS, command_line.config_from_workdir, run, changeable=('data.path', 'mesh'))

if __name__ == '__main__':
    command_line.main(COMMAND)
