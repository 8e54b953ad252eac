"""The tables say what the files say."""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import pytest

from memjax.errors import UserError
from memjax.evaluation.plan import plan
from memjax.report import plans
from memjax.report.experiments import Experiment, Row, Table
from memjax.report.results_page import page, write_page

RESULTS = pathlib.Path(__file__).parents[2] / 'results'

TINY, OTHER, NEEDLE = Experiment('demo_ct'), Experiment('demo_txl'), Experiment('needle_ct')
BIG = Experiment('enwik8_ct', ('--config.model.compression=max',), 'big')
TABLE = Table(
    'x1', 'a made-up table', 'Paper, Table 1', 'bpc',
    (
        Row('first', '0.97', Experiment('enwik8_ct'), TINY),
        Row('second', '0.98', BIG, OTHER, note='at 500'),
        Row('third', '', BIG),
        Row('long', '1.2', BIG, TINY, sweeps='memory_length', full_at=800, tiny_at=128),
        Row('longer', '1.1', BIG, TINY, sweeps='memory_length', full_at=1600, tiny_at=256),
    ),
    note='Of no paper.',
)  # fmt: skip
OURS = Table('y', 'a table of ours', '', 'accuracy', (Row('probe', tiny=NEEDLE),), kind='needle_test')


def cells(text, anchor):
    """The first table of a section: its lines as lists of cells, the head first."""
    section = text.partition(f'<a id="{anchor}"></a>')[2].partition('<a id=')[0]
    lines = re.findall(r'^\| (.*) \|$', section, re.MULTILINE)
    return [[cell.strip() for cell in line.split('|')] for line in lines if not line.startswith('---')]


def made_up(results_dir, tables=(TABLE, OURS)):
    return page(results_dir, tables)


def plan_of(parameters, tokens, flops):
    return dataclasses.asdict(plans.Plan(parameters, tokens, flops, ''))


@pytest.fixture
def filled(put, score_of, results_dir):
    """Invented results: three seeds of one row, one of another, a sweep, a needle probe."""
    for seed, bpc in enumerate((2.0, 2.1, 2.2)):
        put(f'demo_ct-{seed}-test.json', score_of(TINY, seed, bpc))
    put('demo_txl-0-test.json', score_of(OTHER, 0, 2.5, compressors={'gzip': 3.14159, 'ppmd': 1.5}))
    put('big-0-test.json', score_of(BIG, 0, 0.9876, texts={'train': 'whole', 'test': 'a subset of 1 of 2'}))
    swept = []
    for value, bpc in ((256, 1.75), (128, 1.875)):
        score = score_of(TINY, 0, bpc, memory_length=value)
        score['protocol']['memory_length'] = value
        swept.append(score)
    put('demo_ct-0-sweep_memory_length_test.json', {'what': 'memory_length', 'split': 'test', 'results': swept})
    for seed, shift in ((0, 0.0), (1, 0.1)):
        bins = [
            {'from': 8, 'to': 12, 'questions': 30, 'accuracy': 0.8 + shift},
            {'from': 12, 'to': 16, 'questions': 20, 'accuracy': 0.4 + shift},
        ]
        probe = score_of(NEEDLE, seed, accuracy=0.6 + shift, bins=bins, temporal_range=320)
        put(f'needle_ct-{seed}-needle_test.json', probe)
    planned = {'enwik8_ct': plan_of(123_456_789, 4_915_200_000, 1.234e19), 'demo_ct': plan_of(1234, 1, 1)}
    (results_dir / 'plans.json').write_text(json.dumps({'plans': planned}))
    return results_dir


def test_every_cell_of_a_table_is_what_its_files_say(filled):
    text = made_up(filled)
    # Student: 4.303 * 0.1 / sqrt(3)
    seeds = ', '.join(f'[{seed}](runs/demo_ct-{seed}-test.json)' for seed in range(3))
    sweep = '[0](runs/demo_ct-0-sweep_memory_length_test.json)'
    big = '0.9876 (one seed: [0](runs/big-0-test.json); test: a subset of 1 of 2)'
    assert cells(text, 'x1') == [
        ['row', 'paper', 'ours, full size', 'ours, tiny'],
        [
            'first',
            '0.97',
            'needs 123,456,789 parameters, 4.92 billion tokens, 1.23e19 FLOPs, by plan',
            f'2.1000 ± 0.2484 (3 seeds: {seeds})',
        ],
        ['second', '0.98 at 500', big, '2.5000 (one seed: [0](runs/demo_txl-0-test.json))'],
        ['third', '', big, ''],
        ['long', '1.2', 'the same run', f'1.8750 (one seed: {sweep})'],
        ['longer', '1.1', 'the same run', f'1.7500 (one seed: {sweep})'],
    ]
    assert 'Paper, Table 1. Measured: bits per character, on test. Of no paper.' in text
    probes = ', '.join(f'[{seed}](runs/needle_ct-{seed}-needle_test.json)' for seed in range(2))
    # 12.706 * 0.0707107 / sqrt(2)
    assert cells(text, 'y') == [['row', 'ours, tiny'], ['probe', f'0.650 ± 0.635 (2 seeds: {probes})']]


def test_the_other_sections_say_what_the_files_say(filled):
    (filled / 'runs' / 'demo_ct-0-sweep_memory_length_test.png').write_bytes(b'')
    text = made_up(filled)
    assert cells(text, 'sweeps') == [
        ['memory length in evaluation', 'bits per character'],
        ['128', '1.8750'],
        ['256', '**1.7500**'],
    ]
    assert (
        'demo_ct, seed 0, test of kjv: [demo_ct-0-sweep_memory_length_test.json]'
        '(runs/demo_ct-0-sweep_memory_length_test.json), [figure](runs/demo_ct-0-sweep_memory_length_test.png)'
    ) in text
    assert cells(text, 'needle-by-distance') == [
        ['distance in symbols', 'needle_ct, 2 seeds'],
        ['8 to 11', '0.850 ± 0.635'],
        ['12 to 15', '0.450 ± 0.635'],
    ]
    assert 'needle_ct can be reached from 320 symbols back.' in text
    assert cells(text, 'compressors')[1:] == [
        ['test of kjv, bytes, 1,000 targets', '`gzip`', '[3.1416](runs/demo_txl-0-test.json)'],
        ['test of kjv, bytes, 1,000 targets', '`ppmd`', '[1.5000](runs/demo_txl-0-test.json)'],
    ]
    files = {line[0]: line[1:] for line in cells(text, 'files')[1:]}
    assert len(files) == len(list((filled / 'runs').glob('*.json')))
    assert files['[demo_ct-1-test](runs/demo_ct-1-test.json)'] == [
        'test of kjv, bytes', '1,080', '5 million tokens', '1,234', '1,000', '2.1000 bits per character', '[x1](#x1)',
    ]  # fmt: skip


def test_a_changed_figure_changes_its_cell_and_no_other(filled, put, score_of):
    before = made_up(filled)
    put('demo_txl-0-test.json', score_of(OTHER, 0, 2.4321))
    after = made_up(filled)
    assert cells(after, 'x1')[2][3] == '2.4321 (one seed: [0](runs/demo_txl-0-test.json))'
    assert cells(before, 'x1')[1] == cells(after, 'x1')[1]
    assert cells(before, 'x1')[3:] == cells(after, 'x1')[3:]


def test_a_file_of_another_experiment_does_not_count_and_is_named(filled, put, score_of):
    put('demo_ct-2-test.json', score_of(TINY, 2, 2.2, step=7))
    put('demo_ct-1-test.json', score_of(TINY, 1, 2.1, parameters=1235))
    put('unheard-0-test.json', score_of(Experiment('demo_ct', name='unheard'), scored=900))
    put('demo_ct-0-unheard_of_test.json', {'unknown': 'here'})
    text = made_up(filled)
    assert cells(text, 'x1')[1][3] == '2.0000 (one seed: [0](runs/demo_ct-0-test.json))'
    files = {line[0]: line[1:] for line in cells(text, 'files')[1:]}
    assert files['[demo_ct-2-test](runs/demo_ct-2-test.json)'][-1] == 'not in x1: step 7, not 1,080'
    assert files['[demo_ct-1-test](runs/demo_ct-1-test.json)'][-1] == 'not in x1: parameters 1,235, not 1,234'
    assert files['[unheard-0-test](runs/unheard-0-test.json)'][4:] == [
        '900 of 1,000', '2.0000 bits per character', 'no table',
    ]  # fmt: skip
    assert files['[demo_ct-0-unheard_of_test](runs/demo_ct-0-unheard_of_test.json)'] == [*[''] * 6, 'no table']


def test_analyses_are_shown_and_listed(filled, put):
    put('demo_ct-0-compression_test.json', {'loss': 'attention', 'reduction': 'mean', 'loss_by_layer': [0.5]})
    text = made_up(filled)
    assert cells(text, 'analyses')[1] == ['1', '0.5000']
    files = {line[0]: line[1:] for line in cells(text, 'files')[1:]}
    assert files['[demo_ct-0-compression_test](runs/demo_ct-0-compression_test.json)'][-1] == '[Analyses](#analyses)'
    put('demo_ct-0-compression_test.json', {'loss': 'attention'})
    with pytest.raises(UserError, match='demo_ct-0-compression_test'):
        made_up(filled)


def test_nothing_measured_yet(results_dir):
    text = made_up(results_dir)
    assert cells(text, 'x1')[1] == [
        'first', '0.97', 'not planned yet: `python launch/report.py --plans`', 'not run yet',
    ]  # fmt: skip
    assert 'There is none.' in text
    assert 'Sweeps' not in text


def test_damaged_files_are_refused_and_the_page_stays(filled, put):
    path = write_page(filled)
    before = path.read_text()
    put('demo_ct-0-test.json', '{')
    with pytest.raises(UserError, match=r'demo_ct-0-test\.json is not JSON'):
        write_page(filled)
    assert path.read_text() == before
    (filled / 'runs' / 'demo_ct-0-test.json').unlink()
    (filled / 'plans.json').write_text('{"plans": {"a": {"parameters": 3}}}')
    with pytest.raises(UserError, match=r'plans\.json is damaged: python launch/report\.py --plans makes it anew'):
        write_page(filled)


def test_the_committed_page_is_what_the_committed_files_make():
    """If this fails: python launch/report.py, after --plans if configs have changed."""
    assert (RESULTS / 'README.md').read_text() == page(RESULTS)


def test_the_committed_plans_are_of_the_configs_as_they_are():
    """If this fails: python launch/report.py --plans."""
    planned, experiments = plans.read(RESULTS), plans.experiments()
    assert set(planned) == {experiment.run_name for experiment in experiments}
    for experiment in experiments:
        assert planned[experiment.run_name].settings == plans.fingerprint(experiment)


@pytest.mark.parametrize('name', ['needle_ct', 'enwik8_txl_12l'])
def test_the_committed_plans_are_what_plan_says(name):
    assert plans.read(RESULTS)[name] == plans.make(Experiment(name), plan)


def test_plans_are_made_once(monkeypatch, results_dir, capsys):
    monkeypatch.setattr(plans, 'experiments', lambda: [TINY, NEEDLE])
    asked = []

    def count(config):
        asked.append(config.name)
        return {'parameters': 10, 'training_flops_per_token': 3}

    plans.write(results_dir, count)
    made = plans.read(results_dir)
    assert made['demo_ct'].train_tokens == 1080 * 8 * 128
    assert made['demo_ct'].train_flops == 3 * 1080 * 8 * 128
    plans.write(results_dir, count)
    assert asked == ['demo_ct', 'needle_ct']
    monkeypatch.setattr(plans, 'experiments', lambda: [Experiment('demo_ct', ('--config.model.num_layers=1',))])
    plans.write(results_dir, count)
    assert asked == ['demo_ct', 'needle_ct', 'demo_ct']
    assert set(plans.read(results_dir)) == {'demo_ct'}
    assert 'as before' in capsys.readouterr().out


def test_sizes_in_words():
    assert [plans.tokens_in_words(tokens) for tokens in (999, 1_105_920, 99_999_999, 4_915_200_000, 1.5e13)] == [
        '999 tokens', '1.11 million tokens', '100 million tokens', '4.92 billion tokens', '15,000 billion tokens',
    ]  # fmt: skip
    assert plans.flops_in_words(8.18e20) == '8.18e20 FLOPs'


def test_a_report_needs_no_jax():
    code = (
        'import sys, memjax.report.results_page, memjax.report.reproduce; '
        'sys.exit(bool({"jax", "flax", "matplotlib"} & set(sys.modules)))'
    )
    subprocess.run([sys.executable, '-c', code], check=True)
