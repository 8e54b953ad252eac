"""Greedy tokens on one device and on two; run by test_devices.py in a process of its own.

python decode_on_devices.py VARIANT.json ..
"""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'models'))

from memjax.generation.devices import provide, spread


def main(*variants: str) -> None:
    provide(2)
    import jax
    import numpy as np
    from tiny_models import VOCAB, T, tiny

    from memjax.generation import decoder
    from memjax.generation.drawing import Drawing, row_keys

    prompts = [[np.random.default_rng(length).integers(VOCAB, size=length)] for length in (1, 3 * T + 2)]
    for variant in variants:
        built, found = tiny(**json.loads(variant)), {}
        for count in (1, 2):
            read = decoder.read_prompts(built.model, spread(built.params, count), prompts, T)
            decoding = decoder.Decoding(built.model, read, Drawing(top_k=1), row_keys(0, range(2)))
            rows = [[], []]
            compiled = decoder._advance._cache_size()
            while not decoding.is_done_B.all():
                for row, new in enumerate(decoding.advance(3 * T, steps=3)):
                    rows[row] += new.tolist()
            leaves = jax.tree.leaves(read.params)
            found[count] = {
                'rows': rows,
                'compiled': decoder._advance._cache_size() - compiled,
                'devices': len(leaves[0].sharding.device_set),
                'split': sum(not leaf.sharding.is_fully_replicated for leaf in leaves),
            }
        print(json.dumps(found))


if __name__ == '__main__':
    main(*sys.argv[1:])
