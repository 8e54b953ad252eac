"""What a table of results is made of: experiments (a config and flags), rows, tables, and the jobs that fill them.

A table is data, so a later system adds rows and tables (see `memjax.report.tables`), not code. Nothing here imports
JAX.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import shlex
from typing import Any

from absl import flags
from ml_collections import config_dict

from memjax import command_line
from memjax.config import base_config, flatten
from memjax.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
SCALES = ('tiny', 'full')
TEST = 'test'
NEEDLE = 'needle_test'

# A field of a result file -> its heading and how many decimals are shown.
MEASURES = {
    'bpc': ('bits per character', 4),
    'word_perplexity': ('perplexity per word', 2),
    'accuracy': ('values recalled', 3),
}

# Where a corpus was read from decides nothing, and is a path of somebody's machine.
_NO_SETTING = ('data.path',)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One training: a config and flags, for any seed.

    Attributes:
      config: the name of a file in `configs/`, or a path of another, without `.py`.
      flags: `--config.SECTION.FIELD=VALUE`.
      name: of its runs and result files; an experiment whose flags change something needs one of its own. None: the
        config's.
    """

    config: str
    flags: tuple[str, ...] = ()
    name: str | None = None

    @property
    def run_name(self) -> str:
        """What its result files begin with."""
        return self.name or pathlib.Path(self.config).name

    @property
    def path(self) -> pathlib.Path:
        """The config's file."""
        return ROOT / 'configs' / f'{self.config}.py'

    def arguments(self, seed: int, path: pathlib.Path | str | None = None) -> list[str]:
        """What `launch/train.py` is given, besides where the run and its data live.

        Args:
          seed: of the run.
          path: the config's file as it is to be written; None: whole.
        """
        named = [] if self.name is None else [f'--config.name={self.name}']
        return [f'--config={path or self.path}', *named, *self.flags, f'--config.training.seed={seed}']

    def load(self, seed: int = 0) -> config_dict.ConfigDict:
        """The whole config, checked.

        Raises:
          UserError: there is no such config, or the flags do not fit it.
        """
        return _load(tuple(self.arguments(seed)))

    def command(self, seed: int) -> str:
        """The command that trains it, as a reader would type it."""
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path.name
        return shlex.join(['python', 'launch/train.py', *map(str, self.arguments(seed, path))])


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be measured of one run: one result file.

    Attributes:
      experiment: what was trained.
      seed: with which seed.
      kind: what its file name ends with: a split, `needle_SPLIT` or `sweep_FIELD_SPLIT`.
      values: of a sweep.
    """

    experiment: Experiment
    seed: int
    kind: str
    values: tuple[int, ...] = ()

    @property
    def run(self) -> str:
        """The run's name with its seed."""
        return f'{self.experiment.run_name}-{self.seed}'

    @property
    def file_name(self) -> str:
        """The result file's name."""
        return f'{self.run}-{self.kind}.json'

    @property
    def swept(self) -> str | None:
        """The field that a sweep changes."""
        return swept_field(self.kind)


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
      label: what it is.
      paper: the paper's figure, as printed there; '': it has none.
      full: the experiment at the paper's size.
      tiny: its counterpart on a laptop.
      sweeps: the field of `eval` of which the row is one value, if it is: then several rows share one run.
      full_at: that value at the paper's size.
      tiny_at: that value on a laptop.
      note: beside the paper's figure.
    """

    label: str
    paper: str = ''
    full: Experiment | None = None
    tiny: Experiment | None = None
    sweeps: str | None = None
    full_at: int | None = None
    tiny_at: int | None = None
    note: str = ''

    def experiment(self, scale: str) -> Experiment | None:
        """The experiment at a scale."""
        return self.full if scale == 'full' else self.tiny

    def at(self, scale: str) -> int | None:
        """The value of the field that is swept, at a scale."""
        return self.full_at if scale == 'full' else self.tiny_at


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper, or of ours.

    Attributes:
      id: what `--table` takes.
      title: what it is about.
      source: where the paper's figures stand; '': the table is ours.
      measure: of `MEASURES`.
      rows: its lines.
      kind: what a result file's name ends with, for rows that are not of a sweep.
      note: what a reader should know.
    """

    id: str
    title: str
    source: str
    measure: str
    rows: tuple[Row, ...]
    kind: str = TEST
    note: str = ''

    def kind_of(self, row: Row) -> str:
        """What the name of a row's result files ends with."""
        return f'sweep_{row.sweeps}_test' if row.sweeps else self.kind

    def jobs(self, scale: str, seeds: int) -> list[Job]:
        """All that fills the table at a scale; the first seed of every row comes first.

        Args:
          scale: of `SCALES`.
          seeds: how many; they count from 0.
        """
        values: dict[tuple[Experiment, str], list[int]] = {}
        for row in self.rows:
            experiment = row.experiment(scale)
            if experiment is not None:
                of_row = values.setdefault((experiment, self.kind_of(row)), [])
                if row.sweeps:
                    of_row.append(row.at(scale))
        return [
            Job(experiment, seed, kind, tuple(swept))
            for seed in range(seeds)
            for (experiment, kind), swept in values.items()
        ]


def check_seeds(seeds: int) -> int:
    """The number of seeds, if it is one.

    Raises:
      UserError: it is not.
    """
    if seeds < 1:
        raise UserError(f'--seeds={seeds} must be at least 1')
    return seeds


def check_scale(scale: str) -> str:
    """The scale, if there is such a one.

    Raises:
      UserError: there is not.
    """
    if scale not in SCALES:
        raise UserError(f'--scale={scale} is unknown: it is {" or ".join(SCALES)}')
    return scale


def swept_field(kind: str) -> str | None:
    """The field that the sweep changed whose file's name ends with this; None: it is no sweep's."""
    return kind.removeprefix('sweep_').rpartition('_')[0] if kind.startswith('sweep_') else None


def settings(config: config_dict.ConfigDict) -> dict[str, Any]:
    """Dotted name -> value of every field that is not at its default, as JSON has it."""
    defaults = flatten(base_config())
    fields = {
        name: value for name, value in flatten(config).items() if value != defaults[name] and name not in _NO_SETTING
    }
    return json.loads(json.dumps(fields))


@functools.cache
def _load_once(arguments: tuple[str, ...]) -> config_dict.ConfigDict:
    flag_values = flags.FlagValues()
    command_line.define_config_file(flag_values)
    command = command_line.Command('', flag_values, command_line.config_from_file, lambda *_: None)
    return command_line.flags_parser(command, ['memjax', *arguments])


def _load(arguments: tuple[str, ...]) -> config_dict.ConfigDict:
    # A copy: what one caller changes must not reach another.
    return _load_once(arguments).copy_and_resolve_references()
