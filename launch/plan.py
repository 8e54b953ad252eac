"""Tells what a config amounts to before anything is trained: parameters, FLOPs a token, temporal range, memory bytes.

python launch/plan.py --config=configs/enwik8_txl_12l.py
python launch/plan.py --config=configs/enwik8_ct.py --config.model.compression_rate=2 --json
"""

from __future__ import annotations

import json

from absl import flags
from ml_collections import config_dict

from memjax import command_line

FLAGS = flags.FlagValues()
command_line.define_config_file(FLAGS)
flags.DEFINE_bool('json', False, 'print JSON, all fields, instead of a table', flag_values=FLAGS)


def run(flag_values: flags.FlagValues, config: config_dict.ConfigDict) -> None:
    """Plans."""
    from memjax.evaluation.plan import plan

    figures = plan(config)
    print(json.dumps(figures, indent=2) if flag_values.json else _table(figures))


def _table(figures: dict) -> str:
    """The figures, a line each, those of a module under the figure that they add up to."""
    rows = []
    for name, value in figures.items():
        if isinstance(value, dict):
            rows += [(f'  {part}', share) for part, share in value.items()]
        else:
            rows.append((name.replace('_', ' '), value))
    width = max(len(name) for name, _ in rows)
    shown = [(name, 'without a bound' if value is None else f'{value:,}') for name, value in rows]
    return '\n'.join(f'{name:<{width}}  {value:>18}' for name, value in shown)


COMMAND = command_line.Command(__doc__, FLAGS, command_line.config_from_file, run)

if __name__ == '__main__':
    command_line.main(COMMAND)
