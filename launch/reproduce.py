"""Runs what a table of results lacks, after saying what that costs; what is done is not done again.

python launch/reproduce.py --list
python launch/reproduce.py --table=ct5 --scale=tiny --seeds=3 --dry_run
python launch/reproduce.py --table=ct5 --scale=tiny --seeds=3

Stopped or crashed, the same command goes on where it was. Results go to results/runs/; python launch/report.py then
writes the tables. --config.mesh.fsdp=8 and the like are handed to every training.
"""

from __future__ import annotations

import pathlib

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config import base_config, flatten
from memjax.report.experiments import ROOT, SCALES, check_scale, check_seeds

FLAGS = flags.FlagValues()
command_line.define_data_dir(FLAGS)
flags.DEFINE_string('table', None, 'the table to fill, such as ct5', flag_values=FLAGS)
flags.DEFINE_string('scale', SCALES[0], f'{" or ".join(SCALES)}: the size of its rows', flag_values=FLAGS)
flags.DEFINE_integer('seeds', 3, 'how many seeds of each row, from 0 on', flag_values=FLAGS)
flags.DEFINE_bool('list', False, 'show all tables (or that of --table) and their state', flag_values=FLAGS)
flags.DEFINE_bool('dry_run', False, 'only say what would be run and what it costs', flag_values=FLAGS)
flags.DEFINE_string('results_dir', str(ROOT / 'results'), 'where results go', flag_values=FLAGS)
flags.DEFINE_string('runs_dir', 'runs/reproduce', 'where the runs live, NAME-SEED each', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Lists or reproduces."""
    from memjax.report import reproduce, tables

    seeds, scale = check_seeds(flag_values.seeds), check_scale(flag_values.scale)
    results_dir, runs_dir = (pathlib.Path(flag_values[name].value).expanduser() for name in ('results_dir', 'runs_dir'))
    if flag_values.list:
        listed = [tables.find(flag_values.table)] if flag_values.table else list(tables.TABLES.values())
        print(reproduce.listing(listed, results_dir, runs_dir, seeds))
        return
    table = tables.find(command_line.required(flag_values, 'table'))
    mesh, default = flatten(config.mesh), flatten(base_config().mesh)
    reproduce.reproduce(
        table,
        scale,
        seeds,
        data_dir=command_line.data_dir(flag_values),
        results_dir=results_dir,
        runs_dir=runs_dir,
        flags=[f'--config.mesh.{name}={value}' for name, value in mesh.items() if value != default[name]],
        dry_run=flag_values.dry_run,
    )


COMMAND = command_line.Command(__doc__, FLAGS, command_line.no_config, run, changeable=('mesh',))

if __name__ == '__main__':
    command_line.main(COMMAND)
