"""Sinusoids, the relative shift and gathered distances against formulas and explicit loops."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.nn import positions
from memjax.nn.attention import PositionTables, RelativeAttention, position_tables

B, H, K = 2, 3, 4
# Compiled as wholes: one by one, their operations would take longer to compile than to test.
sinusoid = jax.jit(positions.sinusoid, static_argnums=(1, 2))
distance_parts = jax.jit(positions.distance_scores)
gathered_scores = jax.jit(positions.gathered_scores)
tables_of = jax.jit(position_tables, static_argnums=range(7))


def distance_scores(q, table) -> jax.Array:
    """Memory's and the segment's, side by side."""
    past, own = distance_parts(q, table)
    assert own.shape[-1] == q.shape[2]
    return jnp.concatenate([past, own], axis=-1)


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def formula(distance: float, model_dim: int) -> list[float]:
    angles = [distance / 10_000 ** (2 * i / model_dim) for i in range(model_dim // 2)]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


def test_sinusoids_are_sines_then_cosines():
    distances = [0, 1, 2.5, 17, 300]
    expected = [formula(distance, 8) for distance in distances]
    np.testing.assert_allclose(sinusoid(jnp.array(distances), 8), expected, atol=1e-4)
    assert sinusoid(jnp.array([0]), 8).tolist() == [[0.0] * 4 + [1.0] * 4]


def test_sinusoids_are_float32_and_exact_enough_far_away():
    distances = np.arange(99_900, 100_000)
    table = sinusoid(jnp.asarray(distances), 8)
    assert table.dtype == jnp.float32
    np.testing.assert_allclose(table, [formula(distance, 8) for distance in distances], atol=0.02)


def test_clamped_distances_share_one_encoding():
    table = np.asarray(sinusoid(jnp.arange(10), 8, 6))
    np.testing.assert_array_equal(table[:7], sinusoid(jnp.arange(7), 8))
    for row in table[7:]:
        np.testing.assert_array_equal(row, table[6])


def test_rows_of_a_table_are_the_farthest_distance_first():
    assert positions.descending_distances(4).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize('start', [0, 100_000])
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16'])
def test_no_two_of_4000_positions_collide_in_any_compute_dtype(dtype, start):
    table = sinusoid(start + positions.descending_distances(4000), 64)
    attention = RelativeAttention(
        num_heads=1, head_dim=64, model_dim=64, scheme='slots', has_far_table=False, attention_dropout_rate=0.0,
        init_scale=1.0, dtype=jnp.dtype(dtype),
    )  # fmt: skip
    # A projection that changes nothing, so that what is compared is what the scores are made of.
    identity = {'params': {'position': jnp.eye(64)[:, None, :]}}
    others = {name: jnp.zeros((64, 1, 64)) for name in ('query', 'key', 'value')}
    identity['params'] |= others | {'output': jnp.zeros((1, 64, 64))}
    projected = attention.apply(identity, PositionTables(near=table, far=None), method='project_positions')
    assert projected.near.dtype == jnp.dtype(dtype)
    assert len(np.unique(np.asarray(projected.near[0].astype(jnp.float32)), axis=0)) == 4000


@pytest.mark.parametrize('T, N', [(1, 1), (4, 4), (4, 9), (1, 5), (3, 4)])
def test_distance_scores_equal_a_double_loop(T, N):
    q, table = normal((B, H, T, K), 0), normal((H, N, K), 1)
    scores = np.asarray(distance_scores(q, table))
    assert scores.shape == (B, H, T, N) and scores.dtype == np.float32
    for i in range(T):
        for j in range(N - T + i + 1):
            distance = (N - T) + i - j
            expected = np.einsum('bhk,hk->bh', q[:, :, i], table[:, N - 1 - distance])
            np.testing.assert_allclose(scores[:, :, i, j], expected, rtol=1e-5, atol=1e-5)


def test_scores_of_one_query_are_a_row_of_all_of_them():
    T, N = 4, 9
    q, table = normal((B, H, T, K), 0), normal((H, N, K), 1)
    full = np.asarray(distance_scores(q, table))
    for i in range(T):
        alone = positions.scores_at_place(jnp.einsum('bhk,hnk->bhn', q[:, :, i], table), T, jnp.int32(i))
        seen = N - T + i + 1
        np.testing.assert_allclose(alone[..., :seen], full[:, :, i, :seen], rtol=1e-5, atol=1e-6)


def test_gathered_scores_equal_loops():
    T, C, R = 3, 5, 20
    q, table = normal((B, H, T, K), 0), normal((H, R, K), 1)
    half_steps = np.random.default_rng(2).integers(0, R - 2 * T, size=(B, C)).astype(np.int32)
    half_steps[0, 0] = R + 7  # past the table's end: its last row
    scores = np.asarray(gathered_scores(q, table, half_steps, jnp.arange(T)))
    assert scores.shape == (B, H, T, C) and scores.dtype == np.float32
    for b in range(B):
        for h in range(H):
            for t in range(T):
                for c in range(C):
                    row = min(half_steps[b, c] + 2 * t, R - 1)
                    np.testing.assert_allclose(scores[b, h, t, c], q[b, h, t] @ table[h, row], rtol=1e-5, atol=1e-5)


def test_gathered_scores_of_one_place_are_a_row_of_all_of_them():
    q, table = normal((B, H, 3, K), 0), normal((H, 20, K), 1)
    half_steps = jnp.array([[9, 7, 3], [8, 2, 2]])
    full = gathered_scores(q, table, half_steps, jnp.arange(3))
    alone = gathered_scores(q[:, :, 2:], table, half_steps, jnp.array([2]))
    np.testing.assert_allclose(alone[:, :, 0], full[:, :, 2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16])
def test_scores_accumulate_in_float32(dtype):
    q, table = jnp.ones((1, 1, 1, 4097), dtype), jnp.ones((1, 1, 4097), dtype)
    ages = jnp.zeros((1, 1), jnp.int32)
    for scores in (distance_scores(q, table), gathered_scores(q, table, ages, jnp.arange(1))):
        assert scores.dtype == jnp.float32 and scores.item() == 4097


def distances_of(table) -> list[float]:
    """What distance each row of a table encodes."""
    known = np.array([formula(half / 2, 16) for half in range(200)])
    return [float(np.abs(known - row).sum(axis=1).argmin()) / 2 for row in np.asarray(table)]


def tables(scheme: str, compressed_length: int = 6) -> PositionTables:
    return tables_of('relative', scheme, compressed_length, 8, 20, 4, 16, None)


def test_tables_hold_the_distances_of_their_scheme():
    assert distances_of(tables('slots').near) == list(range(17, -1, -1))
    assert tables('slots').far is None
    assert distances_of(tables('separate').near) == list(range(11, -1, -1))
    assert distances_of(tables('separate').far) == list(range(9, -1, -1))
    assert distances_of(tables('time').near) == list(range(11, -1, -1))
    assert distances_of(tables('time').far) == [half / 2 for half in range(48)]


@pytest.mark.parametrize('scheme', ['slots', 'separate', 'time'])
def test_without_compressed_slots_there_is_one_table(scheme):
    assert distances_of(tables(scheme, 0).near) == list(range(11, -1, -1))
    assert tables(scheme, 0).far is None


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match='unknown position scheme'):
        tables('absolute')


def test_shaw_has_distances_and_absolute_encodings_have_nothing():
    assert tables_of('shaw', 'slots', 6, 8, 20, 4, 16, None).near.tolist() == list(range(17, -1, -1))
    assert tables_of('absolute', 'slots', 6, 8, 20, 4, 16, None) == PositionTables(near=None, far=None)


def test_every_table_is_clamped():
    for scheme in ('slots', 'separate', 'time'):
        for table in jax.tree.leaves(tables_of('relative', scheme, 6, 8, 20, 4, 16, 5)):
            assert max(distances_of(table)) == 5
