"""Trains a model; run again on the same workdir, it goes on from the newest good checkpoint.

python launch/train.py --config=configs/demo_ct.py
python launch/train.py --config=configs/demo_ct.py --workdir=runs/wide --config.model.model_dim=256
"""

from __future__ import annotations

from absl import flags
from etils import epath
from ml_collections import config_dict

from memjax import command_line

FLAGS = flags.FlagValues()
command_line.define_config_file(FLAGS)
command_line.define_workdir(FLAGS, 'where the run lives; by default runs/NAME, by the name in the config')
command_line.define_data_dir(FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Trains."""
    from memjax.training import loop

    workdir = command_line.workdir(flag_values) if flag_values.workdir else epath.Path('runs') / config.name
    loop.train(config, workdir, command_line.data_dir(flag_values))


COMMAND = command_line.Command(__doc__, FLAGS, command_line.config_from_file, run)

if __name__ == '__main__':
    command_line.main(COMMAND)
