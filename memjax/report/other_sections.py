"""What stands on the page of results besides the papers' tables: sweeps, the needle probe, compressors, all files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memjax.report.analyses import is_analysis
from memjax.report.experiments import MEASURES
from memjax.report.intervals import mean_and_half_width
from memjax.report.markdown import link, section, table
from memjax.report.measurements import Measurements
from memjax.report.plans import tokens_in_words
from memjax.report.result_files import RUNS, ResultFile


def sweeps(files: Sequence[ResultFile]) -> str:
    """Every sweep: what each value scored, the best of them marked."""
    swept = [file for file in files if file.swept]
    parts = []
    for file in swept:
        measure = next((name for name in ('bpc', 'word_perplexity') if file.scores[0].get(name) is not None), None)
        name, decimals = (MEASURES[measure][0], MEASURES[measure][1]) if measure else ('perplexity per token', 3)
        field = measure or 'token_perplexity'
        best = min(file.scores, key=lambda score: score['nll_nats'])
        rows = []
        for score in sorted(file.scores, key=lambda score: score[file.swept]):
            shown = f'{score[field]:.{decimals}f}' if score.get(field) is not None else ''
            rows.append([f'{score[file.swept]:,}', f'**{shown}**' if score is best else shown])
        words = file.swept.replace('_', ' ')
        text = f'{file.name}, seed {file.seed}, {best["split"]} of {best["dataset"]}: {_linked(file)}'
        parts += [text, table([f'{words} in evaluation', name], rows)]
    return section('Sweeps', 'sweeps', *parts) if parts else ''


def needle(files: Sequence[ResultFile]) -> str:
    """The needle probe: the share of values recalled by distance, a column for each run."""
    parts = []
    probes = [file for file in files if file.kind.startswith('needle_')]
    for kind in sorted({file.kind for file in probes}):
        of_kind = [file for file in probes if file.kind == kind]
        names = sorted({file.name for file in of_kind})
        seeds = {name: [file for file in of_kind if file.name == name] for name in names}
        bins = sorted({(each['from'], each['to']) for file in of_kind for each in file.data['bins']})
        rows = []
        for low, high in bins:
            cells = []
            for name in names:
                values = [
                    each['accuracy']
                    for file in seeds[name]
                    for each in file.data['bins']
                    if (each['from'], each['to']) == (low, high)
                ]
                cells.append(_mean(values, MEASURES['accuracy'][1]) if values else '')
            rows.append([f'{low:,} to {high - 1:,}', *cells])
        head = [f'{name}, {_seeds(len(seeds[name]))}' for name in names]
        listed = '; '.join(f'{file.name}, seed {file.seed}: {_linked(file)}' for file in of_kind)
        reach = [_reach(name, seeds[name][0].data) for name in names]
        said = [f'Split: {kind.removeprefix("needle_")}. A guess recalls one value in eight.', *filter(None, reach)]
        parts += [' '.join(said), table(['distance in symbols', *head], rows), listed]
    return section('The needle probe by distance', 'needle-by-distance', *parts) if parts else ''


def compressors(files: Sequence[ResultFile]) -> str:
    """General compressors on the texts that the models were scored on, as the result files state them."""
    found: dict[tuple[str, str, str, int], dict[str, tuple[float, ResultFile]]] = {}
    for file in files:
        for score in file.scores:
            for name, bits in score.get('compressors', {}).items():
                text = (score['dataset'], score['convention'], score['split'], score['targets'])
                found.setdefault(text, {}).setdefault(name, (bits, file))
    rows = [
        [
            f'{split} of {dataset}, {convention}, {targets:,} targets',
            f'`{name}`',
            f'{link(f"{bits:.4f}", f"{RUNS}/{file.path.name}")}',
        ]
        for (dataset, convention, split, targets), of_text in sorted(found.items())
        for name, (bits, file) in sorted(of_text.items(), key=lambda item: (-item[1][0], item[0]))
    ]
    return section('Compressors', 'compressors', table(['text', 'compressor', 'bits per byte'], rows)) if rows else ''


def every_file(found: Measurements) -> str:
    """All result files, with what they are of and which tables they count in."""
    rows = []
    for file in found.files:
        tables = ', '.join(link(each, f'#{each}') for each in found.tables.get(file.path, []))
        elsewhere = link('Analyses', '#analyses') if is_analysis(file) else 'no table'
        counts_in = tables or found.refused.get(file.path, elsewhere)
        name = link(file.path.stem, f'{RUNS}/{file.path.name}')
        rows.append([name, *(_facts(file) if file.scores else [''] * 6), counts_in])
    head = ['file', 'text', 'steps', 'trained on', 'parameters', 'scored', 'measured', 'counts in']
    text = (
        'Bits per character of different conventions (`bytes`, `txl`, `awd`, ..) must not be compared: they are of '
        'different texts.'
    )
    return section('Every result file', 'files', text if rows else 'There is none.', table(head, rows) if rows else '')


def _facts(file: ResultFile) -> list[str]:
    score = file.scores[0]
    if file.swept:
        figures = f'{len(file.scores)} values of {file.swept}'
    else:
        present = [(name, *MEASURES[name]) for name in MEASURES if score.get(name) is not None]
        figures = ', '.join(f'{score[name]:,.{decimals}f} {words}' for name, words, decimals in present)
        figures = figures or f'{score["token_perplexity"]:,.2f} perplexity per token'
    scored = f'{score["scored"]:,}'
    if score['scored'] != score['targets']:
        scored += f' of {score["targets"]:,}'
    return [
        f'{score["split"]} of {score["dataset"]}, {score["convention"]}',
        f'{score["step"]:,}',
        tokens_in_words(score['train_tokens']),
        f'{score["parameters"]:,}',
        scored,
        figures,
    ]


def _mean(values: Sequence[float], decimals: int) -> str:
    mean, half_width = mean_and_half_width(values)
    return f'{mean:.{decimals}f}' + (f' ± {half_width:.{decimals}f}' if half_width is not None else '')


def _seeds(count: int) -> str:
    return 'one seed' if count == 1 else f'{count} seeds'


def _reach(name: str, data: dict[str, Any]) -> str:
    reach = data.get('temporal_range')
    return f'{name} can be reached from {reach:,} symbols back.' if isinstance(reach, int) else ''


def _linked(file: ResultFile) -> str:
    figure = file.path.with_suffix('.png')
    links = [link(file.path.name, f'{RUNS}/{file.path.name}')]
    if figure.exists():
        links.append(link('figure', f'{RUNS}/{figure.name}'))
    return ', '.join(links)
