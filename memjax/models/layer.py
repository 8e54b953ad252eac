"""One layer of a stack by itself, where a stack's scan over layers would copy what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from memjax.models.block import LayerMemory, LayerTail, Shared, TransformerXLBlock


class Layer:
    """One layer of a stack, called as a stack of one.

    A scan would cut each layer's slots out of those of all, which copies the whole memory for every segment.
    """

    def __init__(self, block: TransformerXLBlock, params: Any, core: nn.Module):
        self._block, self._params, self._core = block, params, core

    def __call__(self, x_BxTxD: jax.Array, memory: LayerMemory, shared: Shared, train: bool):
        sown = 'intermediates'
        if not self._core.is_mutable_collection(sown):
            return self._apply('__call__', x_BxTxD, memory, shared, train)
        results, variables = self._apply('__call__', x_BxTxD, memory, shared, train, mutable=[sown])
        for name, (value,) in variables[sown].items():
            self._core.sow(sown, name, value[None])
        return results

    def open(self, *args: Any):
        return self._apply('open', *args)

    def project_memory(self, *args: Any):
        return self._apply('project_memory', *args)

    def close(self, *args: Any):
        return self._apply('close', *args)

    def _apply(self, method: str, carry: Any, *args: Any, mutable: Any = False) -> Any:
        of_layer = [unstacked(arg, 1)[0] if isinstance(arg, LayerMemory | LayerTail) else arg for arg in args]
        results = self._block.apply({'params': self._params}, carry, *of_layer, method=method, mutable=mutable)
        (carry, gathered), *variables = results if mutable else (results,)
        results = carry, stacked([gathered])
        return (results, *variables) if mutable else results


def unstacked(tree: Any, count: int) -> list[Any]:
    """Layers apart."""
    return [jax.tree.map(lambda leaf, at=at: leaf[at], tree) for at in range(count)]


def cut_apart(params: Any, count: int) -> dict[str, Any]:
    """A stack's parameters, a tree a layer."""
    return {str(at): layer for at, layer in enumerate(unstacked(params, count))}


def layers_of(params: Any, count: int) -> list[Any]:
    """The layers' parameters of a stack, whether they are apart already or not."""
    return [params[str(at)] for at in range(count)] if is_apart(params) else unstacked(params, count)


def is_apart(params: Any) -> bool:
    """Whether a stack's parameters are by layer."""
    return '0' in params


def stacked(layers: Sequence[Any]) -> Any:
    """Layers together."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
