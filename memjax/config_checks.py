"""What a config must satisfy, checked before any JAX runs.

Rules about one field stand in tables; a rule that ties fields together is a function that yields what is wrong. What
depends on the data (does the corpus exist, do its rows suffice) is checked where the data is opened.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ml_collections import config_dict

from memjax.config import base_config, did_you_mean, evaluation_config, field_type, flatten, optional_fields
from memjax.errors import ConfigError

SPLITS = ('train', 'validation', 'test')
# Fields of `eval` that a sweep may change: neither parameters nor targets depend on them.
SWEPT = ('compressed_memory_length', 'memory_length', 'clamp_length', 'segment_length', 'warmup', 'batch_size')

CHOICES = {
    'data.convention': ('bytes', 'txl', 'awd', 'characters', 'words', 'sentencepiece'),
    'data.documents': ('stream', 'articles', 'sentences'),
    'model.name': ('transformer_xl', 'compressive', 'rmt', 'lstm'),
    'model.activation': ('relu', 'gelu'),
    'model.norm': ('pre', 'post'),
    'model.position_encoding': ('relative', 'shaw', 'absolute'),
    'model.tied_projections': ('all', 'all_but_first', 'none'),
    'model.compression': ('conv', 'dilated_conv', 'mean', 'max', 'most_used', 'random'),
    'model.compression_loss': ('attention', 'auto_encoding', 'none'),
    'model.compression_loss_reduction': ('mean', 'sum'),
    'model.compressed_positions': ('slots', 'separate', 'time'),
    'model.dtype': ('float32', 'bfloat16'),
    'eval.after_training': SPLITS,
    'eval.compressors': ('gzip', 'bzip2', 'xz', 'xz_extreme', 'ppmd'),
}


# Lists of whole numbers, and the least that each may be.
INTEGERS = {
    'model.compression_rate_by_layer': 1,
    'model.higher_memory_lengths': 0,
    'model.adaptive_cutoffs': 1,
    'model.higher_compression_rates': 1,
}


# Fields of `model` that some models do not read, and in which a value of one's own would be taken for read.
UNREAD = {
    ('transformer_xl', 'rmt', 'lstm'): (
        'compression_rate_by_layer', 'higher_memory_lengths', 'higher_compression_rates', 'compressed_positions',
        'compression', 'compression_loss', 'compression_loss_reduction',
    ),
    ('lstm',): (
        'same_length', 'untie_r', 'clamp_length', 'position_encoding', 'largest_distance', 'remat',
        'attention_dropout_rate',
    ),
}  # fmt: skip


# Fields of `data` that are read for some values of another field only.
READ_FOR = {
    'documents': ('name', ('wikitext103', 'lm1b')),
    'subset': ('name', ('wikitext103', 'ptb', 'lm1b')),
    'sentencepiece_vocab_size': ('convention', ('sentencepiece',)),
    'min_word_count': ('convention', ('words',)),
}


class Rule(NamedTuple):
    """What every one of some fields must be, if it is not None."""

    must: str
    holds: Callable[[Any], bool]
    fields: tuple[str, ...]


RULES = (
    Rule('be at least 1', lambda value: value >= 1, (
        'data.batch_size', 'data.segment_length', 'data.piece_length', 'data.sentencepiece_vocab_size',
        'data.min_word_count',
        'model.vocab_size', 'model.num_layers', 'model.num_heads', 'model.head_dim', 'model.model_dim', 'model.mlp_dim',
        'model.compression_rate', 'model.clamp_length', 'model.largest_distance',
        'model.adaptive_div', 'model.embedding_dim', 'model.layer_unroll',
        'training.num_steps', 'training.decay_steps', 'training.update_period', 'training.segments_per_step',
        'training.log_every', 'training.eval_every', 'training.eval_segments', 'training.checkpoint_every',
        'training.checkpoints_to_keep', 'training.branch_step',
        'eval.batch_size', 'eval.segment_length', 'eval.clamp_length', 'eval.window_stride',
        'sample.length', 'sample.top_k',
        'mesh.fsdp', 'mesh.tensor',
    )),
    Rule('not be negative', lambda value: value >= 0, (
        'model.memory_length', 'model.compressed_memory_length', 'model.num_memory_tokens',
        'training.warmup_steps', 'training.learning_rate_start', 'training.learning_rate_end',
        'training.update_period_start', 'training.seed',
        'eval.memory_length', 'eval.compressed_memory_length', 'eval.warmup',
    )),
    Rule('be above 0', lambda value: value > 0, (
        'model.init_scale',
        'training.learning_rate', 'training.gradient_clip', 'training.compression_gradient_clip', 'training.adam_eps',
        'sample.temperature',
    )),
    Rule('be at least 0 and below 1', lambda value: 0 <= value < 1, (
        'data.validation_fraction', 'data.test_fraction',
        'model.dropout_rate', 'model.attention_dropout_rate',
        'training.adam_b1', 'training.adam_b2',
    )),
    Rule('be above 0 and at most 1', lambda value: 0 < value <= 1, ('sample.top_p',)),
    Rule('be even: sines, then cosines', lambda value: value % 2 == 0, ('model.model_dim',)),
    Rule('be -1 or at least 1', lambda value: value == -1 or value >= 1, ('mesh.data',)),
    Rule('be letters, digits, _ - or .', lambda value: bool(re.fullmatch(r'\w[\w.-]*', value)), ('name',)),
)  # fmt: skip


def check(config: config_dict.ConfigDict) -> None:
    """Refuses a config that cannot work.

    Raises:
      ConfigError: one line that names the field, its value and what it must be.
    """
    for complaints in (_values, _choices, _integers, _rules, _data, _training, _compression, _windows, _ending, _model):
        for complaint in complaints(config):
            raise ConfigError(complaint)


def _values(config: config_dict.ConfigDict) -> Iterator[str]:
    """Type safety's gaps: ml_collections lets None replace anything, and a bool an int."""
    optional = optional_fields()
    base = base_config()
    for name, value in flatten(config).items():
        if value is None:
            if name not in optional:
                yield f'{name} must not be None'
        elif isinstance(value, bool) and field_type(base, name) is not bool:
            yield f'{name}={value} must be of type {field_type(base, name).__name__}'
        elif isinstance(value, float) and not math.isfinite(value):
            yield f'{name}={value} must be finite'


def _choices(config: config_dict.ConfigDict) -> Iterator[str]:
    values = flatten(config)
    for name, choices in CHOICES.items():
        value = values[name]
        for word in value if isinstance(value, tuple) else (value,):
            if word is not None and word not in choices:
                yield f'{name}={word!r} must be one of {", ".join(choices)}{did_you_mean(str(word), choices)}'


def _integers(config: config_dict.ConfigDict) -> Iterator[str]:
    values = flatten(config)
    for name, least in INTEGERS.items():
        if any(type(value) is not int or value < least for value in values[name]):
            yield f'{name}={values[name]!r} must be whole numbers of at least {least}'


def _rules(config: config_dict.ConfigDict) -> Iterator[str]:
    values = flatten(config)
    for must, holds, fields in RULES:
        for name in fields:
            if values[name] is not None and not holds(values[name]):
                yield f'{name}={values[name]!r} must {must}'


def _data(config: config_dict.ConfigDict) -> Iterator[str]:
    """Fields that were set for another corpus or convention."""
    data, base = config.data, base_config().data
    for field, (other, values) in READ_FOR.items():
        if data[field] != base[field] and data[other] not in values:
            yield f'data.{field}={data[field]!r} means nothing to data.{other}={data[other]}'


def _training(config: config_dict.ConfigDict) -> Iterator[str]:
    training, data = config.training, config.data
    if data.piece_length is not None and data.piece_length % data.segment_length:
        yield f'data.piece_length={data.piece_length} does not divide by data.segment_length={data.segment_length}'
    if training.warmup_steps > training.decay_steps:
        yield (
            f'training.warmup_steps={training.warmup_steps} must not be above '
            f'training.decay_steps={training.decay_steps}, where the decay that follows it ends'
        )
    if training.branch_from is not None and training.init_from is not None:
        yield f'training.branch_from={training.branch_from!r} and training.init_from={training.init_from!r}: set one'
    if training.branch_step is not None and training.branch_from is None:
        yield f'training.branch_step={training.branch_step} means nothing without training.branch_from'
    if training.branch_step is not None and training.branch_step >= training.num_steps:
        yield f'training.num_steps={training.num_steps} must be above training.branch_step={training.branch_step}'
    if data.validation_fraction + data.test_fraction >= 1:
        yield (
            f'data.validation_fraction={data.validation_fraction} and data.test_fraction={data.test_fraction} '
            f'leave nothing to train on'
        )


def _compression(config: config_dict.ConfigDict) -> Iterator[str]:
    """Memories that nothing would train."""
    model = config.model
    if model.name == 'rmt' and config.training.segments_per_step == 1:
        yield (
            'training.segments_per_step=1 with model.name=rmt leaves what is written untrained: the loss reaches it '
            'through a later segment of the same step'
        )
    if model.name != 'compressive':
        return
    learned = model.compression in ('conv', 'dilated_conv')
    if model.compression_loss == 'none' and learned and config.training.segments_per_step == 1:
        yield (
            f'training.segments_per_step=1 with model.compression_loss=none leaves model.compression='
            f'{model.compression} untrained: the loss reaches it through a later segment of the same step'
        )
    if model.compression_loss == 'auto_encoding' and not learned:
        yield (
            f'model.compression_loss=auto_encoding trains nothing that is kept: model.compression='
            f'{model.compression} has no parameters'
        )


def _ending(config: config_dict.ConfigDict) -> Iterator[str]:
    """What would only fail when the training is over."""
    if config.sample.after_training and not config.sample.prompt:
        yield "sample.prompt='' must not be empty with sample.after_training=True: there is nothing to continue"
    if config.eval.compressors and config.data.convention != 'bytes':
        yield (
            f'eval.compressors={config.eval.compressors!r} read bytes, and '
            f'data.convention={config.data.convention!r} has other symbols: leave the first empty '
            f'(--config.eval.compressors=), or set the other to bytes'
        )


def _windows(config: config_dict.ConfigDict) -> Iterator[str]:
    stride, segment_length = config.eval.window_stride, evaluation_config(config).data.segment_length
    if stride is not None and stride > segment_length:
        name = _evaluation_name(config, 'segment_length')
        yield f'eval.window_stride={stride} must not be above {name}={segment_length}'
    model = evaluation_config(config).model
    if stride is not None and (model.name != 'transformer_xl' or model.memory_length):
        yield (
            f'eval.window_stride={stride} is for models without memory: model.name=transformer_xl with '
            f'eval.memory_length=0'
        )
    if stride is not None and config.eval.warmup is not None:
        yield f'eval.warmup={config.eval.warmup} means nothing to windows (eval.window_stride={stride})'


def _model(config: config_dict.ConfigDict) -> Iterator[str]:
    model = config.model
    if model.name != 'lstm' and model.head_dim is None and model.model_dim % model.num_heads:
        yield (
            f'model.model_dim={model.model_dim} does not divide by model.num_heads={model.num_heads}; '
            f'set model.head_dim, or another number of heads'
        )
    if (model.position_encoding == 'shaw') != (model.largest_distance is not None):
        yield (
            f'model.largest_distance={model.largest_distance} with model.position_encoding='
            f'{model.position_encoding}: shaw needs it, the others have none'
        )
    if model.position_encoding != 'relative' and model.compressed_positions != 'slots':
        yield (
            f'model.compressed_positions={model.compressed_positions} needs model.position_encoding=relative, not '
            f'{model.position_encoding}'
        )
    if (model.name == 'rmt') != (model.num_memory_tokens > 0):
        yield f'model.num_memory_tokens={model.num_memory_tokens} with model.name={model.name}: rmt alone has some'
    if model.untie_r and model.position_encoding != 'relative':
        yield f'model.untie_r=True with model.position_encoding={model.position_encoding}: it has no u and v'
    yield from _unread(config)
    yield from _bands(model)
    yield from _lengths(config, lambda field: f'{"data" if field in config.data else "model"}.{field}')
    yield from _lengths(evaluation_config(config), lambda field: _evaluation_name(config, field))


def _unread(config: config_dict.ConfigDict) -> Iterator[str]:
    """Fields that were set for another model: a comparison must not believe that they were read."""
    model, base = config.model, base_config().model
    for names, fields in UNREAD.items():
        for field in fields if model.name in names else ():
            if model[field] != base[field]:
                yield f'model.{field}={model[field]!r} means nothing to model.name={model.name}'
    # `model.memory_length` is let pass: every config has one, and any can be turned into an LSTM's by the name alone.
    for field in model if model.name == 'lstm' else ():
        if field in config.eval and config.eval[field] is not None:
            yield f'eval.{field}={config.eval[field]!r} means nothing to model.name=lstm'


def _bands(model: config_dict.ConfigDict) -> Iterator[str]:
    cutoffs, shown = tuple(model.adaptive_cutoffs), f'model.adaptive_cutoffs={model.adaptive_cutoffs}'
    if any(after <= before for before, after in itertools.pairwise(cutoffs)):
        yield f'{shown} must rise'
    if cutoffs and cutoffs[-1] >= model.vocab_size:
        yield f'{shown} must be below model.vocab_size={model.vocab_size}: a band would be empty'
    narrowest = (model.embedding_dim or model.model_dim) // model.adaptive_div ** len(cutoffs)
    if not narrowest:
        yield f'model.adaptive_div={model.adaptive_div} leaves no width to the last of {len(cutoffs) + 1} bands'
    if model.adaptive_div > 1 and not cutoffs:
        yield f'model.adaptive_div={model.adaptive_div} needs model.adaptive_cutoffs: there is one band'


def _evaluation_name(config: config_dict.ConfigDict, field: str) -> str:
    """Where evaluation takes a length from."""
    if field in config.eval and config.eval[field] is not None:
        return f'eval.{field}'
    return f'{"data" if field in config.data else "model"}.{field}'


def _lengths(config: config_dict.ConfigDict, name_of: Callable[[str], str]) -> Iterator[str]:
    """Segment and memory lengths that do not fit each other; `name_of` a field says where it was set."""
    model, segment_length = config.model, config.data.segment_length
    shown = {
        field: f'{name_of(field)}={value}'
        for field, value in {**model.to_dict(), 'segment_length': segment_length}.items()
    }
    if model.same_length and model.memory_length == 0:
        yield f'{shown["same_length"]} needs a memory, and {shown["memory_length"]}'
    if model.name != 'compressive':
        if model.compressed_memory_length:
            yield f'{shown["compressed_memory_length"]} means nothing to model.name={model.name}: set it to 0'
        if model.name == 'rmt' and model.same_length:
            yield f'{shown["same_length"]} would hide the memory tokens of model.name=rmt'
        return
    if model.memory_length < segment_length:
        yield f'{shown["memory_length"]} must be at least {shown["segment_length"]}, the block that gets compressed'
    if model.memory_length % segment_length:
        yield f'{shown["memory_length"]} does not divide by {shown["segment_length"]}, the block that gets compressed'
    yield from _compressed_blocks(model, segment_length, shown)


def _compressed_blocks(model: config_dict.ConfigDict, segment_length: int, shown: dict[str, str]) -> Iterator[str]:
    """Rates that do not divide what they compress, level by level."""
    name = 'compression_rate_by_layer' if model.compression_rate_by_layer else 'compression_rate'
    if model.compression_rate_by_layer and len(model.compression_rate_by_layer) != model.num_layers:
        yield f'{shown[name]} must name a rate for each of {shown["num_layers"]}'
    if len(model.higher_memory_lengths) != len(model.higher_compression_rates):
        yield f'{shown["higher_memory_lengths"]} needs as many rates, and {shown["higher_compression_rates"]}'
    lengths = (model.compressed_memory_length, *model.higher_memory_lengths)
    for rate in model.compression_rate_by_layer or (model.compression_rate,):
        block, rates = segment_length, (rate, *model.higher_compression_rates)
        for level, rate in enumerate(rates):
            if level:
                name = 'higher_compression_rates'
                if lengths[level - 1] % block or not lengths[level - 1]:
                    yield (
                        f'level {level} has {lengths[level - 1]} slots, not a whole number of blocks of {block}, and '
                        f'{shown["higher_memory_lengths"]} compresses them further'
                    )
            if block % rate:
                what = shown['segment_length'] if not level else f'a block of {block} in level {level}'
                yield f'{what} does not divide by {shown[name]}'
            block //= rate
