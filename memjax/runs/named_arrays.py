"""A pytree as arrays under names, so that what is stored does not depend on the classes that the tree is made of.

Optimizer states are nested tuples of a library's classes and memory is one of ours; a checkpoint should outlive both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

PyTree = Any


def named(tree: PyTree) -> dict[str, Any]:
    """`{'layers/0/kernel': leaf, ..}` for the leaves that hold anything.

    Empty arrays, such as a memory of length 0, are left out: stores refuse them, and `rebuild` makes them anew.

    Args:
      tree: a pytree of arrays or `jax.ShapeDtypeStruct`s, at least one level deep.
    """
    leaves, _ = jax.tree.flatten_with_path(tree)
    return {_name(path): leaf for path, leaf in leaves if math.prod(leaf.shape)}


def rebuild(tree: PyTree, arrays: Mapping[str, jax.Array], empty: Callable[[Any], jax.Array]) -> PyTree:
    """The inverse of `named`.

    Args:
      tree: the structure, with the shape of every leaf.
      arrays: the leaves by name.
      empty: makes a leaf that holds nothing from its description in `tree`.
    """
    return jax.tree.map_with_path(
        lambda path, leaf: arrays[_name(path)] if math.prod(leaf.shape) else empty(leaf), tree
    )


def first_difference(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first name (in order) whose shape or dtype differs, with both of them in words; None if there is none.

    Args:
      saved: leaves by name, with shape and dtype.
      wanted: the same.
    """
    for name in sorted(saved.keys() | wanted.keys()):
        there, here = _describe(saved.get(name)), _describe(wanted.get(name))
        if there != here:
            return name, there, here
    return None


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator='/')


def _describe(leaf: Any) -> str:
    return 'absent' if leaf is None else f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}'
