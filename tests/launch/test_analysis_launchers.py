"""What the launchers of analyses hand over, and what they refuse."""

import pytest
from etils import epath

ANALYSES = {
    'documents': ('documents.analyze_documents', {'max_targets': 9, 'resamples': 5, 'seed': 3}),
    'attention': ('attention.analyze_attention', {'sequences': 7}),
    'compression': ('compression_loss.analyze_compression', {'sequences': 7}),
    'frequency': ('frequency.analyze_frequency', {'max_targets': 9}),
    'dynamic': ('dynamic.analyze_dynamic', {'learning_rate': 0.5, 'optimizer': 'sgd', 'max_targets': 9}),
    'window': ('window_cost.analyze_window', {'attention_lengths': [64, 32], 'repeats': 2, 'calls': 4}),
}


@pytest.mark.parametrize('what', ANALYSES)
def test_analyze_hands_over_the_run_and_what_was_given(launch, stand_in, workdir, what):
    function, options = ANALYSES[what]
    calls = stand_in(*f'memjax.evaluation.{function}'.rsplit('.', 1))
    given = [
        f'--{name}={",".join(map(str, value)) if isinstance(value, list) else value}' for name, value in options.items()
    ]
    flags = (f'--what={what}', '--split=test', '--step=best', '--data_dir=/d', '--config.eval.batch_size=2', *given)
    code, _, err = launch('analyze', f'--workdir={workdir}', *flags)
    assert (code, err) == (0, '')
    (call,) = calls
    assert call.pop('config').eval.batch_size == 2
    expected = {'workdir': epath.Path(workdir), 'data_dir': epath.Path('/d'), 'split': 'test', 'step': 'best'}
    assert call == expected | options


def test_analyze_refuses_what_an_analysis_does_not_read(refusal, workdir):
    run = (f'--workdir={workdir}', '--split=test')
    assert refusal('analyze', *run).startswith('--what is needed: <documents|')
    assert refusal('analyze', f'--workdir={workdir}', '--what=window').startswith('--split is needed')
    assert refusal('analyze', *run, '--what=dynamic') == '--learning_rate is needed: dynamic: of every update'
    message = refusal('analyze', *run, '--what=attention', '--max_targets=9')
    assert message == '--max_targets means nothing to --what=attention'
    assert 'max_targets' in refusal('analyze', *run, '--what=documents', '--max_targets=0')
    assert 'holds no run' in refusal('analyze', '--workdir=no/run', '--split=test', '--what=window')


def test_recl_hands_over_the_group(launch, stand_in, refusal):
    calls = stand_in('memjax.evaluation.recl', 'measure_recl')
    code, _, err = launch(
        'recl', '--workdirs=/a,/b,/a', '--split=test', '--lengths=8,16', '--samples=9', '--data_dir=/d'
    )
    assert (code, err) == (0, '')
    (call,) = calls
    assert call == {
        'workdirs_of_group': [epath.Path('/a'), epath.Path('/b')], 'data_dir': epath.Path('/d'), 'split': 'test',
        'lengths': [8, 16], 'samples': 9, 'seed': 0,
    }  # fmt: skip
    assert refusal('recl', '--split=test', '--lengths=8,16').startswith('--workdirs is needed')
    assert refusal('recl', '--workdirs=/a,/b', '--split=test').startswith('--lengths is needed')
    message = refusal('recl', '--workdirs=/a,/b', '--split=test', '--lengths=8,16', '--config.eval.batch_size=2')
    assert message == 'unknown flag --config.eval.batch_size: this command takes no config'


def test_compare_hands_over_the_group(launch, stand_in, refusal):
    calls = stand_in('memjax.evaluation.comparison', 'compare_runs')
    code, _, err = launch('compare', '--workdirs=/a,/b', '--split=test')
    assert (code, err) == (0, '')
    assert calls == [{'workdirs_of_group': [epath.Path('/a'), epath.Path('/b')], 'split': 'test'}]
    assert refusal('compare', '--workdirs=/a,/b').startswith('--split is needed')


def test_optimization_hands_over_the_run_and_the_branches(launch, stand_in, refusal, workdir):
    calls = stand_in('memjax.training.optimization_study', 'study_optimization')
    run = (f'--workdir={workdir}', '--data_dir=/d')
    ways = ('--num_steps=8', '--learning_rates=1e-9,1e-7', '--update_periods=2,4', '--step=6')
    code, _, err = launch('optimization', *run, *ways, '--config.mesh.fsdp=2')
    assert (code, err) == (0, '')
    (call,) = calls
    assert call.pop('config').mesh.fsdp == 2
    assert call == {
        'workdir': epath.Path(workdir), 'data_dir': epath.Path('/d'), 'num_steps': 8,
        'learning_rates': [1e-9, 1e-7], 'update_periods': [2, 4], 'step': 6,
    }  # fmt: skip
    assert refusal('optimization', *run).startswith('--num_steps is needed')
    message = refusal('optimization', *run, '--num_steps=8', '--learning_rates=1e-9,small')
    assert 'should be numbers with commas between them' in message
    message = refusal('optimization', *run, '--num_steps=8', '--config.training.seed=2')
    assert 'cannot be changed here, only data.path and mesh' in message


def test_mistakes_end_in_one_line(refusal, workdir, tmp_path):
    assert 'holds no run' in refusal('compare', f'--workdirs={tmp_path}/x,{tmp_path}/y', '--split=test')
    assert 'does not exist: run launch/eval.py' in refusal('compare', f'--workdirs={workdir},/b', '--split=test')
    assert 'windows are compared' in refusal('analyze', f'--workdir={workdir}', '--split=test', '--what=window')
