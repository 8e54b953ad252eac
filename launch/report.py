"""Builds results/README.md from the result files in results/runs/ and nothing else.

python launch/report.py
python launch/report.py --plans

The first reads committed files alone. The second also plans, by shapes and without training, every experiment of the
tables whose config has changed since, into results/plans.json, from which the first takes what a run would need.
"""

from __future__ import annotations

import pathlib

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.report.experiments import ROOT

FLAGS = flags.FlagValues()
flags.DEFINE_string('results_dir', str(ROOT / 'results'), 'where runs/ is and README.md goes', flag_values=FLAGS)
flags.DEFINE_bool('plans', False, 'plan experiments first (imports JAX; minutes)', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Reports."""
    results_dir = pathlib.Path(command_line.required(flag_values, 'results_dir')).expanduser()
    if flag_values.plans:
        from memjax.evaluation.plan import plan
        from memjax.report import plans

        plans.write(results_dir, plan)

    from memjax.report.results_page import write_page

    print(write_page(results_dir))


COMMAND = command_line.Command(__doc__, FLAGS, command_line.no_config, run, changeable=())

if __name__ == '__main__':
    command_line.main(COMMAND)
