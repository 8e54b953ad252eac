"""The registry of tables: its rows are experiments that can be run, its figures those that the configs state."""

import ast
import pathlib
import re
import shlex

import pytest

from memjax.config import evaluation_config, flatten, from_file
from memjax.errors import UserError
from memjax.report import tables
from memjax.report.experiments import MEASURES, SCALES, Experiment, Row, Table, settings
from memjax.report.plans import experiments
from memjax.report.tables import TABLES

CONFIGS = pathlib.Path(__file__).parents[2] / 'configs'


def rows():
    return [(table, row) for table in TABLES.values() for row in table.rows]


def test_the_tables_are_there():
    papers = {table.id: table.source for table in TABLES.values() if table.source}
    assert list(papers) == [
        'txl1', 'txl2', 'txl3', 'txl4', 'txl5', 'txl6', 'txl7', 'ct3', 'ct4', 'ct5', 'ct6', 'ct8', 'ct9',
    ]  # fmt: skip
    for name, source in papers.items():
        paper, number = re.fullmatch('([a-z]+)([0-9]+)', name).groups()
        assert source.startswith({'txl': 'Transformer-XL', 'ct': 'Compressive Transformer'}[paper])
        assert source.endswith(f', Table {number}')


def test_every_row_can_be_told_from_the_others():
    assert {table.measure for table in TABLES.values()} <= set(MEASURES)
    for table in TABLES.values():
        assert len({row.label for row in table.rows}) == len(table.rows)
    of_name = {}
    for experiment in experiments():
        of_name.setdefault(experiment.run_name, []).append(experiment)
    # Table 5's last row names the default by a flag, and is Table 4's run.
    assert [len(of_name[name]) for name in of_name if len(of_name[name]) > 1] == [2]
    one, other = of_name['enwik8_ct']
    assert settings(one.load()) == settings(other.load())
    for table, row in rows():
        assert bool(row.sweeps) == (row.full_at is not None)
        assert row.tiny is None or bool(row.sweeps) == (row.tiny_at is not None)
        assert table.source or row.full is None


def test_every_experiment_is_accepted_and_has_a_name_of_its_own_if_it_is_not_the_configs():
    for experiment in experiments():
        config, plain = flatten(experiment.load()), flatten(from_file(experiment.path))
        assert config['name'] == experiment.run_name
        changed = {name for name, value in config.items() if value != plain[name]}
        given = {flag.removeprefix('--config.').partition('=')[0] for flag in experiment.flags}
        assert changed - {'name'} <= given
        if changed:
            assert experiment.name
            assert changed - {'name'}
        else:
            assert experiment.name is None


def test_attention_lengths_of_transformer_xls_table_6_are_what_a_query_sees():
    """same_length shows exactly memory_length keys (the script's 640 is the paper's "640"); else the window."""
    seen = {}
    for row in TABLES['txl6'].rows:
        used = evaluation_config(row.full.load())
        length = row.full_at or used.model.memory_length or used.data.segment_length
        assert used.model.same_length == (used.model.memory_length > 0)
        if match := re.search(r'(?:at|length) (\d+)$', row.note or row.label):
            seen[row.label] = length
            assert length == int(match[1])
    assert sorted(seen.values()) == [120, 256, 260, 300, 450, 460, 500, 640]


def test_a_command_is_one_that_a_shell_takes():
    command = Experiment('enwik8_ct_tiny', ('--config.eval.compressors=()',), 'x').command(3)
    assert shlex.split(command)[1:4] == ['launch/train.py', '--config=configs/enwik8_ct_tiny.py', '--config.name=x']
    assert "'--config.eval.compressors=()'" in command


def test_a_figure_without_flags_is_the_one_that_its_config_states():
    checked = 0
    for table, row in rows():
        if row.full is None or row.full.flags or row.sweeps or table.id == 'txl7' or not row.paper:
            continue
        text = ast.get_docstring(ast.parse(row.full.path.read_text()))
        reported = text.partition('Reported figure:')[2].partition('Hardware and time:')[0]
        assert row.paper in re.findall(r'\d+\.\d+', reported), row
        checked += 1
    assert checked == 15


def configs_readme():
    """Config, what stands in the first two columns, and flags, of every line of the tables in configs/README.md."""
    name = None
    for line in (CONFIGS / 'README.md').read_text().splitlines():
        name = match[1] if (match := re.search(r'^## .*`--config=configs/(\w+)\.py`', line)) else name
        match = re.fullmatch(r'\| ([^|`]+) \| ?([^|`]*?) ?\| ?(?:`([^`]+)` ?)?\|', line)
        if match and not match[1].startswith(('compression, ', 'recurrence, ', 'model', '---')):
            yield name, match[1], match[2], tuple((match[3] or '').split())


def test_the_rows_of_configs_readme_are_those_of_the_tables():
    """So that a row is written in one place: whoever changes it here must change it there."""
    ours = [
        (row.full.config, row.label, ' '.join(filter(None, [row.paper, row.note])), row.full.flags)
        for name in ('ct5', 'txl6', 'txl7')
        for row in TABLES[name].rows
        if not row.sweeps
    ]
    assert list(configs_readme()) == ours
    assert len(ours) == 20


def test_the_rows_of_table_5_are_alike_in_all_but_their_compression():
    plain = flatten(Experiment('enwik8_ct_tiny').load())
    for row in TABLES['ct5'].rows:
        tiny = flatten(row.tiny.load())
        changed = {name for name, value in tiny.items() if value != plain[name]}
        assert changed - {'model.compression', 'model.compression_loss', 'training.segments_per_step'} == {
            'name', 'training.num_steps', 'training.decay_steps', 'eval.compressors',
        }  # fmt: skip
        assert (tiny['training.num_steps'], tiny['training.decay_steps']) == (2400, 2400)


def test_controls_of_enwik8_cost_and_reach_as_much_as_the_compressive_transformer():
    rows = {scale: [row.experiment(scale) for row in TABLES['ct4'].rows] for scale in SCALES}
    for compressive, _, cost, reach in rows.values():
        configs = [each.load() for each in (compressive, cost, reach)]
        for trained in (lambda config: config, evaluation_config):
            compressive, cost, reach = (trained(config).model for config in configs)
            memory, compressed = compressive.memory_length, compressive.compressed_memory_length
            assert cost.memory_length == memory + compressed
            assert reach.memory_length == memory + compressive.compression_rate * compressed


def test_jobs_of_a_table():
    plain, other = Experiment('demo_ct'), Experiment('demo_txl')
    table = Table(
        'x1', 'x', 'Paper, Table 1', 'bpc',
        (
            Row('a', '1.0', plain, other),
            Row('b', '1.0', plain, None),
            Row('c', '1.1', plain, other, 'memory_length', 100, 10),
            Row('d', '1.2', plain, other, 'memory_length', 200, 20),
        ),
    )  # fmt: skip
    assert [(job.file_name, job.values) for job in table.jobs('tiny', 2)] == [
        ('demo_txl-0-test.json', ()),
        ('demo_txl-0-sweep_memory_length_test.json', (10, 20)),
        ('demo_txl-1-test.json', ()),
        ('demo_txl-1-sweep_memory_length_test.json', (10, 20)),
    ]
    assert [(job.file_name, job.values) for job in table.jobs('full', 1)] == [
        ('demo_ct-0-test.json', ()),
        ('demo_ct-0-sweep_memory_length_test.json', (100, 200)),
    ]


def test_what_an_experiment_hands_to_training():
    experiment = Experiment('demo_ct', ('--config.model.num_layers=2',), 'flat')
    assert experiment.command(3) == (
        'python launch/train.py --config=configs/demo_ct.py --config.name=flat --config.model.num_layers=2 '
        '--config.training.seed=3'
    )
    config = experiment.load(3)
    assert (config.name, config.model.num_layers, config.training.seed) == ('flat', 2, 3)
    config.model.num_layers = 5
    assert experiment.load(3).model.num_layers == 2
    found = settings(experiment.load(3))
    assert found['model.num_layers'] == 2
    assert found['eval.compressors'] == ['gzip', 'xz']
    assert 'training.gradient_clip' not in found  # at its default


def test_settings_tell_no_path_of_a_machine():
    config = Experiment('demo_ct').load()
    config.data.path = '/home/somebody/texts'
    assert 'data.path' not in settings(config)


def test_an_unknown_table_is_refused():
    with pytest.raises(UserError, match=r'^--table=ct55 is unknown; did you mean ct5\?$'):
        tables.find('ct55')
    with pytest.raises(UserError, match=r'^--table=seven is unknown: one of txl1, .*needle is$'):
        tables.find('seven')
