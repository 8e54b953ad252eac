"""Compares speed with other implementations, in turn on this machine; prints a table, writes JSON and a figure.

python launch/bench.py --quick --out=bench_quick.json
python launch/bench.py
"""

from __future__ import annotations

from pathlib import Path

from absl import flags
from ml_collections import config_dict

from memjax import command_line

FLAGS = flags.FlagValues()
flags.DEFINE_bool('quick', False, 'short pieces of work, each once: a look, no result', flag_values=FLAGS)
flags.DEFINE_string('out', 'results/bench.json', 'the file to write', flag_values=FLAGS)
flags.DEFINE_string(
    'environments', '~/.cache/memjax/peers', "folder of the other implementations' environments", flag_values=FLAGS
)
flags.DEFINE_bool('install', True, 'make the environments that are missing', flag_values=FLAGS)
flags.DEFINE_integer('threads', 2, 'CPU threads of each', lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer('repeats', 5, 'how often each piece of work is timed', lower_bound=1, flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Measures."""
    from memjax.benchmark.run import bench

    bench(
        Path(flag_values.out).expanduser(),
        Path(flag_values.environments).expanduser(),
        install=flag_values.install,
        quick=flag_values.quick,
        threads=flag_values.threads,
        repeats=flag_values.repeats,
    )


COMMAND = command_line.Command(__doc__, FLAGS, command_line.no_config, run, changeable=())

if __name__ == '__main__':
    command_line.main(COMMAND)
