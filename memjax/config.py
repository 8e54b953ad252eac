"""The one typed configuration that every command, model and result file shares.

`base_config()` holds every field with its default and its type; a file in `configs/` edits it, a flag such as
`--config.model.num_layers=4` overrides it, and a run's `config.json` is loaded into it. A field that may be None is a
`config_dict.placeholder`, so that a flag can set it and its type is still checked.

This module imports no JAX: `--help` and a config's checks must answer at once.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import importlib.util
import json
import os
import re
import traceback
from collections.abc import Iterable
from typing import Any

from ml_collections import config_dict

from memjax.errors import ConfigError

# What may differ between a run and its resumption. Everything else would make the resumed run another experiment.
RESUMABLE_FIELDS = frozenset(
    {
        'training.num_steps',
        'training.log_every',
        'training.eval_every',
        'training.checkpoint_every',
    }
)
RESUMABLE_SECTIONS = frozenset({'eval', 'mesh', 'sample'})


def base_config() -> config_dict.ConfigDict:
    """Every field of every section with its default; locked, so that a misspelt field is an error.

    Lengths are in tokens (or slots, where a length counts memory), rates are ratios, learning rates are per update.
    """
    config = config_dict.create(
        name='unnamed',
        data=_data_section(),
        model=_model_section(),
        training=_training_section(),
        eval=_eval_section(),
        sample=_sample_section(),
        mesh=config_dict.create(
            data=-1,  # devices along the batch; -1: all that fsdp and tensor leave
            fsdp=1,  # devices over which parameters and optimizer state are split
            tensor=1,  # devices over which heads and the mlp are split
        ),
    )
    return config.lock()


def optional_fields() -> dict[str, type]:
    """Dotted name -> type of every field that may be None."""
    base = base_config()
    return {name: field_type(base, name) for name, value in flatten(base).items() if value is None}


def field_type(config: config_dict.ConfigDict, name: str) -> type:
    """The type of a field, given its dotted name."""
    *sections, field = name.split('.')
    for section in sections:
        config = config[section]
    return config.get_type(field)


def _data_section() -> config_dict.ConfigDict:
    return config_dict.create(
        name='kjv',  # a corpus of memjax.data.corpora
        path=config_dict.placeholder(str),  # the source of a corpus that the user brings (`files`), or of any other
        # What a symbol is: bytes | txl (no newlines) | awd (newlines are <eos>) | characters | words | sentencepiece.
        convention='bytes',
        documents=config_dict.placeholder(str),  # what memory is cleared at: stream | articles | sentences; None: first
        sentencepiece_vocab_size=32_000,  # symbols learned from the training text, of sentencepiece
        min_word_count=config_dict.placeholder(int),  # rarer words are unknown; None: 3 in lm1b, else 1; of words
        subset=False,  # take a part of wikitext103, ptb or lm1b for what it is, and say so in results
        batch_size=16,  # B, rows over all hosts
        segment_length=128,  # T, n_s in the papers
        piece_length=config_dict.placeholder(int),  # training reads pieces of so many tokens in random order
        validation_fraction=0.05,  # `files` and `pile` without splits of their own: the share of bytes held out
        test_fraction=0.05,
    )


def _model_section() -> config_dict.ConfigDict:
    return config_dict.create(
        name='compressive',  # a model of memjax.models.factory
        vocab_size=256,
        num_layers=4,
        num_heads=4,
        head_dim=config_dict.placeholder(int),  # None: model_dim / num_heads
        model_dim=128,
        mlp_dim=512,
        activation='relu',  # relu | gelu
        norm='pre',  # pre | post: layer norm before or after a sublayer
        memory_length=128,  # n_m, in slots
        compressed_memory_length=128,  # n_cm, in slots
        compression_rate=4,  # c
        compression_rate_by_layer=(),  # c of each layer, instead of one for all
        higher_memory_lengths=(),  # slots of level 2, 3, ..: what level 1 drops, compressed further
        higher_compression_rates=(),  # how many slots of the level before become one of level 2, 3, ..
        compression='conv',  # conv | dilated_conv | mean | max | most_used | random
        compression_loss='attention',  # attention | auto_encoding | none (learned through the unroll)
        compression_loss_reduction='mean',  # mean | sum: the squared norm
        num_memory_tokens=0,  # of rmt, at each end of a segment
        compressed_positions='slots',  # slots | separate | time
        position_encoding='relative',  # relative | shaw | absolute
        largest_distance=config_dict.placeholder(int),  # of shaw: distances above it share one encoding
        clamp_length=config_dict.placeholder(int),  # distances above it share one encoding
        same_length=False,  # every query sees the same number of keys
        untie_r=False,  # u and v of each layer its own
        tie_embeddings=True,
        adaptive_cutoffs=(),  # token ids, in order of falling frequency, at which a band of rarer ones begins
        adaptive_div=1,  # by how much a band's embeddings are narrower than those of the band before
        embedding_dim=config_dict.placeholder(int),  # width of the first band's; None: model_dim
        tied_projections='all',  # all | all_but_first | none: bands whose softmax shares the embedding's projection
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        init_scale=0.02,  # standard deviation of the weights at the start
        dtype='float32',  # compute dtype: float32 | bfloat16 (parameters stay float32)
        remat=False,  # recompute a layer's activations in the backward pass
        layer_unroll=1,  # layers a turn of the scan over layers: more run faster on a CPU and compile longer
    )


def _training_section() -> config_dict.ConfigDict:
    return config_dict.create(
        num_steps=1000,  # only truncates the schedule
        warmup_steps=100,  # linear, from learning_rate_start to learning_rate
        decay_steps=1000,  # cosine, until this step, to learning_rate_end
        learning_rate=3e-4,
        learning_rate_start=1e-6,
        learning_rate_end=1e-6,
        gradient_clip=0.1,  # global norm, of the model's part
        compression_gradient_clip=0.1,  # global norm, of the compressor's part
        adam_b1=0.9,
        adam_b2=0.999,
        adam_eps=1e-8,
        half_loss=False,  # only the second half of each segment is trained on
        update_period=1,  # gradients accumulated per update once update_period_start steps are done
        update_period_start=0,
        segments_per_step=1,  # S, the unroll
        seed=0,
        log_every=50,
        eval_every=config_dict.placeholder(int),  # None: only at the end
        eval_segments=config_dict.placeholder(int),  # per row in a periodic validation; None: the whole split
        checkpoint_every=1000,
        checkpoints_to_keep=2,  # newest; the best of validation is kept besides
        init_from=config_dict.placeholder(str),  # workdir of another run whose parameters are the start
        branch_from=config_dict.placeholder(str),  # workdir of another run that this one goes on from, state and all
        branch_step=config_dict.placeholder(int),  # from which of its checkpoints; None: the newest
        figure=True,  # draw loss.png when the run ends
    )


def _eval_section() -> config_dict.ConfigDict:
    return config_dict.create(
        batch_size=config_dict.placeholder(int),
        segment_length=config_dict.placeholder(int),
        memory_length=config_dict.placeholder(int),
        compressed_memory_length=config_dict.placeholder(int),
        clamp_length=config_dict.placeholder(int),
        same_length=config_dict.placeholder(bool),
        window_stride=config_dict.placeholder(int),  # windows of a segment, moved by so much; None: segments and memory
        warmup=config_dict.placeholder(int),  # tokens read unscored before a row's part; None: the memory's span
        after_training=config_dict.placeholder(str),  # a split to evaluate when training ends
        compressors=(),  # to print beside the model: gzip | bzip2 | xz | xz_extreme | ppmd
    )


def _sample_section() -> config_dict.ConfigDict:
    return config_dict.create(
        after_training=False,
        prompt='',
        length=256,  # tokens
        temperature=1.0,
        top_k=config_dict.placeholder(int),
        top_p=0.98,
    )


def head_dim(model: config_dict.ConfigDict) -> int:
    """The width of one attention head."""
    return model.head_dim if model.head_dim is not None else model.model_dim // model.num_heads


def evaluation_config(config: config_dict.ConfigDict) -> config_dict.ConfigDict:
    """The same config with the data and model sections as evaluation uses them.

    Every field that `eval` shares with `data` or `model` and that is not None replaces the training one; parameters
    do not depend on any of them.
    """
    config = config.copy_and_resolve_references()
    for section in (config.data, config.model):
        for field in section:
            if field in config.eval and config.eval[field] is not None:
                section[field] = config.eval[field]
    return config


def flatten(config: config_dict.ConfigDict, prefix: str = '') -> dict[str, Any]:
    """`{'model.num_layers': 4, ..}`: every leaf under its dotted name."""
    leaves = {}
    for key in config:
        value = config[key]
        name = f'{prefix}{key}'
        if isinstance(value, config_dict.ConfigDict):
            leaves.update(flatten(value, f'{name}.'))
        else:
            leaves[name] = value
    return leaves


def to_json(config: config_dict.ConfigDict) -> str:
    """The config as JSON text."""
    return json.dumps(config.to_dict(), indent=2) + '\n'


def from_json(text: str) -> config_dict.ConfigDict:
    """A run's `config.json`, loaded into `base_config()`: absent fields take their default.

    Raises:
      ConfigError: not JSON, a field that does not exist, or a value of the wrong type.
    """
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f'config.json is not JSON: {error}') from error
    config = base_config()
    _load_into(config, values, 'config.json')
    return config


def from_file(path: os.PathLike | str) -> config_dict.ConfigDict:
    """The config that a Python file's `get_config()` returns, loaded into `base_config()`.

    Raises:
      ConfigError: no such file, not Python, no `get_config`, whatever goes wrong inside it, or a result that is not
        a config with the fields and types of `base_config()`.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise ConfigError(f'{path}: no such config file')
    loader = importlib.machinery.SourceFileLoader('memjax_config_file', path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    try:
        loader.exec_module(module)
        if not callable(getattr(module, 'get_config', None)):
            raise ConfigError(f'{path} has no function get_config()')
        values = module.get_config()
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(_what_failed(path, error)) from error
    if not isinstance(values, config_dict.ConfigDict):
        raise ConfigError(f'{path}: get_config() returned {type(values).__name__}, not the ConfigDict it should edit')
    config = base_config()
    _load_into(config, values.to_dict(), path)
    return config


def plain_partner(path: os.PathLike | str, name: str) -> config_dict.ConfigDict:
    """The Transformer-XL at a Compressive Transformer's cost of attention: all its slots are plain, n_m + n_cm of them.

    Args:
      path: of the Compressive Transformer's config file.
      name: of the partner.

    Raises:
      ConfigError: as for `from_file`.
    """
    config = from_file(path)
    lengths = evaluation_config(config).model
    if config.eval.memory_length is not None or config.eval.compressed_memory_length is not None:
        config.eval.memory_length = lengths.memory_length + lengths.compressed_memory_length
        config.eval.compressed_memory_length = None
    config.name, config.model.name = name, 'transformer_xl'
    config.model.memory_length += config.model.compressed_memory_length
    config.model.compressed_memory_length = 0
    return config


def _what_failed(path: str, error: BaseException) -> str:
    """Where in a config file it failed, and why."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if isinstance(error, SyntaxError):
        lines, error = [error.lineno], SyntaxError(error.msg)
    where = f'{path}, line {lines[-1]}' if lines and lines[-1] else path
    # A locked ConfigDict's own message lists every field that it has.
    unknown = re.search(r'Key "(\w+)" does not exist', str(error))
    if isinstance(error, AttributeError) and unknown:
        fields = [name.split('.')[-1] for name in flatten(base_config())]
        return f'{where}: unknown field {unknown[1]}{did_you_mean(unknown[1], fields)}'
    return f'{where}: {type(error).__name__}: {error}'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`'; did you mean X?'` for the known word nearest to this one, or nothing where none is near."""
    nearest = difflib.get_close_matches(word, list(known), n=1)
    return f'; did you mean {nearest[0]}?' if nearest else ''


def _load_into(config: config_dict.ConfigDict, values: Any, source: str, prefix: str = '') -> None:
    if not isinstance(values, dict):
        raise ConfigError(f'{source}: {prefix.rstrip(".") or "the whole"} is not an object of fields')
    for key, value in values.items():
        if key not in config:
            raise ConfigError(f'{source}: unknown field {prefix}{key}{did_you_mean(key, config)}')
        if isinstance(config[key], config_dict.ConfigDict):
            _load_into(config[key], value, source, f'{prefix}{key}.')
            continue
        try:
            config[key] = value  # a list becomes a tuple where the field is one
        except TypeError as error:
            expected = config.get_type(key).__name__
            raise ConfigError(f'{source}: {prefix}{key}={value!r} is not of type {expected}') from error


def differences_forbidden_on_resume(
    old: config_dict.ConfigDict, new: config_dict.ConfigDict
) -> dict[str, tuple[Any, Any]]:
    """Dotted name -> (old, new) of every field that differs and must not."""
    old_leaves, new_leaves = flatten(old), flatten(new)
    return {
        name: (old_leaves[name], new_leaves[name])
        for name in new_leaves
        if old_leaves[name] != new_leaves[name]
        and name not in RESUMABLE_FIELDS
        and name.split('.')[0] not in RESUMABLE_SECTIONS
    }
