"""Floating-point operations of a traced function, counted in its jaxpr: nothing is compiled or run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend import core as jax_core


def count_flops(function: Callable[..., Any], *arguments: Any) -> int:
    """Multiplications and additions in the matrix products and convolutions of one call.

    A product of m x k by k x n counts 2 m k n. Element-wise work is left out, as is usual where model costs are
    compared. The body of a scan counts once for each of its steps, which XLA's own cost analysis does not do.

    Args:
      function: traceable.
      arguments: arrays or `jax.ShapeDtypeStruct`s.
    """
    return _count(jax.make_jaxpr(function)(*arguments).jaxpr)


def _count(jaxpr: jax_core.Jaxpr) -> int:
    return sum(_equation_flops(equation) for equation in jaxpr.eqns)


def _equation_flops(equation: jax_core.JaxprEqn) -> int:
    name = equation.primitive.name
    if name == 'dot_general':
        (left_contracted, _), _ = equation.params['dimension_numbers']
        left = equation.invars[0].aval.shape
        contracted = math.prod(left[axis] for axis in left_contracted)
        return 2 * contracted * math.prod(equation.outvars[0].aval.shape)
    if name == 'conv_general_dilated':
        kernel = equation.invars[1].aval.shape
        output_features = kernel[equation.params['dimension_numbers'].rhs_spec[0]]
        return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) // output_features
    inner = list(_inner_jaxprs(equation.params))
    if name == 'cond':
        return max(map(_count, inner))
    repeats = equation.params['length'] if name == 'scan' else 1
    return repeats * sum(map(_count, inner))


def _inner_jaxprs(params: dict[str, Any]) -> Iterator[jax_core.Jaxpr]:
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, jax_core.ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, jax_core.Jaxpr):
                yield item
