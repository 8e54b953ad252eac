"""Continues a text with a run's model and prints the continuation while it is drawn.

What no flag sets is as in the config's `sample` section. With --stop the continuation ends before that string. Several
samples are drawn at once and printed one after the other, each under a heading.

  python launch/sample.py --workdir=runs/demo_ct --prompt='In the beginning' --length=512 --top_p=0.98 --seed=0
  python launch/sample.py --workdir=runs/demo_ct --prompt_file=book.txt --num_samples=4 --stop='THE END'
"""

from __future__ import annotations

from absl import flags
from etils import epath
from ml_collections import config_dict

from memjax import command_line
from memjax.errors import UserError

FLAGS = flags.FlagValues()
command_line.define_workdir(FLAGS, 'the directory of the run')
command_line.define_data_dir(FLAGS)
command_line.define_step(FLAGS)
flags.DEFINE_string('prompt', None, 'the text to continue', flag_values=FLAGS)
flags.DEFINE_string('prompt_file', None, 'a file that holds the text, of any length', flag_values=FLAGS)
flags.DEFINE_integer('length', None, 'how many tokens to draw, at most', flag_values=FLAGS)
flags.DEFINE_float('temperature', None, 'what logits are divided by', flag_values=FLAGS)
flags.DEFINE_integer('top_k', None, 'draw from this many of the likeliest tokens; 1 is greedy', flag_values=FLAGS)
flags.DEFINE_float('top_p', None, 'draw from the likeliest tokens that have this much mass', flag_values=FLAGS)
flags.DEFINE_integer('seed', 0, 'another seed draws another continuation', lower_bound=0, flag_values=FLAGS)
flags.DEFINE_string('stop', None, 'end before the first occurrence of this string', flag_values=FLAGS)
flags.DEFINE_integer('num_samples', 1, 'how many continuations to draw', lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer(
    'num_devices',
    1,
    'devices to split heads, mlp and vocabulary over, a divisor of the heads; with a C++ compiler a CPU needs one',
    lower_bound=1,
    flag_values=FLAGS,
)

SETTINGS = ('prompt', 'length', 'temperature', 'top_k', 'top_p')


def load_config(flag_values: flags.FlagValues) -> config_dict.ConfigDict:
    """The run's config, its `sample` section as the flags that are given say."""
    if flag_values.stop == '':
        raise UserError('--stop is an empty string: every text begins with it')
    if flag_values.prompt == '':
        raise UserError('--prompt is empty: there is nothing to continue')
    if flag_values.prompt is not None and flag_values.prompt_file is not None:
        raise UserError('--prompt and --prompt_file are both given: which is the text to continue?')
    config = command_line.config_from_workdir(flag_values)
    for name in SETTINGS:
        if flag_values[name].value is not None:
            config.sample[name] = flag_values[name].value
    return config


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Samples."""
    from memjax.generation.devices import provide
    from memjax.generation.generate import in_order, sample_run

    provide(flag_values.num_devices)
    settings = {name: config.sample[name] for name in SETTINGS}
    if flag_values.prompt_file is not None:
        settings['prompt'] = epath.Path(flag_values.prompt_file).expanduser()
    pieces = sample_run(
        command_line.workdir(flag_values),
        command_line.data_dir(flag_values),
        config,
        **settings,
        seed=flag_values.seed,
        step=flag_values.step,
        stop=flag_values.stop,
        num_samples=flag_values.num_samples,
        num_devices=flag_values.num_devices,
    )
    is_first = True
    for piece in in_order(pieces):
        if is_first and flag_values.num_samples > 1:
            print(f'--- sample {piece.row + 1} of {flag_values.num_samples} ---')
        print(piece.text, end='\n' if piece.is_last else '', flush=True)
        is_first = piece.is_last


COMMAND = command_line.Command(__doc__, FLAGS, load_config, run, command_line.CHANGEABLE_AFTER_TRAINING)

if __name__ == '__main__':
    command_line.main(COMMAND)
