"""A core of one layer against float64 loops over rows, heads, queries and keys (Transformer-XL, section 3.3)."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny_models import CT, CT_FEW, CT_OTHERS, TXL, T, Tiny, each, model_of, tiny

from memjax.memory import fifo

D, H, K, M, C = 16, 2, 8, 8, 6
# One row a state of filling: valid slots of memory and of compressed memory.
COUNTS = [(0, 0), (4, 0), (8, 0), (8, 2), (8, 6), (3, 1)]
ROWS = len(COUNTS)
CLAMP = 5


def layer_norm(x: np.ndarray, params: dict) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * params['scale'] + params['bias']


def encoding(distance: float, clamp_length: int | None) -> np.ndarray:
    angles = min(distance, clamp_length or np.inf) / 10_000 ** (np.arange(0, D, 2) / D)
    return np.concatenate([np.sin(angles), np.cos(angles)])


def memory_of(levels: int, seed: int) -> fifo.Memory:
    """Random states, ages that differ by row, and large garbage where no slot is valid."""
    rng = np.random.default_rng(seed)
    made = []
    for level, length in enumerate((M, C)[:levels]):
        counts = np.array([count[level] for count in COUNTS], np.int32)
        slots = rng.normal(size=(1, ROWS, length, D))
        for row, count in enumerate(counts):
            slots[:, row, : length - count] = 1e4
        ages = rng.integers(2 * M, 2 * (M + 2 * C), size=(1, ROWS, length)).astype(np.int32) if level else None
        made.append(
            fifo.Fifo(
                slots_LxBxMxD=jnp.asarray(slots, jnp.float32),
                count_B=jnp.asarray(counts),
                ages_LxBxM=None if ages is None else jnp.asarray(ages),
            )
        )
    return fifo.Memory(levels=tuple(made), segments_B=jnp.zeros((ROWS,), jnp.int32))


def looped(config, params: dict, x: np.ndarray, memory: fifo.Memory) -> np.ndarray:
    """What the core returns, one score at a time."""
    core = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params['core'])
    layer = jax.tree.map(lambda leaf: leaf[0], core['layers'])
    attention, biases = layer['attention'], layer if config.untie_r else core
    inputs = layer_norm(x, layer['attention_norm']['LayerNorm_0']) if config.norm == 'pre' else x
    attended = np.zeros_like(x)
    past = sum(level.length for level in memory.levels)
    compressed = past - M
    for b in range(ROWS):
        states, valid = [], []
        for level in memory.levels[::-1]:
            states += list(np.asarray(level.slots_LxBxMxD[0, b], np.float64))
            valid += [slot >= level.length - int(level.count_B[b]) for slot in range(level.length)]
        states, valid = [*states, *inputs[b]], [*valid] + [True] * T
        for h in range(H):
            for t in range(T):
                query = inputs[b, t] @ attention['query'][:, h]
                scores, values = [], []
                for n, state in enumerate(states):
                    distance = past + t - n
                    if distance < 0 or not valid[n] or (config.same_length and distance >= past):
                        continue
                    position_kernel, v = attention['position'], biases['v']
                    if n < compressed and config.compressed_positions == 'separate':
                        distance = compressed + t - n
                        position_kernel, v = attention['far_position'], biases['far_v']
                    if n < compressed and config.compressed_positions == 'time':
                        distance = int(memory.levels[1].ages_LxBxM[0, b, n]) / 2 + t
                    key = state @ attention['key'][:, h]
                    position = encoding(distance, config.clamp_length) @ position_kernel[:, h]
                    terms = query @ key + query @ position + biases['u'][h] @ key + v[h] @ position
                    scores.append(terms / np.sqrt(K))
                    values.append(state @ attention['value'][:, h])
                weights = np.exp(np.array(scores) - max(scores))
                weights /= weights.sum()
                attended[b, t] += weights @ np.array(values) @ attention['output'][h]

    def feed_forward(x):
        up, down = layer['feed_forward']['up'], layer['feed_forward']['down']
        return np.maximum(x @ up['kernel'] + up['bias'], 0) @ down['kernel'] + down['bias']

    attention_norm = layer['attention_norm']['LayerNorm_0']
    feed_forward_norm = layer['feed_forward_norm']['LayerNorm_0']
    x = x + attended
    if config.norm == 'pre':
        return layer_norm(x + feed_forward(layer_norm(x, feed_forward_norm)), core['final_norm']['LayerNorm_0'])
    x = layer_norm(x, attention_norm)
    return layer_norm(x + feed_forward(x), feed_forward_norm)


def check(variant: dict, **overrides) -> None:
    full = tiny(**variant)
    layers = jax.tree.map(lambda leaf: leaf[:1], full.params['core']['layers'])
    params = {**full.params, 'core': {**full.params['core'], 'layers': layers}}
    one_layer = Tiny(model_of(**variant, **overrides, num_layers=1), params)
    config = one_layer.model.core.config
    x = np.random.default_rng(1).normal(size=(ROWS, T, D)).astype(np.float32)
    memory = memory_of(2 if config.name == 'compressive' else 1, seed=2)
    y, _ = jax.jit(one_layer.core)(params, x, jnp.zeros(ROWS, bool), memory)
    np.testing.assert_allclose(y, looped(config, params, x.astype(np.float64), memory), rtol=1e-4, atol=1e-4)


@each([TXL[1], *CT_FEW], [TXL[0], *CT_OTHERS])
def test_equals_loops(variant):
    check(variant)


@each([TXL[1]], [CT[3]])
def test_equals_loops_with_a_band(variant):
    check(variant, same_length=True)


@each([], [TXL[1], CT[2]])
def test_equals_loops_with_clamped_distances(variant):
    check(variant, clamp_length=CLAMP)


@each([CT[4], {**CT[2], 'untie_r': True}], [TXL[0], CT[0]])
def test_equals_loops_with_a_band_and_clamped_distances(variant):
    check(variant, same_length=True, clamp_length=CLAMP)
