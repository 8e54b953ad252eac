"""What the page of results shows of analyses."""

import pathlib

import pytest

from memjax.errors import UserError
from memjax.report.analyses import analyses
from memjax.report.result_files import ResultFile


def file(kind: str, data: dict, folder: pathlib.Path = pathlib.Path('results/runs')) -> ResultFile:
    return ResultFile(folder / f'demo_ct-3-{kind}.json', 'demo_ct', 3, kind, data, ())


def bucket(region: str, mass: float) -> dict:
    return {'region': region, 'slots': 4, 'mass': mass, 'mass_by_layer': [mass]}


def rows_of(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in page.splitlines() if line[:1] == '|'][2:]


def test_attention_is_shown_by_region(tmp_path):
    data = {'buckets': [bucket('memory', 0.25), bucket('memory', 0.125), bucket('segment', 0.625)]}
    shown = file('attention_test', data, tmp_path)
    assert rows_of(analyses([shown])) == [
        ['memory', '8', '25.00, 12.50', '37.50'],
        ['segment', '4', '62.50', '62.50'],
    ]
    assert '(runs/demo_ct-3-attention_test.json)' in analyses([shown])
    assert 'figure' not in analyses([shown])
    shown.path.with_suffix('.png').touch()
    assert '[figure](runs/demo_ct-3-attention_test.png)' in analyses([shown])


def test_losses_lengths_and_seconds():
    losses = {'loss': 'auto_encoding', 'reduction': 'mean', 'loss_by_layer': [0.5, 0.25]}
    assert rows_of(analyses([file('compression_test', losses)])) == [['1', '0.5000'], ['2', '0.2500']]
    recl = {'runs': [{'config': 'a', 'recl': {'1.0': {'recl': 1200, 'is_bound': True}}}]}
    assert rows_of(analyses([file('recl_validation', recl)])) == [['a', '1,200 or more']]
    window = {'window': {'seconds_per_token': 0.5}, 'reuse': {'seconds_per_token': 0.00025}, 'ratio': 2000.0}
    lengths = {'lengths': [{'attention_length': 800, **window}]}
    assert rows_of(analyses([file('window_test', lengths)])) == [['800', '500.000', '0.250', '2,000']]


def test_runs_side_by_side():
    used = {'attended_slots': 240, 'span': 528, 'memory_state_bytes': 1000}
    run = {'config': 'a', 'bpc': 2.125, 'parameters': 5000, 'evaluation': used, 'beside': ['cost', 'range']}
    words = {**run, 'config': 'b', 'bpc': None, 'beside': []}
    assert rows_of(analyses([file('comparison_test', {'split': 'test', 'runs': [run, words]})])) == [
        ['a', '2.1250', '5,000', '240', '528', '1,000', 'same cost, same range'],
        ['b', '', '5,000', '240', '528', '1,000', ''],
    ]
    # An LSTM has neither slots nor a span.
    run['evaluation'] = used | {'attended_slots': None, 'span': None}
    (shown,) = rows_of(analyses([file('comparison_test', {'split': 'test', 'runs': [run]})]))
    assert shown[3:6] == ['', '', '1,000']


def test_dynamic_evaluation():
    data = {'scored': 10, 'token_perplexity': 4.5, 'bpc': 2.5, 'optimizer': 'adam', 'learning_rate': 1e-4}
    page = analyses([file('dynamic_test', data | {'dynamic': {'token_perplexity': 4.25, 'bpc': 2.25}})])
    assert rows_of(page) == [
        ['as they are', '4.500', '2.5000'],
        ['following the text (adam, 0.0001)', '4.250', '2.2500'],
    ]


def test_rates_and_update_periods():
    def losses(train, validation):
        return {'train': {'loss': 0.0, 'bpc': train}, 'validation': {'loss': 0.0, 'bpc': validation}}

    first = {'name': 'as_it_was', 'learning_rate': 3e-4, 'update_period': 1, 'updates': 1500} | losses(2.25, 2.5)
    second = {'name': 'update_period_2', 'learning_rate': 3e-4, 'update_period': 2, 'updates': 750} | losses(2.125, 2.0)
    page = analyses([file('optimization_train', {'step': 6000, 'branch_steps': 1500, 'branches': [first, second]})])
    assert rows_of(page) == [
        ['as it was', '0.0003', '1,500', '2.2500', '2.5000'],
        ['update period 2', '0.0003', '750', '2.1250', '2.0000'],
    ]
    assert '1,500 steps from step 6,000' in page


def test_other_kinds_are_left_out_and_damaged_files_named():
    assert analyses([file('test', {}), file('needle_test', {}), file('unheard_of_test', {})]) == ''
    with pytest.raises(
        UserError, match=r'demo_ct-3-recl_test\.json is not what an analysis of its kind \(recl\) writes'
    ):
        analyses([file('recl_test', {'runs': [{}]})])
