"""What a config is refused for, before any JAX runs."""

import pytest

from memjax.config import base_config, flatten
from memjax.config_checks import CHOICES, READ_FOR, RULES, SPLITS, check
from memjax.errors import ConfigError


def changed(**values):
    """The base config with fields set by their dotted names, `__` for the dot."""
    config = base_config()
    for name, value in values.items():
        section, _, field = name.rpartition('__')
        (config[section] if section else config)[field] = value
    return config


def complaint(**values) -> str:
    with pytest.raises(ConfigError) as error:
        check(changed(**values))
    assert '\n' not in str(error.value)
    return str(error.value)


def test_the_base_config_passes():
    check(base_config())


@pytest.mark.parametrize(
    ('field', 'value', 'must'),
    [
        ('model__num_heads', 0, 'be at least 1'),
        ('model__num_layers', 0, 'be at least 1'),
        ('model__vocab_size', 0, 'be at least 1'),
        ('model__head_dim', 0, 'be at least 1'),
        ('model__compression_rate', 0, 'be at least 1'),
        ('data__batch_size', 0, 'be at least 1'),
        ('data__segment_length', -128, 'be at least 1'),
        ('training__update_period', 0, 'be at least 1'),
        ('training__num_steps', 0, 'be at least 1'),
        ('training__checkpoints_to_keep', 0, 'be at least 1'),
        ('eval__batch_size', 0, 'be at least 1'),
        ('sample__top_k', 0, 'be at least 1'),
        ('mesh__tensor', 0, 'be at least 1'),
        ('model__memory_length', -1, 'not be negative'),
        ('model__compressed_memory_length', -128, 'not be negative'),
        ('eval__memory_length', -128, 'not be negative'),
        ('eval__warmup', -1, 'not be negative'),
        ('training__seed', -1, 'not be negative'),
        ('training__learning_rate', 0.0, 'be above 0'),
        ('training__gradient_clip', -0.1, 'be above 0'),
        ('sample__temperature', 0.0, 'be above 0'),
        ('model__dropout_rate', 1.0, 'be at least 0 and below 1'),
        ('model__attention_dropout_rate', -0.1, 'be at least 0 and below 1'),
        ('data__test_fraction', 1.5, 'be at least 0 and below 1'),
        ('sample__top_p', 0.0, 'be above 0 and at most 1'),
        ('sample__top_p', 1.1, 'be above 0 and at most 1'),
        ('model__model_dim', 129, 'be even'),
        ('mesh__data', 0, 'be -1 or at least 1'),
        ('name', 'a/b', 'be letters'),
        ('name', '', 'be letters'),
        ('training__learning_rate', float('nan'), 'be finite'),
        ('model__init_scale', float('inf'), 'be finite'),
        ('model__num_layers', None, 'not be None'),
        ('model__num_layers', True, 'be of type int'),
    ],
)
def test_a_value_out_of_range_is_refused_by_name_and_value(field, value, must):
    message = complaint(**{field: value})
    assert message.startswith(field.replace('__', '.'))
    assert str(value) in message
    assert f'must {must}' in message


@pytest.mark.parametrize(
    ('field', 'value', 'nearest'),
    [
        ('model__name', 'compresive', 'compressive'),
        ('model__name', 'transformer-xl', 'transformer_xl'),
        ('model__compression', 'con', 'conv'),
        ('model__compression_loss', 'atention', 'attention'),
        ('model__compressed_positions', 'slot', 'slots'),
        ('model__activation', 'rely', 'relu'),
        ('model__norm', 'pree', 'pre'),
        ('model__dtype', 'float16', 'bfloat16'),
        ('data__convention', 'byte', 'bytes'),
        ('eval__after_training', 'tests', 'test'),
        ('eval__compressors', ('gzip', 'xzz'), 'xz'),
    ],
)
def test_an_unknown_choice_names_the_choices_and_the_nearest(field, value, nearest):
    message = complaint(**{field: value})
    name = field.replace('__', '.')
    assert message.startswith(f'{name}=')
    assert ', '.join(CHOICES[name]) in message
    assert message.endswith(f'did you mean {nearest}?')


def test_heads_must_divide_the_model_unless_their_width_is_set():
    assert 'model.model_dim=128 does not divide by model.num_heads=3' in complaint(model__num_heads=3)
    check(changed(model__num_heads=3, model__head_dim=50))


def test_blocks_must_be_whole_where_something_is_compressed():
    assert complaint(model__memory_length=200) == (
        'model.memory_length=200 does not divide by data.segment_length=128, the block that gets compressed'
    )
    assert complaint(model__compression_rate=3) == (
        'data.segment_length=128 does not divide by model.compression_rate=3'
    )
    assert complaint(model__memory_length=64).startswith('model.memory_length=64 must be at least')
    assert complaint(model__memory_length=0).startswith('model.memory_length=0 must be at least')
    check(changed(model__memory_length=256, model__compressed_memory_length=100))


def test_blocks_must_be_whole_in_evaluation_too():
    assert complaint(eval__memory_length=200).startswith(
        'eval.memory_length=200 does not divide by data.segment_length=128'
    )
    assert complaint(eval__segment_length=96).startswith(
        'model.memory_length=128 does not divide by eval.segment_length=96'
    )
    assert complaint(eval__segment_length=2) == 'eval.segment_length=2 does not divide by model.compression_rate=4'
    check(changed(eval__segment_length=64, eval__memory_length=64, eval__compressed_memory_length=1000))


def test_rates_by_layer_are_one_a_layer_and_divide():
    check(changed(model__compression_rate_by_layer=(1, 2, 4, 8), model__compression_rate=3))
    assert complaint(model__compression_rate_by_layer=(2, 4)) == (
        'model.compression_rate_by_layer=(2, 4) must name a rate for each of model.num_layers=4'
    )
    assert complaint(model__compression_rate_by_layer=(2, 4, 3, 2)).endswith(
        'does not divide by model.compression_rate_by_layer=(2, 4, 3, 2)'
    )
    for wrong in ((2, 0, 2, 2), (2.0, 2.0, 2.0, 2.0), ('2', '2', '2', '2')):
        assert 'must be whole numbers of at least 1' in complaint(model__compression_rate_by_layer=wrong)


def test_levels_are_whole_blocks_that_their_rates_divide():
    def two(lengths, rates, **values):
        return {'model__higher_memory_lengths': lengths, 'model__higher_compression_rates': rates, **values}

    check(changed(**two((8, 3), (8, 4), model__compressed_memory_length=64)))
    assert complaint(**two((8,), (3,))) == (
        'a block of 32 in level 1 does not divide by model.higher_compression_rates=(3,)'
    )
    assert complaint(**two((6, 3), (8, 4))).startswith('level 2 has 6 slots, not a whole number of blocks of 4, and')
    assert complaint(**two((8,), (4,), eval__compressed_memory_length=40)).startswith('level 1 has 40 slots')
    assert 'needs as many rates' in complaint(**two((8, 8), (4,)))
    plain = {'model__name': 'transformer_xl', 'model__compressed_memory_length': 0}
    assert complaint(**plain, **two((8,), (4,))).startswith('model.higher_memory_lengths=(8,) means nothing')


def test_encodings_other_than_the_papers_have_one_way_to_count_slots():
    check(changed(model__position_encoding='shaw', model__largest_distance=300))
    message = complaint(model__position_encoding='absolute', model__untie_r=True)
    assert message == 'model.untie_r=True with model.position_encoding=absolute: it has no u and v'
    assert complaint(model__position_encoding='shaw').startswith('model.largest_distance=None with')
    assert complaint(model__largest_distance=300).endswith('shaw needs it, the others have none')
    message = complaint(model__position_encoding='absolute', model__compressed_positions='time')
    assert message == 'model.compressed_positions=time needs model.position_encoding=relative, not absolute'


def test_windows_move_by_no_more_than_their_length():
    vanilla = {'model__name': 'transformer_xl', 'model__memory_length': 0, 'model__compressed_memory_length': 0}
    check(changed(**vanilla, eval__window_stride=128))
    message = complaint(**vanilla, eval__window_stride=129)
    assert message == 'eval.window_stride=129 must not be above data.segment_length=128'
    message = complaint(**vanilla, eval__window_stride=65, eval__segment_length=64)
    assert message == 'eval.window_stride=65 must not be above eval.segment_length=64'
    message = complaint(**vanilla, eval__window_stride=1, eval__warmup=5)
    assert message == 'eval.warmup=5 means nothing to windows (eval.window_stride=1)'


def test_windows_are_for_models_without_memory():
    plain = {'model__name': 'transformer_xl', 'model__compressed_memory_length': 0, 'eval__window_stride': 1}
    check(changed(**plain, eval__memory_length=0))
    assert complaint(**plain).endswith('with eval.memory_length=0')
    assert complaint(eval__window_stride=1).endswith('with eval.memory_length=0')
    assert complaint(**plain | {'model__name': 'lstm'}).endswith('with eval.memory_length=0')


def test_pieces_are_whole_segments():
    check(changed(data__piece_length=1280))
    assert complaint(data__piece_length=100) == ('data.piece_length=100 does not divide by data.segment_length=128')


def test_what_a_model_does_not_read_cannot_be_set_for_it():
    plain = {'model__name': 'transformer_xl', 'model__compressed_memory_length': 0}
    for field, value in (('compression_rate_by_layer', (1, 2)), ('compressed_positions', 'time')):
        message = complaint(**plain, **{f'model__{field}': value})
        assert message == f'model.{field}={value!r} means nothing to model.name=transformer_xl'
    lstm = {**plain, 'model__name': 'lstm'}
    without_attention = (('remat', True), ('untie_r', True), ('clamp_length', 5), ('position_encoding', 'absolute'))
    for field, value in (*without_attention, ('compression', 'most_used'), ('compression_loss', 'none')):
        assert complaint(**lstm, **{f'model__{field}': value}).endswith('means nothing to model.name=lstm')
    for field, value in (('memory_length', 512), ('clamp_length', 5), ('same_length', True)):
        message = complaint(**lstm, **{f'eval__{field}': value})
        assert message == f'eval.{field}={value} means nothing to model.name=lstm'
    check(changed(**lstm, model__memory_length=512))  # every config has one
    check(changed(**lstm, model__model_dim=130, model__num_heads=4))  # it has no heads


def test_bands_rise_below_the_vocabulary_and_have_a_width():
    check(changed(model__adaptive_cutoffs=(20, 200), model__adaptive_div=4))
    assert complaint(model__adaptive_cutoffs=(20, 256)) == (
        'model.adaptive_cutoffs=(20, 256) must be below model.vocab_size=256: a band would be empty'
    )
    assert complaint(model__adaptive_cutoffs=(20, 20)).endswith('must rise')
    assert 'must be whole numbers' in complaint(model__adaptive_cutoffs=(0, 20))
    assert complaint(model__adaptive_cutoffs=(20, 200), model__adaptive_div=16).startswith(
        'model.adaptive_div=16 leaves'
    )
    assert 'there is one band' in complaint(model__adaptive_div=2)


def test_memory_tokens_are_for_rmt():
    plain = {'model__compressed_memory_length': 0}
    rmt = {**plain, 'model__name': 'rmt', 'model__num_memory_tokens': 10}
    check(changed(**rmt, training__segments_per_step=2))
    assert complaint(**rmt).startswith('training.segments_per_step=1 with model.name=rmt leaves what is written')
    message = complaint(**rmt, training__segments_per_step=2, eval__same_length=True)
    assert message == 'eval.same_length=True would hide the memory tokens of model.name=rmt'
    check(changed(**plain, model__name='lstm'))
    assert complaint(**plain, model__name='rmt', training__segments_per_step=2).endswith(
        'with model.name=rmt: rmt alone has some'
    )
    assert complaint(model__num_memory_tokens=3).startswith('model.num_memory_tokens=3 with model.name=compressive')
    assert complaint(model__name='lstm').startswith('model.compressed_memory_length=128 means nothing to')


def test_a_compressor_that_nothing_would_train_is_refused():
    alone = {'model__compression_loss': 'none', 'training__segments_per_step': 1}
    for compression in ('conv', 'dilated_conv'):
        message = complaint(**alone, model__compression=compression)
        assert message.startswith('training.segments_per_step=1 with model.compression_loss=none leaves')
    check(changed(**alone, model__compression='mean'))
    check(changed(model__compression_loss='none', training__segments_per_step=2))
    assert complaint(model__compression_loss='auto_encoding', model__compression='most_used').endswith(
        'model.compression=most_used has no parameters'
    )


def test_transformer_xl_takes_any_memory_length_and_no_compressed_memory():
    plain = {'model__name': 'transformer_xl', 'model__compressed_memory_length': 0}
    check(changed(**plain, model__memory_length=77, eval__memory_length=0, model__compression_rate=3))
    assert complaint(model__name='transformer_xl').startswith('model.compressed_memory_length=128 means nothing')
    assert complaint(**plain, eval__compressed_memory_length=8).startswith('eval.compressed_memory_length=8 means')


def test_same_length_needs_a_memory():
    plain = {'model__name': 'transformer_xl', 'model__compressed_memory_length': 0}
    message = complaint(**plain, model__same_length=True, model__memory_length=0)
    assert message == 'model.same_length=True needs a memory, and model.memory_length=0'
    message = complaint(**plain, eval__same_length=True, eval__memory_length=0)
    assert message == 'eval.same_length=True needs a memory, and eval.memory_length=0'
    check(changed(**plain, model__same_length=True, model__memory_length=1))


def test_warmup_ends_before_the_decay_does():
    assert complaint(training__warmup_steps=1001).startswith('training.warmup_steps=1001 must not be above')
    check(changed(training__warmup_steps=1000))
    check(changed(training__num_steps=5))  # only truncates the schedule


def test_something_is_left_to_train_on():
    assert 'leave nothing to train on' in complaint(data__validation_fraction=0.5, data__test_fraction=0.5)


def test_the_tables_name_fields_that_exist():
    named = {name for rule in RULES for name in rule.fields} | set(CHOICES)
    assert named <= set(flatten(base_config()))


def test_every_number_has_a_rule():
    ruled = {name for rule in RULES for name in rule.fields}
    numbers = {
        name
        for name, value in flatten(base_config()).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    assert numbers <= ruled


def test_the_choices_are_what_models_and_data_offer():
    from memjax.data.corpora import CORPORA
    from memjax.data.sources import SPLITS as PREPARED_SPLITS
    from memjax.models.factory import CORES
    from memjax.nn.attention import ENCODINGS, SCHEMES

    assert set(CHOICES['model.name']) == set(CORES)
    assert set(CHOICES['model.compressed_positions']) == set(SCHEMES)
    assert set(CHOICES['model.position_encoding']) == set(ENCODINGS)
    assert set(CHOICES['data.convention']) == {word for spec in CORPORA.values() for word in spec.conventions}
    assert SPLITS == PREPARED_SPLITS
    choosing = {name: spec for name, spec in CORPORA.items() if len(spec.splitters) > 1}
    assert set(CHOICES['data.documents']) == {word for spec in choosing.values() for word in spec.splitters}
    assert set(READ_FOR['documents'][1]) == set(choosing)


def test_fields_of_another_corpus_or_convention_are_refused():
    for fields in (
        {'documents': 'articles'},
        {'subset': True, 'name': 'pg19'},
        {'sentencepiece_vocab_size': 1000, 'convention': 'words', 'name': 'ptb'},
        {'min_word_count': 3},
    ):
        name = next(iter(fields))
        message = complaint(**{f'data__{field}': value for field, value in fields.items()})
        assert message.startswith(f'data.{name}={fields[name]!r} means nothing to data.')
    check(changed(data__name='lm1b', data__convention='words', data__documents='stream', data__min_word_count=5))
    check(changed(data__convention='sentencepiece', data__sentencepiece_vocab_size=1000))


def test_what_would_fail_only_at_the_end_is_refused_at_the_start():
    assert "sample.prompt=''" in complaint(sample__after_training=True)
    check(changed(sample__after_training=True, sample__prompt='In'))
    assert "data.convention='txl'" in complaint(data__convention='txl', eval__compressors=('gzip',))
    check(changed(eval__compressors=('gzip',)))
