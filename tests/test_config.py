"""The base config, how runs and files are loaded into it, and what may change on resume."""

import json

import pytest

from memjax import config as config_lib
from memjax.errors import ConfigError


def test_a_misspelt_field_cannot_be_added():
    config = config_lib.base_config()
    with pytest.raises(AttributeError, match='num_layer'):
        config.model.num_layer = 4


def test_a_field_keeps_its_type():
    config = config_lib.base_config()
    with pytest.raises(TypeError):
        config.eval.memory_length = 'long'


def test_optional_fields_are_those_that_may_be_none():
    optional = config_lib.optional_fields()
    assert optional['model.head_dim'] is int
    assert optional['eval.same_length'] is bool
    assert optional['data.path'] is str
    assert 'model.num_layers' not in optional


def test_json_keeps_every_value_and_its_type():
    config = config_lib.base_config()
    config.eval.compressors = ('gzip', 'xz')
    config.model.head_dim = 7
    config.training.learning_rate = 1
    loaded = config_lib.from_json(config_lib.to_json(config))
    assert config_lib.flatten(loaded) == config_lib.flatten(config)
    assert isinstance(loaded.eval.compressors, tuple)
    assert isinstance(loaded.training.learning_rate, float)
    loaded.eval.memory_length = 5  # still typed: a placeholder is no plain None
    with pytest.raises(TypeError):
        loaded.eval.memory_length = 'long'


def test_json_without_a_field_takes_its_default():
    assert config_lib.from_json('{"model": {"num_layers": 9}}').model.num_layers == 9
    assert config_lib.from_json('{}') == config_lib.base_config()


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('{"model": ', 'config.json is not JSON'),
        ('[1, 2]', 'config.json: the whole is not an object'),
        ('{"model": 3}', 'config.json: model is not an object'),
        ('{"model": {"num_layer": 3}}', 'unknown field model.num_layer; did you mean num_layers?'),
        ('{"model": {"num_layers": "three"}}', "model.num_layers='three' is not of type int"),
        ('{"eval": {"memory_length": 2.5}}', 'eval.memory_length=2.5 is not of type int'),
    ],
)
def test_json_that_is_no_config_is_refused(text, complaint):
    with pytest.raises(ConfigError) as error:
        config_lib.from_json(text)
    assert complaint in str(error.value)


def test_a_file_gives_what_its_get_config_returns(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(
        'from memjax.config import base_config\n'
        'def get_config():\n'
        '    config = base_config()\n'
        '    config.model.num_layers = 2\n'
        '    return config\n'
    )
    assert config_lib.from_file(path).model.num_layers == 2


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('def get_config(:\n', 'line 1: SyntaxError: invalid syntax'),
        ('\0', 'SyntaxError'),
        ('PK not a program at all', 'SyntaxError'),
        ('import no_such_module\n', "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ('import sys\nsys.exit(0)\n', 'line 2: SystemExit'),
        ('x = 1\n', 'has no function get_config()'),
        ('get_config = 1\n', 'has no function get_config()'),
        ('def get_config():\n    return 1 / 0\n', 'line 2: ZeroDivisionError: division by zero'),
        ('def get_config(variant):\n    return variant\n', 'TypeError'),
        ('def get_config():\n    return {}\n', 'returned dict, not the ConfigDict'),
        (
            'from memjax.config import base_config\n'
            'def get_config():\n'
            '    base_config().model.num_layer = 1\n',
            'line 3: unknown field num_layer; did you mean num_layers?',
        ),
        (
            'from ml_collections import ConfigDict\n'
            'def get_config():\n'
            '    return ConfigDict({"model": {"layers": 1}})\n',
            'unknown field model.layers; did you mean num_layers?',
        ),
    ],
)  # fmt: skip
def test_a_file_that_gives_no_config_is_refused_by_name_and_line(tmp_path, text, complaint):
    path = tmp_path / 'mine.py'
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        config_lib.from_file(path)
    assert str(error.value).startswith(str(path))
    assert complaint in str(error.value)


def test_a_file_of_other_bytes_or_none_is_refused(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_bytes(b'\xff\xfe\x00caf\xe9')
    for bad in (path, tmp_path, tmp_path / 'absent.py'):
        with pytest.raises(ConfigError, match=r'mine\.py|no such config file'):
            config_lib.from_file(bad)


def test_evaluation_takes_its_own_lengths_and_leaves_the_config_alone():
    config = config_lib.base_config()
    config.eval.memory_length = 7
    config.eval.batch_size = 3
    evaluation = config_lib.evaluation_config(config)
    assert (evaluation.model.memory_length, evaluation.data.batch_size) == (7, 3)
    assert evaluation.data.segment_length == config.data.segment_length
    assert config.model.memory_length == 128


def test_evaluation_can_switch_same_length_off():
    config = config_lib.base_config()
    config.model.same_length = True
    config.eval.same_length = False
    assert config_lib.evaluation_config(config).model.same_length is False


def test_head_dim_divides_the_model_unless_it_is_set():
    model = config_lib.base_config().model
    assert config_lib.head_dim(model) == 32
    model.head_dim = 50
    assert config_lib.head_dim(model) == 50


def test_a_resumed_run_may_change_lengths_of_training_and_evaluation_only():
    old = config_lib.base_config()
    new = config_lib.from_json(json.dumps(old.to_dict()))
    new.training.num_steps = 5
    new.training.log_every = 7
    new.eval.batch_size = 4
    new.mesh.data = 2
    assert config_lib.differences_forbidden_on_resume(old, new) == {}
    new.training.seed = 1
    new.model.num_layers = 9
    assert config_lib.differences_forbidden_on_resume(old, new) == {
        'training.seed': (0, 1),
        'model.num_layers': (4, 9),
    }


def test_did_you_mean_suggests_only_what_is_near():
    assert config_lib.did_you_mean('kjb', ['kjv', 'enwik8']) == '; did you mean kjv?'
    assert config_lib.did_you_mean('wikipedia', ['kjv', 'xz']) == ''
