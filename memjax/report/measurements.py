"""Which result files each row of a table is made of."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from memjax.report.experiments import Row, Table
from memjax.report.plans import Plan
from memjax.report.result_files import ResultFile, difference, measured


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One seed's figure, and where it stands."""

    seed: int
    value: float
    score: dict[str, Any]
    file: ResultFile


class Measurements:
    """The result files, looked up by the rows of tables.

    Args:
      files: of `memjax.report.result_files.read_all`.
      planned: name of a run -> its plan.

    Attributes:
      files: the same.
      tables: path of a file -> the tables that it counts in.
      refused: path of a file -> why a table that it was looked up for does not count it.
    """

    def __init__(self, files: Sequence[ResultFile], planned: Mapping[str, Plan]):
        self.files, self._planned = list(files), planned
        self.tables: dict[pathlib.Path, list[str]] = {}
        self.refused: dict[pathlib.Path, str] = {}

    def of(self, table: Table, row: Row, scale: str) -> list[Measurement]:
        """A row's figures at a scale, in the order of seeds.

        Raises:
          UserError: the row's config cannot be loaded.
        """
        experiment = row.experiment(scale)
        found = []
        for file in self.files:
            if experiment is None or (file.name, file.kind) != (experiment.run_name, table.kind_of(row)):
                continue
            score = file.score_at(row.at(scale))
            if score is None:
                continue
            value = measured(score, table.measure)
            plan = self._planned.get(file.name)
            reason = difference(score, file.data, experiment, file.swept, plan and plan.parameters)
            if reason is None and value is None:
                reason = f'it has no {table.measure}'
            if reason is not None:
                self.refused[file.path] = f'not in {table.id}: {reason}'
                continue
            counted = self.tables.setdefault(file.path, [])
            if table.id not in counted:
                counted.append(table.id)
            found.append(Measurement(file.seed, value, score, file))
        return found
