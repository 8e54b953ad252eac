"""The part of the page of results that shows analyses: a table and a figure for each file of a kind that is known here.

A file of a kind that is not known is listed with the others and nothing is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from memjax.errors import UserError
from memjax.report.markdown import link, section, table
from memjax.report.result_files import RUNS, ResultFile

# The head of a table and its rows.
Shown = tuple[list[str], list[list[str]]]


def analyses(files: Sequence[ResultFile]) -> str:
    """Every analysis.

    Raises:
      UserError: a file lacks what its kind has.
    """
    parts = []
    for kind, (title, shown) in _KINDS.items():
        for file in files:
            if file.kind.rpartition('_')[0] != kind:
                continue
            try:
                head, rows = shown(file.data)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise UserError(
                    f'{file.path} is not what an analysis of its kind ({kind}) writes: {error!r}'
                ) from error
            text = f'**{title}.** {file.name}, seed {file.seed}, {file.kind.rpartition("_")[2]}: {_links(file)}'
            parts += [text, table(head, rows)]
    return section('Analyses', 'analyses', *parts) if parts else ''


def is_analysis(file: ResultFile) -> bool:
    """Whether it is shown here."""
    return file.kind.rpartition('_')[0] in _KINDS


def _links(file: ResultFile) -> str:
    links = [link(file.path.name, f'{RUNS}/{file.path.name}')]
    figure = file.path.with_suffix('.png')
    if figure.exists():
        links.append(link('figure', f'{RUNS}/{figure.name}'))
    return ', '.join(links)


def _attention(data: dict[str, Any]) -> Shown:
    regions = {each['region']: [] for each in data['buckets']}
    for each in data['buckets']:
        regions[each['region']].append(each)
    rows = [
        [
            region.replace('_', ' '),
            f'{sum(each["slots"] for each in buckets):,}',
            ', '.join(f'{100 * each["mass"]:.2f}' for each in buckets),
            f'{100 * sum(each["mass"] for each in buckets):.2f}',
        ]
        for region, buckets in regions.items()
    ]
    return ['region, the oldest first', 'slots', 'percent of attention by sixth of it', 'percent in all'], rows


def _compression(data: dict[str, Any]) -> Shown:
    rows = [[str(layer), f'{loss:.4f}'] for layer, loss in enumerate(data['loss_by_layer'], start=1)]
    return ['layer', f'{data["loss"]} loss, {data["reduction"]}'.replace('_', ' ')], rows


def _recl(data: dict[str, Any]) -> Shown:
    fractions = list(data['runs'][0]['recl'])
    rows = [
        [each['config'], *(_recl_in_words(each['recl'][fraction]) for fraction in fractions)] for each in data['runs']
    ]
    return ['run', *(f'r = {fraction}' for fraction in fractions)], rows


def _recl_in_words(found: dict[str, Any]) -> str:
    return f'{found["recl"]:,}{" or more" if found["is_bound"] else ""}'


def _comparison(data: dict[str, Any]) -> Shown:
    head = ['run', 'bits per character', 'parameters', 'slots', 'span', 'bytes of states a row', 'beside the first']
    rows = []
    for each in data['runs']:
        used = each['evaluation']
        bits = each.get('bpc')
        rows.append(
            [
                each['config'],
                '' if bits is None else f'{bits:.4f}',
                f'{each["parameters"]:,}',
                *('' if used[name] is None else f'{used[name]:,}' for name in ('attended_slots', 'span')),
                f'{used["memory_state_bytes"]:,}',
                ', '.join(f'same {name}' for name in each['beside']),
            ]
        )
    return head, rows


def _dynamic(data: dict[str, Any]) -> Shown:
    def row(name: str, score: dict[str, Any]) -> list[str]:
        bits = score.get('bpc')
        return [name, f'{score["token_perplexity"]:.3f}', '' if bits is None else f'{bits:.4f}']

    head = [f'parameters, over {data["scored"]:,} targets', 'perplexity per token', 'bits per character']
    follow = f'following the text ({data["optimizer"]}, {data["learning_rate"]:g})'
    return head, [row('as they are', data), row(follow, data['dynamic'])]


def _window(data: dict[str, Any]) -> Shown:
    rows = [
        [
            f'{each["attention_length"]:,}',
            f'{1e3 * each["window"]["seconds_per_token"]:.3f}',
            f'{1e3 * each["reuse"]["seconds_per_token"]:.3f}',
            f'{each["ratio"]:,.0f}',
        ]
        for each in data['lengths']
    ]
    return ['attention length', 'window, ms a token', 'segments with memory, ms a token', 'ratio'], rows


def _optimization(data: dict[str, Any]) -> Shown:
    branches = data['branches']
    measure, heading = (
        ('bpc', 'bits per character') if 'bpc' in branches[0]['train'] else ('ppl', 'perplexity per token')
    )
    head = [
        f'{data["branch_steps"]:,} steps from step {data["step"]:,}',
        'learning rate',
        'updates',
        f'{heading} in training, of the second half',
        f'{heading} on validation, at the end',
    ]
    rows = [
        [
            each['name'].replace('_', ' '),
            f'{each["learning_rate"]:.3g}',
            f'{each["updates"]:,}',
            *(f'{each[split][measure]:.4f}' for split in ('train', 'validation')),
        ]
        for each in branches
    ]
    return head, rows


# What comes before the split in a file's kind -> its title, and what is shown.
_KINDS: dict[str, tuple[str, Callable[[dict[str, Any]], Shown]]] = {
    'attention': ('Where attention goes (Compressive Transformer, Figure 2)', _attention),
    'compression': ('Compression loss by layer (Compressive Transformer, Figure 6)', _compression),
    'recl': ('Relative effective context length, in tokens (Transformer-XL, Table 8)', _recl),
    'window': ('A window that moves by a token against segments with memory (Transformer-XL, Table 9)', _window),
    'comparison': ('Same cost and same range', _comparison),
    'optimization': ('A lower rate against rarer updates (Compressive Transformer, Figure 3)', _optimization),
    'dynamic': ('Naive dynamic evaluation (Compressive Transformer, section 5.2)', _dynamic),
}
