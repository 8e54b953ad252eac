"""Makes a run of a published Transformer-XL's weights, so that eval, sample and sweep accept it.

The weights are a .safetensors file, or an .npz file of one array a tensor, under the names of Hugging Face's TransfoXL;
the config says what model they are, and a token's id must mean to them what it means in its corpus.

python launch/convert.py --source=model.safetensors --config=configs/enwik8_txl_12l.py --workdir=runs/published
"""

from __future__ import annotations

from pathlib import Path

from absl import flags
from ml_collections import config_dict

from memjax import command_line

FLAGS = flags.FlagValues()
command_line.define_config_file(FLAGS)
command_line.define_workdir(FLAGS, 'the directory of the new run')
flags.DEFINE_string('source', None, 'the file of weights', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Converts."""
    source = Path(command_line.required(flag_values, 'source')).expanduser()
    workdir = command_line.workdir(flag_values)

    from memjax.evaluation.convert import convert_run

    convert_run(source, workdir, config)


COMMAND = command_line.Command(__doc__, FLAGS, command_line.config_from_file, run)

if __name__ == '__main__':
    command_line.main(COMMAND)
