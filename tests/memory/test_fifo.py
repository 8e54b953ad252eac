"""The queues against lists of token indices that a reader can follow."""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax.memory import fifo

LAYERS, ROWS = 2, 3
push = jax.jit(fifo.push)
forget = jax.jit(fifo.forget)


class Setting(NamedTuple):
    segment: int
    lengths: tuple[int, ...]  # slots of each level
    rates: tuple[int, ...]  # of compression into level 1, 2, ..


LEVEL_ZERO_ALONE = [
    Setting(4, (8,), ()),
    Setting(4, (6,), ()),  # not a multiple of the segment
    Setting(4, (3,), ()),  # shorter than the segment
    Setting(4, (0,), ()),
    Setting(1, (3,), ()),
]
COMPRESSED = [
    Setting(4, (8, 6), (2,)),
    Setting(4, (4, 3), (2,)),  # a level whose length is not a multiple of what enters it
    Setting(4, (8, 1), (2,)),  # shorter than what enters it
    Setting(4, (4, 0), (2,)),
    Setting(4, (4, 8), (1,)),
    Setting(6, (6, 5), (3,)),
]
TWICE_COMPRESSED = [
    Setting(4, (8, 4, 3), (2, 2)),
    Setting(8, (8, 4, 2), (4, 2)),
    Setting(6, (6, 4, 3), (3, 1)),
]


class Slot(NamedTuple):
    """What one slot stands for."""

    tokens: tuple[int, ...]

    @property
    def mean(self) -> float:
        return sum(self.tokens) / len(self.tokens)


def pooled(block: list[Slot], rate: int) -> list[Slot]:
    return [
        Slot(tuple(itertools.chain(*(slot.tokens for slot in block[first : first + rate]))))
        for first in range(0, len(block), rate)
    ]


class ListRow:
    """One row's memory as lists, oldest slot first."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.levels: list[list[Slot]] = [[] for _ in setting.lengths]

    def forget(self) -> None:
        self.levels = [[] for _ in self.levels]

    def push(self, tokens: list[int], keep: bool) -> None:
        entering = [Slot((token,)) for token in tokens]
        for index, (level, length) in enumerate(zip(self.levels, self.setting.lengths, strict=True)):
            leaving = level[: len(entering)] if len(level) == length else []
            level.extend(entering)
            del level[: max(0, len(level) - length)]
            if not leaving or index == len(self.levels) - 1:
                return
            if index == 0 and not keep:
                return
            entering = pooled(leaving, self.setting.rates[index])


def candidates_of(memory: fifo.Memory, setting: Setting) -> tuple[fifo.Candidate, ...]:
    """The means of each level's oldest block, with their ages, as a core would make them."""
    made = []
    block_length = setting.segment
    for level, rate in zip(memory.levels[:-1], setting.rates, strict=True):
        block = level.slots_LxBxMxD[:, :, :block_length]
        slots = block.reshape(LAYERS, ROWS, -1, rate, block.shape[-1]).mean(axis=3)
        if level.ages_LxBxM is None:
            ages = jnp.broadcast_to(fifo.block_ages(level.length, block_length), (LAYERS, ROWS, block_length))
        else:
            ages = level.ages_LxBxM[:, :, :block_length]
        made.append(fifo.Candidate(slots, fifo.pooled_ages(ages, rate)))
        block_length //= rate
    return tuple(made)


@functools.cache
def compiled_step(setting: Setting):
    def step(memory, tokens_BxT, start_B, keep_B):
        memory = fifo.forget(memory, start_B)
        layer_L = jnp.arange(LAYERS, dtype=jnp.float32)[:, None, None]
        # A state tells its token and its layer.
        states_LxBxTxD = jnp.stack(jnp.broadcast_arrays(tokens_BxT.astype(jnp.float32), layer_L), axis=-1)
        return fifo.push(memory, states_LxBxTxD, candidates_of(memory, setting), keep_B)

    return jax.jit(step)


def check(memory: fifo.Memory, rows: list[ListRow], now: int) -> None:
    """Every level of every row equals its list; ages count from token `now`, the next to be read."""
    for index, level in enumerate(memory.levels):
        slots, counts = np.asarray(level.slots_LxBxMxD), np.asarray(level.count_B)
        assert counts.dtype == np.int32
        for row, model in enumerate(rows):
            expected = model.levels[index]
            assert counts[row] == len(expected)
            valid = np.asarray(level.valid_BxM())[row]
            assert valid.tolist() == [False] * (level.length - len(expected)) + [True] * len(expected)
            for layer in range(LAYERS):
                held = slots[layer, row][level.length - len(expected) :]
                assert held[:, 0].tolist() == [slot.mean for slot in expected]
                assert (held[:, 1] == layer).all()
                if index:
                    ages = np.asarray(level.ages_LxBxM)[layer, row][level.length - len(expected) :]
                    assert ages.tolist() == [2 * (now - slot.mean) for slot in expected]


def run(setting: Setting, starts: np.ndarray, keeps: np.ndarray) -> None:
    memory = fifo.empty_memory(LAYERS, ROWS, setting.lengths, 2, jnp.float32)
    rows = [ListRow(setting) for _ in range(ROWS)]
    step = compiled_step(setting)
    for index, (start_B, keep_B) in enumerate(zip(starts, keeps, strict=True)):
        first = index * setting.segment
        tokens = list(range(first, first + setting.segment))
        memory = step(memory, jnp.asarray([tokens] * ROWS), start_B, keep_B)
        for row, model in enumerate(rows):
            if start_B[row]:
                model.forget()
            model.push(tokens, bool(keep_B[row]))
        check(memory, rows, first + setting.segment)


@st.composite
def histories(draw) -> tuple[np.ndarray, np.ndarray]:
    """Starts and keeps, segments x rows. Starts are rare, or no level would ever be full."""
    num_segments = draw(st.integers(1, 16))
    places = st.tuples(st.integers(0, num_segments - 1), st.integers(0, ROWS - 1))
    starts, discards = np.zeros((2, num_segments, ROWS), bool)
    for place in draw(st.sets(places, max_size=3)):
        starts[place] = True
    for place in draw(st.sets(places, max_size=12)):
        discards[place] = True
    return starts, ~discards


@settings(max_examples=40, deadline=None)
@given(history=histories(), setting=st.sampled_from(LEVEL_ZERO_ALONE + COMPRESSED + TWICE_COMPRESSED))
def test_queues_equal_lists_under_any_starts_and_discards(history, setting):
    run(setting, *history)


@pytest.mark.parametrize('setting', TWICE_COMPRESSED, ids=str)
def test_what_is_discarded_pushes_nothing_into_the_level_after(setting):
    keeps = np.ones((14, ROWS), bool)
    keeps[7:9, 0] = keeps[10, 1] = False
    run(setting, np.zeros((14, ROWS), bool), keeps)


@pytest.mark.parametrize('setting', LEVEL_ZERO_ALONE + COMPRESSED + TWICE_COMPRESSED, ids=str)
def test_queues_equal_lists_when_everything_is_kept_until_all_levels_overflow(setting):
    starts = np.zeros((16, ROWS), bool)
    starts[9, 1] = True
    run(setting, starts, np.ones((16, ROWS), bool))


def test_keeping_all_is_the_default():
    memory = fifo.empty_memory(1, 2, (2, 2), 1, jnp.float32)
    candidate = fifo.Candidate(jnp.ones((1, 2, 1, 1)), jnp.ones((1, 2, 1), jnp.int32))
    for _ in range(2):
        memory = push(memory, jnp.ones((1, 2, 2, 1)), (candidate,))
    assert memory.levels[1].count_B.tolist() == [1, 1]
    kept = push(memory, jnp.ones((1, 2, 2, 1)), (candidate,), jnp.array([True, False]))
    assert kept.levels[1].count_B.tolist() == [2, 1]


def test_forgetting_a_row_leaves_the_others_as_they_are():
    memory = fifo.empty_memory(LAYERS, ROWS, (4,), 2, jnp.float32)
    memory = push(memory, jnp.ones((LAYERS, ROWS, 3, 2)))
    assert forget(memory, jnp.array([False, True, False])).levels[0].count_B.tolist() == [3, 0, 3]


def test_states_are_kept_in_the_dtype_of_the_memory():
    memory = fifo.empty_memory(1, 1, (4,), 2, jnp.bfloat16)
    pushed = push(memory, jnp.full((1, 1, 2, 2), 1.0 + 2**-12, jnp.float32))
    assert pushed.levels[0].slots_LxBxMxD.dtype == jnp.bfloat16


@pytest.mark.parametrize('lengths, given_candidates', [((2,), 1), ((2, 2), 0), ((2, 2, 2), 1)])
def test_a_candidate_too_many_or_too_few_is_refused(lengths, given_candidates):
    memory = fifo.empty_memory(1, 1, lengths, 1, jnp.float32)
    candidate = fifo.Candidate(jnp.ones((1, 1, 1, 1)), jnp.ones((1, 1, 1), jnp.int32))
    with pytest.raises(ValueError, match=f'need {len(lengths) - 1} candidates, not {given_candidates}'):
        fifo.push(memory, jnp.ones((1, 1, 2, 1)), (candidate,) * given_candidates)


def test_ages_are_doubled_distances_from_the_next_segments_first_token():
    assert fifo.block_ages(8, 4).tolist() == [16, 14, 12, 10]
    assert fifo.pooled_ages(fifo.block_ages(8, 4), 2).tolist() == [15, 11]  # mean ages 7.5 and 5.5
    assert fifo.pooled_ages(fifo.pooled_ages(fifo.block_ages(8, 4), 2), 2).tolist() == [13]  # mean age 6.5
