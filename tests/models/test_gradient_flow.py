"""Which loss moves which parameters, over several segments of one step (Compressive Transformer, section 3.2)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import CT, CT_FEW, CT_MORE, CT_OTHERS, TXL, T, cut, each, stacked, text, tiny

from memjax.memory import fifo

ROWS, SEGMENTS = 2, 5


def full_memory(model) -> fifo.Memory:
    """Random states in every slot, so that a gradient into them would show."""
    rng = np.random.default_rng(3)

    def fill(level: fifo.Fifo) -> fifo.Fifo:
        slots = jnp.asarray(rng.normal(size=level.slots_LxBxMxD.shape), jnp.float32)
        return level.replace(slots_LxBxMxD=slots, count_B=jnp.full_like(level.count_B, level.length))

    memory = model.init_memory(ROWS)
    return memory.replace(levels=tuple(fill(level) for level in memory.levels))


def continuing(num_segments: int):
    """Segments in the middle of a document."""
    segments = cut(text(ROWS, num_segments * T))
    return [segment.replace(start_B=jnp.zeros(ROWS, bool)) for segment in segments]


@functools.cache
def gradients(num_segments: int = SEGMENTS, **overrides):
    """Of the language-model loss, of the auxiliary loss and of their sum: to parameters, to the slots at the start."""
    built = tiny(**overrides)
    start = full_memory(built.model)

    def losses(params, slots):
        levels = [level.replace(slots_LxBxMxD=new) for level, new in zip(start.levels, slots, strict=True)]

        def body(memory, segment):
            output, memory = built.train(params, segment, memory)
            return memory, (output.nll_BxT.mean(), output.aux.get('compression_loss', 0.0))

        _, (nll, auxiliary) = jax.lax.scan(body, start.replace(levels=tuple(levels)), stacked(continuing(num_segments)))
        return jnp.stack([nll.sum(), auxiliary.sum(), nll.sum() + auxiliary.sum()])

    slots = tuple(level.slots_LxBxMxD for level in start.levels)
    to_params, to_slots = jax.jit(jax.jacrev(losses, argnums=(0, 1)))(built.params, slots)
    return [jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), (to_params, to_slots)) for i in range(3)]


def split(params: dict) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Leaves of the compressors, and all others."""
    parts = ([], [])
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        parts[0 if 'compressor' in jax.tree_util.keystr(path) else 1].append(leaf)
    return parts


def is_zero(leaves) -> bool:
    return all((leaf == 0).all() for leaf in jax.tree.leaves(leaves))


def reaches_every_layer(leaves: list[np.ndarray]) -> bool:
    return bool(leaves) and all((leaf != 0).any(axis=tuple(range(1, leaf.ndim))).all() for leaf in leaves)


@each(TXL[1:], TXL[:1])
def test_no_gradient_enters_the_memory_of_transformer_xl(variant):
    (to_params, to_slots), _, _ = gradients(**variant)
    assert is_zero(to_slots)
    assert all((leaf != 0).any() for leaf in jax.tree.leaves(to_params))


@each([CT_FEW[2], CT_MORE[1]], [*CT_FEW[:2], *CT_OTHERS, CT_MORE[3]])
def test_the_auxiliary_loss_moves_the_compressor_and_nothing_else(variant):
    _, (to_params, to_slots), _ = gradients(**variant)
    compressor, model = split(to_params)
    assert reaches_every_layer(compressor)
    assert is_zero(model)
    assert is_zero(to_slots)


@each([CT_FEW[2], CT_MORE[1]], [*CT_FEW[:2], *CT_OTHERS, CT_MORE[3]])
def test_the_language_model_loss_moves_everything_but_the_compressor(variant):
    (to_params, to_slots), _, _ = gradients(**variant)
    compressor, model = split(to_params)
    assert is_zero(compressor)
    assert all((leaf != 0).any() for leaf in model)
    assert is_zero(to_slots)


@each([CT_FEW[2], CT_MORE[1]], [*CT_FEW[:2], *CT_OTHERS, CT_MORE[3]])
def test_the_sum_of_both_losses_moves_each_part_by_its_own(variant):
    (to_nll, _), (to_auxiliary, _), (to_sum, _) = gradients(**variant)
    for ours, own in zip(split(to_sum)[0], split(to_auxiliary)[0], strict=True):
        np.testing.assert_array_equal(ours, own)
    for ours, own in zip(split(to_sum)[1], split(to_nll)[1], strict=True):
        np.testing.assert_array_equal(ours, own)


def test_without_an_auxiliary_loss_the_unroll_moves_the_compressor():
    (to_params, to_slots), auxiliary, _ = gradients(**CT[0], compression_loss='none')
    compressor, model = split(to_params)
    assert reaches_every_layer(compressor)
    assert all((leaf != 0).any() for leaf in model)
    newest, compressed = to_slots
    assert is_zero(newest)
    assert (compressed != 0).any()
    assert is_zero(auxiliary)


@pytest.mark.slow
def test_without_an_auxiliary_loss_one_segment_alone_cannot_move_the_compressor():
    (to_params, _), _, _ = gradients(1, **CT[0], compression_loss='none')
    assert is_zero(split(to_params)[0])


@pytest.mark.parametrize('compression', ['mean', 'max'])
def test_pooling_has_no_parameters(compression):
    compressor, model = split(tiny(**CT[0], compression=compression).params)
    assert not compressor
    assert jax.tree.structure(tiny(**TXL[0]).params).num_leaves == len(model)
