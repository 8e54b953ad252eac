"""`results/README.md`: the papers' tables beside what was measured here, made of committed files and nothing else."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from memjax import atomic
from memjax.data.sources import WHOLE
from memjax.report import plans
from memjax.report.analyses import analyses
from memjax.report.experiments import MEASURES, Experiment, Row, Table
from memjax.report.intervals import mean_and_half_width
from memjax.report.markdown import link, section
from memjax.report.markdown import table as markdown_table
from memjax.report.measurements import Measurement, Measurements
from memjax.report.other_sections import compressors, every_file, needle, sweeps
from memjax.report.plans import Plan
from memjax.report.result_files import RUNS, read_all
from memjax.report.tables import TABLES

PAGE = 'README.md'

_INTRODUCTION = """\
<!-- Written by `python launch/report.py` from the files of this folder; do not edit it. -->

# Results

This page is written by `python launch/report.py` from the files in `runs/` and from `plans.json`, and is not edited.

- **paper**: the figure that the paper prints.
- **full size**: ours with the paper's sizes; where nobody has run it, what it needs to be trained, by plan.
- **tiny**: ours with a small counterpart on a laptop's CPU. It stands beside the other rows of its column, not beside
  the paper.
- Several seeds are shown by their mean and its 95 % interval (Student's t); `one seed` says nothing of its neighbours.
- A figure links to its files. They state the commit, the steps, the tokens, the protocol and how many targets were
  scored. A file counts in a table only if its steps, parameters, corpus and lengths (and all of its config, where it
  has `settings`) are those of the table's experiment; the [last section](#files) names those that do not.

`python launch/reproduce.py --table=ct4 --scale=tiny --seeds=3` runs what a table lacks; `--list` shows all tables and
their state."""


def write_page(results_dir: pathlib.Path) -> pathlib.Path:
    """Writes the page; the same files give the same page.

    Args:
      results_dir: holds `runs/` and `plans.json`; the page is written into it.

    Returns:
      The path of the page.

    Raises:
      UserError: a file cannot be used.
      OSError: one cannot be read or written.
    """
    path = results_dir / PAGE
    atomic.write_text(path, page(results_dir))
    return path


def page(results_dir: pathlib.Path, tables: Sequence[Table] | None = None) -> str:
    """The text of the page.

    Args:
      results_dir: holds `runs/` and `plans.json`.
      tables: None: all.

    Raises:
      UserError: a file cannot be used.
    """
    tables = list(TABLES.values()) if tables is None else tables
    planned = plans.read(results_dir)
    found = Measurements(read_all(results_dir), planned)
    sections = [_section(table, found, planned) for table in tables]
    shown = [section_of(found.files) for section_of in (sweeps, analyses, needle, compressors)]
    others = [*shown, every_file(found)]
    return '\n\n'.join([_INTRODUCTION, _contents(tables, found), *sections, *filter(None, others)]) + '\n'


def _contents(tables: Sequence[Table], found: Measurements) -> str:
    lines = []
    for table in tables:
        counts = []
        for scale in ('full', 'tiny'):
            rows = [row for row in table.rows if row.experiment(scale)]
            done = sum(bool(found.of(table, row, scale)) for row in rows)
            counts.append(f'{done} of {len(rows)}' if rows else '')
        lines.append([link(table.id, f'#{table.id}'), table.title, table.source, *counts])
    return markdown_table(['table', 'about', 'source', 'rows at full size', 'rows tiny'], lines)


def _section(table: Table, found: Measurements, planned: dict[str, Plan]) -> str:
    is_papers = bool(table.source)
    measure, _ = MEASURES[table.measure]
    head = ['row', 'paper', 'ours, full size', 'ours, tiny'] if is_papers else ['row', 'ours, tiny']
    lines, above = [], None
    for row in table.rows:
        tiny = _tiny_cell(table, row, found)
        if not is_papers:
            lines.append([row.label, tiny])
            continue
        lines.append([row.label, _paper_cell(row), _full_cell(table, row, found, planned, above), tiny])
        above = row.full
    source = f'{table.source}. ' if is_papers else ''
    text = f'{source}Measured: {measure}, on test.' + (f' {table.note}' if table.note else '')
    return section(f'`{table.id}`: {table.title}', table.id, text, markdown_table(head, lines))


def _paper_cell(row: Row) -> str:
    return ' '.join(filter(None, [row.paper, row.note]))


def _full_cell(table: Table, row: Row, found: Measurements, planned: dict[str, Plan], above: Experiment | None) -> str:
    if row.full is None:
        return ''
    measurements = found.of(table, row, 'full')
    if measurements:
        return cell(measurements, table.measure)
    if row.full == above:
        return 'the same run'
    plan = planned.get(row.full.run_name)
    return f'needs {plans.in_words(plan)}, by plan' if plan else f'not planned yet: `{plans.MADE_BY}`'


def _tiny_cell(table: Table, row: Row, found: Measurements) -> str:
    if row.tiny is None:
        return ''
    measurements = found.of(table, row, 'tiny')
    return cell(measurements, table.measure) if measurements else 'not run yet'


def cell(measurements: Sequence[Measurement], measure: str) -> str:
    """A mean with its interval, each seed linked to its file; and what the files note of their texts."""
    decimals = MEASURES[measure][1]
    mean, half_width = mean_and_half_width([each.value for each in measurements])
    shown = f'{mean:.{decimals}f}'
    seeds = ', '.join(link(str(each.seed), f'{RUNS}/{each.file.path.name}') for each in measurements)
    texts = sorted(
        {
            f'{split}: {text}'
            for each in measurements
            for split, text in each.score.get('texts', {}).items()
            if text not in (None, WHOLE)
        }
    )
    notes = ''.join(f'; {text}' for text in texts)
    if half_width is None:
        return f'{shown} (one seed: {seeds}{notes})'
    return f'{shown} ± {half_width:.{decimals}f} ({len(measurements)} seeds: {seeds}{notes})'
