"""Sequence models with a long memory that is cached or compressed, in JAX and Flax.

The names below are loaded when they are first used, so that `import memjax` brings in no JAX.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    'base_config': 'memjax.config',
    'build_model': 'memjax.models.factory',
    'generate': 'memjax.generation.generate',
    'init_params': 'memjax.models.factory',
    'LanguageModel': 'memjax.models.contract',
    'load_run': 'memjax.evaluation.loading',
    'open_corpus': 'memjax.data.prepare',
    'Output': 'memjax.models.contract',
    'plan': 'memjax.evaluation.plan',
    'Segment': 'memjax.models.contract',
    'segments': 'memjax.models.segments',
    'train': 'memjax.training.loop',
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
