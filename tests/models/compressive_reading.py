"""A slow reading of the Compressive Transformer's two algorithms (arXiv 1911.05507), one row of text at a time.

Written from the paper, in float64 NumPy: memories are lists of vectors, every score of attention is a loop's turn, and
nothing is masked, padded or shifted, for what is not there is simply not in a list. It shares no code with memjax.

Where the paper leaves a choice, this reads as memjax does: queries scaled by 1 / sqrt(head width) in both algorithms;
keys include the segment; the reconstruction loss is a mean of squares; pre-norm memory holds normed layer inputs.
"""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is not a weight. Lengths are in slots; a clamp is in the units of the distances it limits."""

    norm: str  # pre | post
    compression: str  # conv | dilated_conv | mean | max | most_used
    rate: int
    positions: str  # slots | separate | time
    memory_length: int
    compressed_length: int
    clamp: float
    same_length: bool


@dataclasses.dataclass(frozen=True)
class Slot:
    """A vector to attend to and the tokens it stands for, by their place in the document."""

    vector: np.ndarray
    places: tuple[int, ...]
    block: tuple[np.ndarray, ...] = ()  # of a compressed slot: the vectors that it was made of


@dataclasses.dataclass(frozen=True)
class LayerMemory:
    """One layer's memories, oldest first."""

    memory: tuple[Slot, ...] = ()
    compressed: tuple[Slot, ...] = ()


@dataclasses.dataclass(frozen=True)
class Reading:
    """What one segment of one row gave."""

    losses: list[float]  # nats of each target
    reconstruction: list[list[float]]  # by layer: squared differences by query, head and width; empty if none left
    memories: list[LayerMemory]  # for the next segment
    shares: list[list[list[np.ndarray]]]  # by layer, query and head: of compressed memory, memory, segment up to itself


def read_segment(
    weights: dict,
    settings: Settings,
    memories: list[LayerMemory],
    tokens: list[int],
    targets: list[int],
    segment_length: int,
    compressor: list[dict] | None = None,
) -> Reading:
    """Algorithm 1 over one segment, with Algorithm 2 beside it.

    Args:
      weights: `embedding` V x D, `output_bias` V, `final_norm` if pre-norm, and `layers`, a list of dicts.
      settings: the model's.
      memories: by layer, as the segment before left them; empty where a document begins.
      tokens: the segment's real tokens.
      targets: one each.
      segment_length: n_s, which a document's last segment may fall short of.
      compressor: other layers' weights for f_c in Algorithm 2 alone, all else being fixed there.

    Returns:
      Losses, and memories that the next segment of the same document would read.
    """
    model_dim = weights['embedding'].shape[1]
    begin = 1 + max((place for slot in memories[0].memory for place in slot.places), default=-1)
    states = [weights['embedding'][token] * np.sqrt(model_dim) for token in tokens]
    reconstruction, moved, shares_by_layer = [], [], []
    for index, (layer, past) in enumerate(zip(weights['layers'], memories, strict=True)):
        inputs = [layer_norm(state, layer['attention_norm']) for state in states] if settings.norm == 'pre' else states
        here = [Slot(vector, (begin + i,)) for i, vector in enumerate(inputs)]
        attended, shares = zip(*(attend(layer, settings, past, here[: i + 1]) for i in range(len(here))), strict=True)
        shares_by_layer.append(shares)
        old, new = (), ()
        if len(past.memory) == settings.memory_length:
            old = past.memory[:segment_length]
            # By heads and queries: how much of each went to these memories, the oldest that are not compressed.
            used = [[share[len(past.compressed) :][: len(old)] for share in heads] for heads in shares]
            usage = np.array(used).sum(axis=(0, 1))
            new = compress(layer, settings, old, usage)
            trained = compress((compressor or weights['layers'])[index], settings, old, usage)
            reconstruction.append(reconstruction_errors(layer, inputs, old, trained))
        else:
            reconstruction.append([])
        memory = (*past.memory, *here)[-settings.memory_length :]
        compressed = (*past.compressed, *new)[-settings.compressed_length :]
        moved.append(LayerMemory(memory, compressed))
        states = [finish(layer, settings, state, what) for state, what in zip(states, attended, strict=True)]
    if settings.norm == 'pre':
        states = [layer_norm(state, weights['final_norm']) for state in states]
    losses = []
    for state, target in zip(states, targets, strict=True):
        logits = weights['embedding'] @ state + weights['output_bias']
        losses.append(float(np.log(np.exp(logits).sum()) - logits[target]))
    return Reading(losses, reconstruction, moved, shares_by_layer)


def attend(layer: dict, settings: Settings, past: LayerMemory, here: list[Slot]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Multi-head attention of the newest of `here` over compressed memory, memory and the segment up to itself.

    Also returns each head's share for every slot.
    """
    slots = [*past.compressed, *past.memory, *here]
    now = here[-1]
    result = np.zeros_like(now.vector)
    window = settings.memory_length + settings.compressed_length
    shares = []
    for head in range(layer['query'].shape[1]):
        query = now.vector @ layer['query'][:, head]
        scores, values, seen = [], [], []
        for number, slot in enumerate(slots):
            steps_back = len(slots) - 1 - number
            if settings.same_length and steps_back >= window:
                continue
            position_kernel, v, distance = layer['position'], layer['v'], steps_back
            if number < len(past.compressed):
                if settings.positions == 'separate':
                    position_kernel, v = layer['far_position'], layer['far_v']
                    distance = steps_back - len(past.memory)
                if settings.positions == 'time':
                    distance = now.places[0] - np.mean(slot.places)
            key = slot.vector @ layer['key'][:, head]
            encoding = sinusoid(min(distance, settings.clamp), len(slot.vector)) @ position_kernel[:, head]
            content = query @ key + layer['u'][head] @ key
            position = query @ encoding + v[head] @ encoding
            scores.append((content + position) / np.sqrt(len(query)))
            values.append(slot.vector @ layer['value'][:, head])
            seen.append(number)
        result += weighted_mean(scores, values) @ layer['output'][head]
        share = np.zeros(len(slots))
        share[seen] = softmax(scores)
        shares.append(share)
    return result, shares


def compress(layer: dict, settings: Settings, old: tuple[Slot, ...], usage: np.ndarray) -> tuple[Slot, ...]:
    """f_c: every `rate` neighbours become one slot, or one of `rate` states stays, those most used."""
    if settings.compression == 'most_used':
        kept = sorted(sorted(range(len(old)), key=lambda i: -usage[i])[: len(old) // settings.rate])
        return tuple(old[i] for i in kept)
    if settings.compression == 'dilated_conv':
        mixed = []
        for i, slot in enumerate(old):
            vector = layer['dilated_bias'] + slot.vector @ layer['dilated'][1]
            if i >= settings.rate:
                vector = vector + old[i - settings.rate].vector @ layer['dilated'][0]
            mixed.append(dataclasses.replace(slot, vector=np.maximum(vector, 0)))
        old = tuple(mixed)
    new = []
    for first in range(0, len(old), settings.rate):
        window = old[first : first + settings.rate]
        block = tuple(slot.vector for slot in window)
        places = tuple(place for slot in window for place in slot.places)
        new.append(Slot(squeeze(layer, settings, block), places, block))
    return tuple(new)


def recompressed(weights: dict, settings: Settings, memories: list[LayerMemory]) -> list[LayerMemory]:
    """The same memories as if these weights' f_c had made the compressed slots of the same states."""
    anew = []
    for layer, past in zip(weights['layers'], memories, strict=True):
        slots = (dataclasses.replace(slot, vector=squeeze(layer, settings, slot.block)) for slot in past.compressed)
        anew.append(dataclasses.replace(past, compressed=tuple(slots)))
    return anew


def squeeze(layer: dict, settings: Settings, block: tuple[np.ndarray, ...]) -> np.ndarray:
    """One slot of a window of states."""
    if settings.compression == 'mean':
        return sum(block) / len(block)
    if settings.compression == 'max':
        return np.array([max(column) for column in zip(*block, strict=True)])
    slot = layer['compression_bias'].copy()
    for place, vector in enumerate(block):
        slot += vector @ layer['compression'][place]
    return slot


def reconstruction_errors(
    layer: dict, inputs: list[np.ndarray], old: tuple[Slot, ...], new: tuple[Slot, ...]
) -> list[float]:
    """Algorithm 2: the squared differences between attn(h, old memory) and attn(h, new compressed memory)."""
    errors = []
    for state in inputs:
        for head in range(layer['query'].shape[1]):
            query = state @ layer['query'][:, head]
            read = []
            for slots in (old, new):
                scores = [query @ (slot.vector @ layer['key'][:, head]) / np.sqrt(len(query)) for slot in slots]
                values = [slot.vector @ layer['value'][:, head] for slot in slots]
                read.append(weighted_mean(scores, values))
            errors.extend((read[0] - read[1]) ** 2)
    return errors


def finish(layer: dict, settings: Settings, state: np.ndarray, attended: np.ndarray) -> np.ndarray:
    """What follows attention in a layer: residuals, norms and the MLP."""
    if settings.norm == 'pre':
        state = state + attended
        return state + mlp(layer, layer_norm(state, layer['feed_forward_norm']))
    state = layer_norm(state + attended, layer['attention_norm'])
    return layer_norm(mlp(layer, state) + state, layer['feed_forward_norm'])


def mlp(layer: dict, state: np.ndarray) -> np.ndarray:
    """Two products with a ReLU between them."""
    hidden = np.maximum(state @ layer['up'] + layer['up_bias'], 0)
    return hidden @ layer['down'] + layer['down_bias']


def layer_norm(state: np.ndarray, norm: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Zero mean and unit variance, times a gain, plus a bias."""
    gain, bias = norm
    centred = state - state.mean()
    return centred / np.sqrt((centred**2).mean() + 1e-5) * gain + bias


def sinusoid(distance: float, width: int) -> np.ndarray:
    """R_distance: sines, then cosines."""
    angles = distance / 10000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)])


def weighted_mean(scores: list[float], values: list[np.ndarray]) -> np.ndarray:
    """The values' mean under the softmax of the scores."""
    return softmax(scores) @ np.array(values)


def softmax(scores: list[float]) -> np.ndarray:
    """Shares that sum to one."""
    shares = np.exp(np.array(scores) - max(scores))
    return shares / shares.sum()
