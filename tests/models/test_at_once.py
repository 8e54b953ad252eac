"""Several segments read at once: the same as one after the other."""

import jax
import numpy as np
import pytest
from tiny_models import CT, ENCODED, RECURRENT, TXL, VOCAB, T, cut, each, model_of, text, tiny

from memjax.memory.parts import split
from memjax.models.contract import joined, parted

S = 8
STARTS = {(1, 1), (0, 2), (1, 5), (1, 6)}
# Memories that are no multiple of a segment, shorter than one, and none.
LENGTHS = [{'name': 'transformer_xl', 'memory_length': length} for length in (6, 3, 0)]
OTHER_FIELDS = [
    {'name': 'transformer_xl', 'same_length': True, 'memory_length': 7},
    {'name': 'transformer_xl', 'clamp_length': 5},
    {'name': 'transformer_xl', 'untie_r': True, 'memory_length': 10},
]


def grouped(segments, count):
    """Segments that are read one after the other, as groups that are read at once."""
    groups = joined(jax.tree.map(lambda *leaves: np.stack(leaves), *segments), count)
    return [jax.tree.map(lambda leaf, at=at: leaf[at], groups) for at in range(len(segments) // count)]


def cached(built, length):
    return built.model.apply({'params': built.params}, built.model.init_memory(2), length, method='cache')


@each([TXL[1], LENGTHS[0], ENCODED[2], OTHER_FIELDS[0]], [TXL[0], *LENGTHS[1:], *ENCODED[:2], *OTHER_FIELDS[1:]])
@pytest.mark.parametrize('count', [2, pytest.param(4, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)])
def test_equals_one_after_the_other(variant, count):
    built = tiny(**variant)
    segments = cut(text(2, S * T), starts=STARTS)
    expected, memory = built.read_text(segments, cached(built, T))
    logits, memory_at_once = built.read_text(grouped(segments, count), cached(built, count * T))
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(split(memory), split(memory_at_once), strict=True):
        (level,), (level_at_once,) = one.levels, other.levels
        np.testing.assert_array_equal(other.segments_B, one.segments_B)
        np.testing.assert_array_equal(level_at_once.count_B, level.count_B)
        valid_1xBx1xMx1 = np.asarray(level.valid_BxM())[None, :, None, :, None]
        for name in ('keys_LxBxHxMxK', 'values_LxBxHxMxK'):
            slots, slots_at_once = (getattr(each.slots_LxBxMxD, name) for each in (level, level_at_once))
            np.testing.assert_allclose(slots_at_once * valid_1xBx1xMx1, slots * valid_1xBx1xMx1, rtol=1e-5, atol=1e-5)


def test_later_tokens_and_other_documents_are_not_seen():
    built = tiny(**TXL[1])
    tokens = text(2, 4 * T)

    def logits(tokens):
        return built.read_text(grouped(cut(tokens, starts={(0, 2)}), 4), cached(built, 4 * T))[0]

    changed = tokens.copy()
    changed[:, T] = (changed[:, T] + 1) % VOCAB
    differs_BxN = np.abs(logits(changed) - logits(tokens)).max(axis=2) > 0
    assert not differs_BxN[:, :T].any() and differs_BxN[:, T].all()
    # The first row begins a document with its third segment; the second row goes on.
    assert not differs_BxN[0, 2 * T :].any() and differs_BxN[1, 2 * T :].any()


@pytest.mark.parametrize(
    ('fields', 'segment_length', 'count'),
    [
        ({'name': 'transformer_xl', 'memory_length': 2100}, 80, 2),
        ({'name': 'transformer_xl', 'memory_length': 2100}, 81, 1),
        ({'name': 'transformer_xl', 'memory_length': 2100}, 40, 4),
        ({'name': 'transformer_xl', 'memory_length': 2100}, 30, 4),
        ({'name': 'transformer_xl', 'memory_length': 2100}, 512, 1),
        # Not more for nothing than half of memory.
        ({'name': 'transformer_xl', 'memory_length': 160}, 80, 2),
        ({'name': 'transformer_xl', 'memory_length': 158}, 80, 1),
        ({'name': 'transformer_xl', 'memory_length': 0}, 80, 1),
        ({'name': 'compressive', 'memory_length': 2100}, 70, 1),
        ({'name': 'rmt', 'memory_length': 2100, 'num_memory_tokens': 2}, 40, 1),
        ({'name': 'lstm'}, 40, 1),
    ],
)
def test_how_many(fields, segment_length, count):
    assert model_of(**fields).segments_at_once(segment_length) == count


@each([CT[4], *RECURRENT[:2]])
def test_is_refused_where_a_segment_needs_what_the_one_before_made(variant):
    built = tiny(**variant)
    with pytest.raises(ValueError, match='one segment after the other'):
        built.read_text(grouped(cut(text(2, 2 * T)), 2), cached(built, 2 * T))


def test_is_refused_with_a_memory_of_states_and_with_what_is_sown():
    built = tiny(**TXL[1])
    (group,) = grouped(cut(text(2, 2 * T)), 2)
    with pytest.raises(ValueError, match='at once take a cached memory'):
        built.read_text([group])
    with pytest.raises(ValueError, match='cannot be read with others'):
        built.model.apply({'params': built.params}, group, cached(built, 2 * T), mutable=['intermediates'])


@each([TXL[1], ENCODED[1], CT[4]])
@pytest.mark.parametrize('length', [T // 2, 2 * T])
def test_a_memory_that_was_cached_for_another_length_is_refused(variant, length):
    built = tiny(**variant)
    with pytest.raises(ValueError, match='another length'):
        built.read_text(cut(text(2, T)), cached(built, length))
    with pytest.raises(ValueError, match='another length'):
        built.open(cached(built, length), T)


@pytest.mark.parametrize('count', [1, 2, 3])
def test_what_is_joined_is_parted_again(count):
    segments = jax.tree.map(lambda *leaves: np.stack(leaves), *cut(text(2, 6 * T), starts=STARTS))
    groups = joined(segments, count)
    assert groups.inputs_BxT.shape == (6 // count, 2, count * T)
    np.testing.assert_array_equal(groups.inputs_BxT[0, 1, :T], segments.inputs_BxT[0, 1])
    np.testing.assert_array_equal(parted(groups.targets_BxT, count), segments.targets_BxT)
    pairs = np.stack([groups.inputs_BxT, groups.targets_BxT], axis=-1)
    np.testing.assert_array_equal(parted(pairs, count)[..., 1], segments.targets_BxT)
    starts = groups.start_B if count > 1 else groups.start_B[..., None]
    np.testing.assert_array_equal(starts[0, :, 0], segments.start_B[0])
