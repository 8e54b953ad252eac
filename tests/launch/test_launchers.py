"""What each launcher hands to the function that it runs, and what it refuses."""

import json
import pathlib
import types

import pytest
from etils import epath

CONFIGS = pathlib.Path(__file__).parents[2] / 'configs'
DEMO = f'--config={CONFIGS / "demo_ct.py"}'


def test_train_hands_over_config_workdir_and_data(launch, stand_in, tmp_path):
    calls = stand_in('memjax.training.loop', 'train')
    code, _, err = launch('train', DEMO, f'--workdir={tmp_path}', '--data_dir=/d', '--config.model.num_layers=2')
    assert (code, err) == (0, '')
    (call,) = calls
    assert (call['workdir'], call['data_dir']) == (epath.Path(tmp_path), epath.Path('/d'))
    assert call['config'].name == 'demo_ct'
    assert call['config'].model.num_layers == 2


def test_trains_workdir_is_named_after_the_config(launch, stand_in):
    calls = stand_in('memjax.training.loop', 'train')
    launch('train', DEMO)
    launch('train', DEMO, '--config.name=other')
    assert [str(call['workdir']) for call in calls] == ['runs/demo_ct', 'runs/other']


def test_train_without_a_usable_config(refusal, tmp_path):
    assert refusal('train').startswith('--config is needed: the experiment, a Python file')
    assert refusal('train', '--config=configs/absent.py') == 'configs/absent.py: no such config file'
    (tmp_path / 'text.py').write_text('In the beginning')
    assert 'SyntaxError' in refusal('train', f'--config={tmp_path / "text.py"}')


def test_train_refuses_what_cannot_work_before_it_starts(refusal, stand_in):
    calls = stand_in('memjax.training.loop', 'train')
    assert refusal('train', DEMO, '--config.model.num_layer=4').endswith('did you mean num_layers?')
    assert "'four'" in refusal('train', DEMO, '--config.model.num_layers=four')
    assert refusal('train', DEMO, '--config.model.num_heads=0') == 'model.num_heads=0 must be at least 1'
    assert 'does not divide' in refusal('train', DEMO, '--config.model.compression_rate=5')
    assert 'must not be negative' in refusal('train', DEMO, '--config.model.memory_length=-128')
    assert 'unexpected argument' in refusal('train', DEMO, 'stray')
    assert calls == []


def test_eval_hands_over_the_runs_config_with_overrides(launch, stand_in, workdir):
    calls = stand_in('memjax.evaluation.run', 'evaluate_run', result={})
    code, _, err = launch(
        'eval', f'--workdir={workdir}', '--split=validation', '--step=best', '--per_token=~/losses.npz',
        '--config.eval.compressed_memory_length=64', '--data_dir=/d',
    )  # fmt: skip
    assert (code, err) == (0, '')
    (call,) = calls
    assert (call['workdir'], call['data_dir']) == (epath.Path(workdir), epath.Path('/d'))
    assert (call['split'], call['step']) == ('validation', 'best')
    assert call['per_token'] == epath.Path('~/losses.npz').expanduser()
    assert call['config'].model.num_layers == 3
    assert call['config'].eval.compressed_memory_length == 64


def test_evals_defaults_are_the_newest_step_and_no_file(launch, stand_in, workdir):
    calls = stand_in('memjax.evaluation.run', 'evaluate_run', result={})
    launch('eval', f'--workdir={workdir}', '--split=test')
    launch('eval', f'--workdir={workdir}', '--split=test', '--step=40')
    assert [(call['step'], call['per_token']) for call in calls] == [(None, None), (40, None)]


def test_eval_refuses_what_it_cannot_score(refusal, workdir, tmp_path):
    run = f'--workdir={workdir}'
    assert '<train|validation|test>' in refusal('eval', run, '--split=dev')
    assert refusal('eval', run).startswith('--split is needed: <train|validation|test>')
    assert refusal('eval', '--split=test') == '--workdir is needed: the directory of the run'
    assert 'holds no run' in refusal('eval', f'--workdir={tmp_path / "absent"}', '--split=test')
    assert 'step' in refusal('eval', run, '--split=test', '--step=last')
    assert refusal('eval', run, '--config.eval.segment_length=100').startswith('model.memory_length=128 does not')


def test_sweep_hands_over_field_and_values(launch, stand_in, workdir):
    calls = stand_in('memjax.evaluation.sweep', 'sweep_run', result={})
    flags = ('--what=memory_length', '--values=256,128,256', '--split=validation', '--config.eval.batch_size=2')
    code, _, err = launch('sweep', f'--workdir={workdir}', '--data_dir=/d', *flags)
    assert (code, err) == (0, '')
    (call,) = calls
    assert (call['workdir'], call['data_dir']) == (epath.Path(workdir), epath.Path('/d'))
    assert (call['what'], call['values'], call['split'], call['step']) == (
        'memory_length', [256, 128], 'validation', None,
    )  # fmt: skip
    assert call['config'].eval.batch_size == 2


def test_sweep_refuses_what_it_cannot_score(refusal, workdir):
    run = (f'--workdir={workdir}', '--split=validation')
    assert refusal('sweep', *run, '--values=1').startswith('--what is needed: <compressed_memory_length|')
    assert refusal('sweep', *run, '--what=warmup').startswith('--values is needed')
    assert 'whole numbers' in refusal('sweep', *run, '--what=warmup', '--values=1,b')
    assert 'num_layers' in refusal('sweep', *run, '--what=num_layers', '--values=1')
    assert 'must be at least 1' in refusal('sweep', *run, '--what=batch_size', '--values=4,0')


def test_needle_hands_over_the_split(launch, stand_in, refusal, workdir):
    calls = stand_in('memjax.evaluation.needle', 'probe_run', result={})
    code, _, err = launch('needle', f'--workdir={workdir}', '--split=test', '--step=best', '--data_dir=/d')
    assert (code, err) == (0, '')
    (call,) = calls
    assert (call['workdir'], call['data_dir']) == (epath.Path(workdir), epath.Path('/d'))
    assert (call['split'], call['step']) == ('test', 'best')
    assert refusal('needle', f'--workdir={workdir}').startswith('--split is needed')


def test_convert_hands_over_the_file_and_the_config(launch, stand_in, refusal, tmp_path):
    calls = stand_in('memjax.evaluation.convert', 'convert_run')
    code, _, err = launch('convert', DEMO, '--source=~/w.npz', '--workdir=/w', '--config.model.norm=post')
    assert (code, err) == (0, '')
    (call,) = calls
    assert (call['source'], call['workdir']) == (pathlib.Path('~/w.npz').expanduser(), epath.Path('/w'))
    assert call['config'].model.norm == 'post'
    assert refusal('convert', DEMO, '--workdir=/w').startswith('--source is needed')
    assert refusal('convert', DEMO, '--source=w.npz').startswith('--workdir is needed')


@pytest.mark.parametrize('command', ['eval', 'sample', 'sweep'])
def test_a_trained_model_cannot_be_made_another(refusal, workdir, command):
    for override in ('model.num_layers=4', 'model.compression=mean', 'data.name=enwik8', 'training.seed=1', 'name=x'):
        message = refusal(command, f'--workdir={workdir}', f'--config.{override}')
        field = override.split('=')[0]
        assert message == f'--config.{field} cannot be changed here, only eval, sample and data.path'


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('{"model": ', 'is not JSON'),
        ('{"model": {"layers": 3}}', 'unknown field model.layers'),
        ('{"model": {"num_layers": "3"}}', 'is not of type int'),
        ('{"model": {"num_heads": 0}}', 'model.num_heads=0 must be at least 1'),
    ],
)
def test_a_damaged_config_json_is_refused(refusal, workdir, text, complaint):
    (workdir / 'config.json').write_text(text)
    assert complaint in refusal('eval', f'--workdir={workdir}', '--split=test')


def test_a_config_json_that_is_no_text_is_refused_by_name(refusal, workdir):
    (workdir / 'config.json').write_bytes(b'\xff\xfe\xfd')
    assert refusal('eval', f'--workdir={workdir}', '--split=test').startswith(f'{workdir}/config.json cannot be read')


def piece(row, text, is_last):
    return types.SimpleNamespace(row=row, text=text, is_last=is_last)


def test_sample_takes_from_the_config_what_no_flag_sets(launch, stand_in, workdir):
    calls = stand_in('memjax.generation.generate', 'sample_run', [piece(0, 'and it ', False), piece(0, 'was so', True)])
    code, out, err = launch(
        'sample', f'--workdir={workdir}', '--prompt=Let there be', '--top_k=5', '--seed=3', '--step=best'
    )
    assert (code, out, err) == (0, 'and it was so\n', '')
    (call,) = calls
    assert call['workdir'] == epath.Path(workdir)
    assert {name: call[name] for name in ('prompt', 'length', 'temperature', 'top_k', 'top_p', 'seed', 'step')} == {
        'prompt': 'Let there be', 'length': 256, 'temperature': 0.7, 'top_k': 5, 'top_p': 0.98, 'seed': 3,
        'step': 'best',
    }  # fmt: skip
    assert (call['stop'], call['num_samples'], call['num_devices']) == (None, 1, 1)


def test_sample_makes_devices_before_it_needs_them(launch, stand_in, workdir):
    made = stand_in('memjax.generation.devices', 'provide', None)
    calls = stand_in('memjax.generation.generate', 'sample_run', (piece(0, str(made), True) for _ in range(1)))
    code, out, _ = launch('sample', f'--workdir={workdir}', '--prompt=a', '--num_devices=2')
    # What it printed was made up when the first piece was asked for.
    assert (code, out) == (0, f'{[{"count": 2}]}\n')
    assert calls[0]['num_devices'] == 2


def test_sample_prints_several_one_after_the_other(launch, stand_in, workdir):
    pieces = [piece(1, 'and ', False), piece(0, 'it ', False), piece(1, 'so', True), piece(0, 'was', True)]
    calls = stand_in('memjax.generation.generate', 'sample_run', pieces)
    code, out, err = launch('sample', f'--workdir={workdir}', '--prompt_file=f.txt', '--num_samples=2', '--stop=.')
    assert (code, err) == (0, '')
    assert out == '--- sample 1 of 2 ---\nit was\n--- sample 2 of 2 ---\nand so\n'
    (call,) = calls
    assert (call['prompt'], call['num_samples'], call['stop']) == (epath.Path('f.txt'), 2, '.')


def test_sample_refuses_settings_out_of_range(refusal, workdir):
    run = f'--workdir={workdir}'
    assert refusal('sample', run, '--length=0') == 'sample.length=0 must be at least 1'
    assert refusal('sample', run, '--temperature=0') == 'sample.temperature=0.0 must be above 0'
    assert refusal('sample', run, '--top_k=-1') == 'sample.top_k=-1 must be at least 1'
    assert refusal('sample', run, '--top_p=1.5') == 'sample.top_p=1.5 must be above 0 and at most 1'
    assert '--seed=-1' in refusal('sample', run, '--seed=-1')
    assert "'long'" in refusal('sample', run, '--length=long')
    assert '--num_devices=0' in refusal('sample', run, '--num_devices=0')
    assert '--num_samples=0' in refusal('sample', run, '--num_samples=0')
    assert '--stop is an empty string' in refusal('sample', run, '--stop=')
    assert 'both given' in refusal('sample', run, '--prompt=a', '--prompt_file=b')
    assert '--prompt is empty' in refusal('sample', run, '--prompt=')


def test_prepare_hands_over_corpus_and_source(launch, stand_in):
    split = types.SimpleNamespace(tokens=range(12345), words=None, note='a subset of 1 of 2 books')
    corpus = types.SimpleNamespace(
        name='files',
        convention='bytes',
        splits={'train': split},
        vocab_size=256,
        licence='the usual',
        documents='articles',
    )
    calls = stand_in('memjax.data.prepare', 'prepare', result=corpus)
    code, out, err = launch(
        'prepare', '--dataset=files', '--source=~/texts', '--data_dir=/d', '--overwrite',
        '--config.data.test_fraction=0.2',
    )  # fmt: skip
    assert (code, err) == (0, '')
    for part in (
        'files bytes train',
        '12,345 symbols',
        '; a subset of 1 of 2 books',
        'documents: articles',
        'vocabulary of 256',
        'the usual',
    ):
        assert part in out
    launch('prepare', '--dataset=enwik8', '--convention=txl')
    first, second = calls
    assert (first['data'].name, first['data'].test_fraction) == ('files', 0.2)
    assert (first['source'], first['overwrite'], first['data_dir']) == ('~/texts', True, epath.Path('/d'))
    assert (second['data'].name, second['data'].convention) == ('enwik8', 'txl')
    assert (second['source'], second['overwrite']) == (None, False)


def test_prepare_refuses_what_it_cannot_prepare(refusal):
    assert refusal('prepare').startswith('--dataset is needed')
    assert 'did you mean txl?' in refusal('prepare', '--dataset=enwik8', '--convention=tx')
    assert 'must be at least 0 and below 1' in refusal('prepare', '--dataset=files', '--config.data.test_fraction=1')
    message = refusal('prepare', '--dataset=files', '--config.model.num_layers=1')
    assert message == '--config.model.num_layers cannot be changed here, only data'


def test_a_text_that_cannot_be_prepared_or_trained_on_is_one_line(refusal, tmp_path):
    for split in ('train', 'validation', 'test'):
        (tmp_path / 'books' / split).mkdir(parents=True)
        (tmp_path / 'books' / split / '1.txt').write_text('a book')
    (tmp_path / 'books' / 'test' / '1.txt').write_bytes(b'a b\xf6\xf6k')
    data = (f'--data_dir={tmp_path}/data', f'--config.data.path={tmp_path}/books', '--config.data.name=pg19')
    for command in (
        ('prepare', '--dataset=pg19', *data),
        ('train', '--config=configs/demo_ct.py', f'--workdir={tmp_path}/run', *data),
    ):
        assert refusal(*command) == f'{tmp_path}/books/test/1.txt is not UTF-8: invalid start byte at byte 3'
    assert not (tmp_path / 'run').exists()
    (tmp_path / 'books' / 'test' / '1.txt').write_text(' \n')
    assert refusal('prepare', '--dataset=pg19', *data[:2]).endswith('books, as its folders say, has no words for test')
    message = refusal(
        'prepare', '--dataset=ptb', '--convention=words', f'--data_dir={tmp_path}', f'--source={tmp_path}'
    )
    assert message == f'{tmp_path} holds no ptb.train.txt, ptb.valid.txt, ptb.test.txt'
    assert 'means nothing to data.name=kjv' in refusal('prepare', '--dataset=kjv', '--config.data.documents=articles')


def test_plan_prints_figures_as_a_table_or_as_json(launch, stand_in):
    figures = {'parameters': 1234567, 'parameters_by_module': {'core': 1234000, 'embed': 567}, 'flops_per_token': 2.5e9}
    calls = stand_in('memjax.evaluation.plan', 'plan', result=figures)
    code, out, err = launch('plan', DEMO, '--config.model.num_layers=2')
    assert (code, err) == (0, '')
    assert calls[0]['config'].model.num_layers == 2
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ['parameters', '1,234,567']
    assert ['core', '1,234,000'] in rows
    code, out, _ = launch('plan', DEMO, '--json')
    assert (code, json.loads(out)) == (0, figures)


def test_report_writes_the_page_of_a_folder(launch, refusal, tmp_path):
    code, out, err = launch('report', f'--results_dir={tmp_path}')
    assert (code, out, err) == (0, f'{tmp_path / "README.md"}\n', '')
    assert '# Results' in (tmp_path / 'README.md').read_text()
    (tmp_path / 'runs').mkdir()
    (tmp_path / 'runs' / 'demo_ct-0-test.json').write_text('nonsense')
    assert 'demo_ct-0-test.json is not JSON' in refusal('report', f'--results_dir={tmp_path}')
    (tmp_path / 'runs' / 'demo_ct-0-test.json').write_text('{"config": "demo_ct"}')
    assert refusal('report', f'--results_dir={tmp_path}').endswith('demo_ct-0-test.json lacks the field dataset')
    assert refusal('report', '--config.model.num_layers=3').endswith('this command takes no config')


def test_reproduce_hands_over_table_scale_and_seeds(launch, stand_in, tmp_path):
    calls = stand_in('memjax.report.reproduce', 'reproduce')
    flags = ('--table=ct5', '--scale=full', '--seeds=2', '--data_dir=/d', '--config.mesh.fsdp=8', '--dry_run')
    code, _, err = launch('reproduce', *flags, f'--results_dir={tmp_path}', '--runs_dir=/r')
    assert (code, err) == (0, '')
    (call,) = calls
    assert (call['table'].id, call['scale'], call['seeds'], call['dry_run']) == ('ct5', 'full', 2, True)
    assert (str(call['data_dir']), call['results_dir'], str(call['runs_dir'])) == ('/d', tmp_path, '/r')
    assert call['flags'] == ['--config.mesh.fsdp=8']


def test_reproduce_lists_the_tables(launch, tmp_path):
    where = (f'--results_dir={tmp_path}', f'--runs_dir={tmp_path}')
    code, out, err = launch('reproduce', '--list', '--table=txl1', *where)
    assert (code, err) == (0, '')
    assert out.splitlines()[0] == 'txl1  WikiText-103; Transformer-XL (arXiv 1901.02860), Table 1'
    assert out.splitlines()[1].split() == [
        'Transformer-XL',
        'Standard,',
        '151',
        'M',
        '24.0',
        'full',
        'size:',
        'missing',
    ]
    assert 'ct9' in launch('reproduce', '--list', *where)[1]


def test_reproduce_refuses_what_is_not_there(refusal):
    assert refusal('reproduce', '--table=ct55') == '--table=ct55 is unknown; did you mean ct5?'
    assert refusal('reproduce', '--table=ct5', '--scale=large') == '--scale=large is unknown: it is tiny or full'
    assert refusal('reproduce', '--table=ct5', '--seeds=0') == '--seeds=0 must be at least 1'
    assert refusal('reproduce', '--table=txl1') == 'txl1 has no tiny rows: --scale=full has'
    assert refusal('reproduce').startswith('--table is needed')
    assert refusal('reproduce', '--table=ct5', '--config.model.num_layers=2').endswith('only mesh')
