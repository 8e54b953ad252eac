"""Continues a text with a run's model and prints the continuation.

What no flag sets is as in the config's `sample` section.

  python launch/sample.py --workdir=runs/demo_ct --prompt='In the beginning' --length=512 --top_p=0.98 --seed=0
"""

from __future__ import annotations

from absl import flags
from ml_collections import config_dict

from memjax import command_line

FLAGS = flags.FlagValues()
command_line.define_workdir(FLAGS, 'the directory of the run')
command_line.define_data_dir(FLAGS)
command_line.define_step(FLAGS)
flags.DEFINE_string('prompt', None, 'the text to continue', flag_values=FLAGS)
flags.DEFINE_integer('length', None, 'how many tokens to draw', flag_values=FLAGS)
flags.DEFINE_float('temperature', None, 'what logits are divided by', flag_values=FLAGS)
flags.DEFINE_integer('top_k', None, 'draw from this many of the likeliest tokens', flag_values=FLAGS)
flags.DEFINE_float('top_p', None, 'draw from the likeliest tokens that have this much mass', flag_values=FLAGS)
flags.DEFINE_integer('seed', 0, 'another seed draws another continuation', lower_bound=0, flag_values=FLAGS)

SETTINGS = ('prompt', 'length', 'temperature', 'top_k', 'top_p')


def load_config(flag_values: flags.FlagValues) -> config_dict.ConfigDict:
    """The run's config, its `sample` section as the flags that are given say."""
    config = command_line.config_from_workdir(flag_values)
    for name in SETTINGS:
        if flag_values[name].value is not None:
            config.sample[name] = flag_values[name].value
    return config


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Samples."""
    from memjax.evaluation.sampling import sample_run

    text = sample_run(
        command_line.workdir(flag_values),
        command_line.data_dir(flag_values),
        config,
        **{name: config.sample[name] for name in SETTINGS},
        seed=flag_values.seed,
        step=flag_values.step,
    )
    print(text)


COMMAND = command_line.Command(__doc__, FLAGS, load_config, run, command_line.CHANGEABLE_AFTER_TRAINING)

if __name__ == '__main__':
    command_line.main(COMMAND)
