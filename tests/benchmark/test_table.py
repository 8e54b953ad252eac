"""The table of speeds, and the README's, which is that of the committed file."""

import json
import pathlib

from memjax.benchmark.comparisons import COMPARISONS
from memjax.benchmark.table import table

ROOT = pathlib.Path(__file__).parents[2]


def test_a_line_for_each_ratio_and_empty_cells_where_there_is_none():
    def rows(name, ours, other):
        return [{'name': name, 'tokens_per_second': speed} for speed in (ours, other)]

    result = {
        'ratios': {
            'eval_txl_vs_transfoxl': 3.68, 'decode_txl_vs_xtransformers': None, 'eval_ct_vs_ctpytorch_batch_4': 2.0,
            'decode_ct_vs_ctpytorch_2100': None,
        },
        'rows': rows('eval_txl_vs_transfoxl', 2399.4, 651.7) + rows('eval_ct_vs_ctpytorch_batch_4', 1000.0, 500.0),
    }  # fmt: skip
    assert table(result) == [
        '| | beside | here, tokens a second | there | ratio |',
        '|---|---|---|---|---|',
        '| evaluation, memory 2,100, one row | TransfoXL | 2,399 | 652 | 3.7 |',
        '| decoding, memory 512, one row | x-transformers |  |  |  |',
        '| evaluation, memory 1,050 and 1,050 compressed by 4, four rows | compressive-transformer-pytorch '
        '| 1,000 | 500 | 2.0 |',
    ]


def test_the_readmes_speeds_are_those_of_the_committed_file():
    result, readme = json.loads((ROOT / 'results' / 'bench.json').read_text()), (ROOT / 'README.md').read_text()
    # A file from before other peers were added has fewer of them, but none without its speed.
    possible = {name for name, each in COMPARISONS.items() if not each.impossible}
    measured = {name for name, ratio in result['ratios'].items() if ratio is not None}
    transfo_xl = {name for name, each in COMPARISONS.items() if each.peer.name == 'transfoxl'}
    assert measured in (transfo_xl, possible)
    assert not result['quick'] and 'dirty' not in result['commit']
    for name in measured:
        ours, other = (row['tokens_per_second'] for row in result['rows'] if row['name'] == name)
        assert result['ratios'][name] == ours / other
    assert '\n\n' + '\n'.join(table(result)) + '\n\n' in readme
    assert f'by {result["growth"]["slope_ratio"]:.3f} of' in readme
