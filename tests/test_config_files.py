"""The files in configs/: each can be run, says what it reproduces, and keeps the comparisons fair."""

import ast
import pathlib

import pytest

from memjax.config import evaluation_config, flatten, from_file, head_dim
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
        ('enwik8_ct_tiny', 'enwik8_txl_tiny', set()),
        ('wt103_ct', 'wt103_txl_ct', {'eval.memory_length', 'eval.compressed_memory_length'}),
        ('pg19_ct', 'pg19_txl', set()),
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


# Layers, width, heads, width of a head, mlp, segment, memory, batch, dropouts; evaluation's segment, memory, clamp.
TRANSFORMER_XL = {
    'wt103_txl_base': ((16, 410, 10, 41, 2100, 150, 150, 60, 0.1, 0.0), (64, 640, 400)),
    'wt103_txl_large': ((18, 1024, 16, 64, 4096, 384, 384, 128, 0.2, 0.2), (128, 1600, 1000)),
    'lm1b_txl_large': ((24, 1280, 16, 80, 8192, 32, 32, 512, 0.05, 0.05), (32, 128, None)),
    'text8_txl_24l': ((24, 1024, 8, 128, 3072, 768, 768, 64, 0.15, 0.15), (128, 3800, 1000)),
}


@pytest.mark.parametrize(('name', 'training', 'evaluation'), [(name, *row) for name, row in TRANSFORMER_XL.items()])
def test_transformer_xls_sizes_for_other_texts(name, training, evaluation):
    config = load(name)
    model, used = config.model, evaluation_config(config)
    sizes = (model.num_layers, model.model_dim, model.num_heads, head_dim(model), model.mlp_dim)
    lengths = (config.data.segment_length, model.memory_length, config.data.batch_size)
    assert (*sizes, *lengths, model.dropout_rate, model.attention_dropout_rate) == training
    assert (used.data.segment_length, used.model.memory_length, used.model.clamp_length) == evaluation
    assert used.model.same_length


def test_steps_and_bands_of_transformer_xls_word_models():
    base, large, billion = load('wt103_txl_base'), load('wt103_txl_large'), load('lm1b_txl_large')
    steps = [(config.training.warmup_steps, config.training.num_steps) for config in (base, large, billion)]
    assert steps == [(0, 200_000), (16_000, 4_000_000), (30_000, 1_200_000)]
    assert base.model.adaptive_cutoffs == large.model.adaptive_cutoffs == (20_000, 40_000, 200_000)
    assert billion.model.adaptive_cutoffs == (60_000, 100_000, 640_000)
    assert [config.model.adaptive_div for config in (base, large, billion)] == [1, 4, 4]


def test_the_compressive_transformers_sizes_for_other_texts():
    words, books = load('wt103_ct'), load('pg19_ct')
    for config, layers, rate, batch, evaluated in ((words, 18, 4, 128, 1536), (books, 36, 2, 512, 512)):
        model, training = config.model, config.training
        assert (model.num_layers, model.compression_rate, config.data.batch_size) == (layers, rate, batch)
        assert config.data.segment_length == model.memory_length == model.compressed_memory_length == 512
        assert evaluation_config(config).model.compressed_memory_length == evaluated
        assert (training.warmup_steps, training.decay_steps, training.gradient_clip) == (16_000, 500_000, 0.1)
        assert (training.update_period, training.update_period_start) == (4, 60_000)
    assert (words.model.num_heads, words.model.model_dim, words.model.mlp_dim) == (16, 1024, 4096)
    assert books.model.vocab_size == 32_000
    # About 100 billion subwords.
    assert 95e9 < books.training.num_steps * 512 * 512 < 110e9


def test_the_papers_own_transformer_xl_on_enwik8():
    config = load('enwik8_txl_ct')
    assert (config.model.memory_length, evaluation_config(config).model.memory_length) == (2304, 4096)


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
