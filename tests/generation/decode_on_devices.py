"""Tokens on one device and on two; run by test_devices.py in a process of its own.

python decode_on_devices.py VARIANT.json ..
"""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'models'))

from memjax.generation.devices import provide, spread


def hashable(fields: dict) -> dict:
    """Lists as the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def main(*variants: str) -> None:
    provide(2)
    import jax
    import numpy as np
    from tiny_models import VOCAB, T, tiny

    from memjax.generation import decoder
    from memjax.generation.drawing import Drawing, row_keys
    from memjax.training.optimizer import path_name

    prompts = [[np.random.default_rng(length).integers(VOCAB, size=length)] for length in (1, 3 * T + 2)]
    programs = (decoder._apart, decoder._read_segment, decoder._open, decoder._advance, decoder._close)
    for variant in variants:
        built, found = tiny(**json.loads(variant, object_hook=hashable)), {}
        for count in (1, 2):
            before = [program._cache_size() for program in programs]
            read = decoder.read_prompts(built.model, spread(built.params, count), prompts, T)
            decoding = decoder.Decoding(built.model, read, Drawing(temperature=0.5), row_keys(0, range(2)))
            rows = [[], []]
            while not decoding.is_done_B.all():
                for row, new in enumerate(decoding.advance(3 * T, steps=3)):
                    rows[row] += new.tolist()
            leaves = jax.tree_util.tree_leaves_with_path(read.params)
            found[count] = {
                'rows': rows,
                'compiled': [program._cache_size() - size for program, size in zip(programs, before, strict=True)],
                'devices': len(leaves[0][1].sharding.device_set),
                'tail': sum(not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(decoding._state.tail)),
                'split': [path_name(path) for path, leaf in leaves if not leaf.sharding.is_fully_replicated],
            }
        print(json.dumps(found))


if __name__ == '__main__':
    main(*sys.argv[1:])
