"""Flags, overrides, and how a command ends: through `main`, as a launcher calls it, in this process."""

import pytest
from absl import flags

from memjax import command_line
from memjax.config import base_config
from memjax.errors import DataError

EVERYTHING = tuple(base_config())


class Recorder:
    """A command that keeps what it was run with, or fails as it is told to."""

    def __init__(self, fault: BaseException | None = None):
        self.fault = fault
        self.config = None
        self.flags = flags.FlagValues()
        command_line.define_workdir(self.flags, 'a directory')
        command_line.define_step(self.flags)

    def run(self, flag_values, config):
        self.config = config
        if self.fault is not None:
            raise self.fault


def finish(*arguments, recorder=None, load_config=lambda _: base_config(), changeable=EVERYTHING) -> int:
    """The exit code of a command given these arguments."""
    recorder = recorder or Recorder()
    command = command_line.Command('Usage.', recorder.flags, load_config, recorder.run, changeable)
    with pytest.raises(SystemExit) as exit_:
        command_line.main(command, ['program', *arguments])
    return exit_.value.code or 0


def config_after(*arguments):
    recorder = Recorder()
    assert finish(*arguments, recorder=recorder) == 0
    return recorder.config


@pytest.fixture
def refusal(capsys):
    """A function: the one line with which a command that is given these arguments ends, at exit code 2."""

    def of(*arguments, **how) -> str:
        recorder = how.setdefault('recorder', Recorder())
        fault = recorder.fault
        assert finish(*arguments, **how) == 2
        assert fault is not None or recorder.config is None, 'it ran all the same'
        out, err = capsys.readouterr()
        assert out == ''
        assert err.startswith('error: ')
        assert err.endswith('\n')
        assert err.count('\n') == 1
        return err.removeprefix('error: ').rstrip('\n')

    return of


def test_overrides_of_every_type():
    config = config_after(
        '--config.model.num_layers=2',
        '--config.training.learning_rate=1',
        '--config.data.name=enwik8',
        '--config.data.path=/some/where',
        '--config.eval.batch_size=3',
        '--config.name=mine',
    )
    assert config.model.num_layers == 2
    assert config.training.learning_rate == 1.0
    assert (config.data.name, config.data.path, config.name) == ('enwik8', '/some/where', 'mine')
    assert config.eval.batch_size == 3


@pytest.mark.parametrize(
    ('argument', 'value'),
    [
        ('--config.model.same_length', True),
        ('--config.model.same_length=true', True),
        ('--config.model.same_length=1', True),
        ('--noconfig.model.same_length', False),
        ('--config.model.same_length=False', False),
    ],
)
def test_booleans(argument, value):
    assert config_after('--config.model.memory_length=256', argument).model.same_length is value


def test_an_optional_boolean():
    assert config_after('--config.eval.same_length').eval.same_length is True
    assert config_after('--noconfig.eval.same_length').eval.same_length is False
    assert config_after('--config.eval.same_length=none').eval.same_length is None


@pytest.mark.parametrize(
    ('argument', 'value'),
    [
        ('gzip', ('gzip',)),
        ('gzip,xz', ('gzip', 'xz')),  # what the shell leaves of 'gzip','xz'
        ("'gzip','xz'", ('gzip', 'xz')),
        ("('gzip','xz')", ('gzip', 'xz')),
        ("('gzip',)", ('gzip',)),
        ('(gzip, xz)', ('gzip', 'xz')),
        ('["gzip", "xz"]', ('gzip', 'xz')),
        ('()', ()),
        ('', ()),
    ],
)
def test_tuples(argument, value):
    assert config_after(f'--config.eval.compressors={argument}').eval.compressors == value


def test_a_repeated_tuple_flag_adds_up():
    config = config_after('--config.eval.compressors=gzip', '--config.eval.compressors=xz')
    assert config.eval.compressors == ('gzip', 'xz')


def test_a_repeated_flag_takes_its_last_value():
    assert config_after('--config.model.num_layers=2', '--config.model.num_layers=3').model.num_layers == 3


def test_values_after_a_space_do_not_end_the_flags():
    recorder = Recorder()
    assert (
        finish('--config.mesh.data', '-1', '--config.model.num_layers', '7', '--workdir', 'w', recorder=recorder) == 0
    )
    assert recorder.config.model.num_layers == 7
    assert recorder.flags.workdir == 'w'


@pytest.mark.parametrize('none', ['none', 'None'])
def test_none_unsets_a_field_that_may_be_unset(none):
    for field in ('eval.memory_length', 'data.path', 'model.head_dim', 'eval.after_training'):
        section, name = field.split('.')
        value = {'data.path': 'x', 'eval.after_training': 'test'}.get(field, '128')
        assert config_after(f'--config.{field}={value}')[section][name] is not None
        assert config_after(f'--config.{field}={value}', f'--config.{field}={none}')[section][name] is None


def test_none_is_a_word_like_others_where_a_field_is_always_set(refusal):
    config = config_after('--config.model.compression_loss=none', '--config.training.segments_per_step=2')
    assert config.model.compression_loss == 'none'
    assert 'num_layers=none' in refusal('--config.model.num_layers=none')


def test_unknown_fields_suggest_the_nearest(refusal):
    assert refusal('--config.model.num_layer=4') == 'unknown field --config.model.num_layer; did you mean num_layers?'
    assert refusal('--config.model.batch_size=4').endswith('did you mean data.batch_size?')
    assert refusal('--config.batch_size=4').endswith('did you mean data.batch_size?')
    assert refusal('--config.trainng.num_steps=4').endswith('did you mean training.num_steps?')
    assert refusal('--config.modle.num_layer=4').endswith('did you mean model.num_layers?')
    assert refusal('--noconfig.model.same_lengt').endswith('did you mean same_length?')
    assert refusal('--config.model.quux=4') == 'unknown field --config.model.quux'
    assert refusal('--config.=4').startswith('unknown field')


def test_unknown_flags_suggest_the_nearest(refusal):
    assert refusal('--work_dir=x') == 'unknown flag --work_dir; did you mean --workdir?'
    assert refusal('--confg.model.num_layers=4') == 'unknown flag --confg.model.num_layers; did you mean --config?'
    assert refusal('--zzz') == 'unknown flag --zzz'


def test_a_section_is_no_field(refusal):
    assert refusal('--config.model=4').startswith('--config.model needs a field')
    assert refusal('--config.model={"num_layers": 2}').startswith('--config.model needs a field')


@pytest.mark.parametrize(
    ('argument', 'part'),
    [
        ('--config.model.num_layers=four', "'four'"),
        ('--config.model.num_layers=4.5', "'4.5'"),
        ('--config.model.num_layers=', "''"),
        ('--config.model.num_layers', 'Missing value'),
        ('--config.training.learning_rate=fast', "'fast'"),
        ('--config.model.same_length=maybe', 'maybe'),
        ('--config.model.same_length=none', 'none'),
        ('--config.eval.memory_length=long', "'long'"),
        ('--noconfig.model.num_layers', 'noconfig.model.num_layers'),
        ('--noconfig.model.same_length=1', 'noconfig.model.same_length'),
        ('--flagfile=no/such/file', 'no/such/file'),
        ('--workdir', 'Missing value'),
        ('--step=-1', '-1'),
        ('--step=newest', 'newest'),
        ('--nohelp=3', 'nohelp'),
    ],
)
def test_values_of_the_wrong_type_are_refused(refusal, argument, part):
    assert part in refusal(argument)


@pytest.mark.parametrize('arguments', [['stray'], ['--workdir=w', 'stray'], ['--', 'stray']])
def test_stray_arguments_are_refused(refusal, arguments):
    assert refusal(*arguments).startswith("unexpected argument 'stray'")


def test_a_config_file_is_refused_where_none_is_taken(refusal):
    assert refusal('--config=configs/demo_ct.py').startswith('--config is not taken here')
    assert refusal('--config', 'configs/demo_ct.py').startswith('--config is not taken here')


def test_the_checks_see_overrides(refusal):
    assert refusal('--config.model.num_heads=0') == 'model.num_heads=0 must be at least 1'
    assert refusal('--config.model.compression_rate=3').startswith('data.segment_length=128 does not divide')
    assert refusal('--config.model.memory_length=-1') == 'model.memory_length=-1 must not be negative'
    assert 'did you mean gzip?' in refusal('--config.eval.compressors=gzp')


def test_only_what_a_command_allows_may_be_changed(refusal):
    allowed = {'changeable': command_line.CHANGEABLE_AFTER_TRAINING}
    for argument in ('--config.eval.batch_size=2', '--config.data.path=p'):
        assert finish(argument, **allowed) == 0
    for argument in ('--config.model.num_layers=2', '--config.data.name=kjv', '--config.data.batch_size=2'):
        assert refusal(argument, **allowed).endswith('cannot be changed here, only eval, sample and data.path')
    assert 'did you mean' in refusal('--config.model.num_layer=2', **allowed)


def test_steps_are_numbers_or_best():
    for argument, value in (('--step=12', 12), ('--step=best', 'best'), ('--workdir=w', None)):
        recorder = Recorder()
        assert finish(argument, recorder=recorder) == 0
        assert recorder.flags.step == value


def test_a_users_error_while_it_runs_is_one_line(refusal):
    assert refusal(recorder=Recorder(DataError('the corpus\nis empty'))) == 'the corpus; is empty'


def test_an_operating_systems_error_is_one_line(refusal):
    full = OSError(28, 'No space left on device', '/w/metrics.jsonl')
    assert refusal(recorder=Recorder(full)) == '/w/metrics.jsonl: No space left on device'
    assert refusal(recorder=Recorder(OSError(30, 'Read-only file system'))) == 'Read-only file system'
    assert refusal(recorder=Recorder(OSError('odd'))) == 'odd'


def test_a_fault_of_ours_keeps_its_traceback():
    command = command_line.Command('Usage.', flags.FlagValues(), lambda _: base_config(), lambda *_: {}['absent'])
    with pytest.raises(KeyError, match='absent'):
        command_line.main(command, ['program'])


def test_interruption_exits_130(capsys):
    assert finish(recorder=Recorder(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == ''


def test_a_commands_own_exit_code_is_kept():
    assert finish(recorder=Recorder(SystemExit(143))) == 143


def test_help_names_flags_and_what_may_be_changed(capsys):
    for argument in ('--help', '-h'):
        recorder = Recorder()
        assert finish(argument, recorder=recorder, changeable=('eval', 'data.path')) == 0
        assert recorder.config is None
        out, err = capsys.readouterr()
        assert err == ''
        for part in ('Usage.', '--workdir', 'a directory', '--step', 'eval.memory_length', 'data.path'):
            assert part in out
        assert 'model.num_layers' not in out


def test_a_needed_flag_says_what_it_is_for(refusal):
    def load_config(flag_values):
        command_line.required(flag_values, 'workdir')

    assert refusal(load_config=load_config) == '--workdir is needed: a directory'
    assert refusal('--workdir=', load_config=load_config) == '--workdir is needed: a directory'


def test_data_lies_where_the_flag_or_the_environment_says(monkeypatch, tmp_path):
    values = flags.FlagValues()
    command_line.define_data_dir(values)
    values(['program'])
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.delenv('MEMJAX_DATA', raising=False)
    assert str(command_line.data_dir(values)) == f'{tmp_path}/.cache/memjax'
    monkeypatch.setenv('MEMJAX_DATA', '/from/environment')
    assert str(command_line.data_dir(values)) == '/from/environment'
    values(['program', '--data_dir=~/mine'])
    assert str(command_line.data_dir(values)) == f'{tmp_path}/mine'
