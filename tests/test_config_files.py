"""The files in configs/: each can be run, says what it reproduces, and keeps the comparisons fair."""

import ast
import pathlib

import pytest

from memjax.config import evaluation_config, flatten, from_file
from memjax.config_checks import check

CONFIGS = pathlib.Path(__file__).parents[1] / 'configs'
NAMES = sorted(path.stem for path in CONFIGS.glob('*.py'))


def load(name):
    return from_file(CONFIGS / f'{name}.py')


@pytest.mark.parametrize('name', NAMES)
def test_a_config_passes_the_checks_under_its_own_name(name):
    config = load(name)
    check(config)
    assert config.name == name


@pytest.mark.parametrize('name', NAMES)
def test_a_config_says_what_it_reproduces_and_how_to_run_it(name):
    text = ast.get_docstring(ast.parse((CONFIGS / f'{name}.py').read_text()))
    for part in (
        'Row:',
        'Reported figure:',
        'Hardware and time:',
        f'python launch/train.py --config=configs/{name}.py',
    ):
        assert part in text


@pytest.mark.parametrize(
    ('compressive', 'plain', 'differ'),
    [
        ('demo_ct', 'demo_txl', set()),
        ('needle_ct', 'needle_txl', set()),
        ('pg19_ct_tiny', 'pg19_txl_tiny', set()),
        ('enwik8_ct_tiny', 'enwik8_txl_tiny', {'eval.memory_length', 'eval.compressed_memory_length'}),
    ],
)
def test_pairs_differ_in_their_memory_alone_at_equal_cost_of_attention(compressive, plain, differ):
    compressive, plain = load(compressive), load(plain)
    ours, theirs = flatten(compressive), flatten(plain)
    memory = {'name', 'model.name', 'model.memory_length', 'model.compressed_memory_length'}
    unread_by_transformer_xl = {'model.compression_rate', 'model.compression', 'model.compression_loss'}
    differing = {field for field in ours if ours[field] != theirs[field]}
    assert differing - unread_by_transformer_xl == memory | differ
    for ours, theirs in ((compressive, plain), (evaluation_config(compressive), evaluation_config(plain))):
        assert ours.model.memory_length + ours.model.compressed_memory_length == theirs.model.memory_length
        assert theirs.model.compressed_memory_length == 0


def test_transformer_xls_own_sizes():
    """Transformer-XL's enwik8 models (arXiv 1901.02860): train and evaluation lengths, batch, rate, dropout."""
    twelve, twenty_four = load('enwik8_txl_12l'), load('enwik8_txl_24l')
    for config, lengths in ((twelve, (512, 512, 80, 2100, 820)), (twenty_four, (768, 768, 128, 3800, 1000))):
        evaluation = evaluation_config(config)
        assert lengths == (
            config.data.segment_length,
            config.model.memory_length,
            evaluation.data.segment_length,
            evaluation.model.memory_length,
            evaluation.model.clamp_length,
        )
        assert evaluation.model.same_length
        assert not config.model.same_length
        assert config.model.clamp_length is None
        assert (config.data.convention, config.model.vocab_size, config.model.norm) == ('txl', 204, 'post')
        assert (config.training.learning_rate, config.training.gradient_clip) == (2.5e-4, 0.25)
        assert config.training.decay_steps == config.training.num_steps == 400_000
    assert (twelve.data.batch_size, twenty_four.data.batch_size) == (22, 64)
    assert (twelve.training.warmup_steps, twenty_four.training.warmup_steps) == (0, 4_000)
    assert (twelve.model.dropout_rate, twelve.model.attention_dropout_rate) == (0.1, 0.0)
    assert (twenty_four.model.dropout_rate, twenty_four.model.attention_dropout_rate) == (0.15, 0.15)


def test_the_compressive_transformers_own_sizes():
    """The enwik8 model of arXiv 1911.05507: sizes, memories and the schedule of updates."""
    config = load('enwik8_ct')
    model, training = config.model, config.training
    assert (model.num_layers, model.model_dim, model.num_heads, model.mlp_dim) == (24, 1024, 8, 3072)
    assert (config.data.segment_length, model.memory_length) == (768, 768)
    assert (model.compressed_memory_length, model.compression_rate) == (1152, 3)
    assert evaluation_config(config).model.compressed_memory_length == 3072
    assert (model.compression, model.compression_loss) == ('conv', 'attention')
    assert (training.learning_rate_start, training.learning_rate, training.learning_rate_end) == (1e-6, 3e-4, 1e-6)
    assert (training.warmup_steps, training.decay_steps, training.gradient_clip) == (4_000, 100_000, 0.1)
    assert (training.update_period, training.update_period_start) == (4, 60_000)


def test_the_demo_evaluates_compares_and_samples():
    config = load('demo_ct')
    assert config.data.name == 'kjv'  # which needs no download
    assert config.eval.after_training == 'test'
    assert config.eval.compressors == ('gzip', 'xz')
    assert config.sample.after_training
    assert config.sample.prompt
    assert config.training.figure
    assert (config.model.memory_length, config.model.compression_rate) == (128, 4)
    assert config.model.head_dim is None
