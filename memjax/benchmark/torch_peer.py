"""What the programs of the other implementations share: they answer requests as `work.py` describes, with PyTorch.

A program runs in its own environment, where this project is not installed: of all of it, it imports this file alone,
which is found because it lies beside the program. PyTorch is imported where it is used: not every environment has it.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time

_BUILT = {}


def answer(request, packages, build):
    """Does what a request says.

    Args:
      request: what `work.py` describes, as a dictionary.
      packages: whose versions are told, PyTorch's beside them.
      build: the request of a piece of work -> (run, bytes): `run(count)` does so many segments or tokens of each row,
        on memory that is full from the start; bytes are those of the memory state. What it returns is kept.

    Returns:
      package -> version; or `seconds`, `tokens` and `bytes`.
    """
    if request['kind'] == 'versions':
        return {name: importlib.metadata.version(name) for name in ('torch', *packages)}
    import torch

    shape = tuple((field, value) for field, value in sorted(request.items()) if field != 'count')
    with torch.no_grad():
        if shape not in _BUILT:
            _BUILT[shape] = build(request)
        run, memory_bytes = _BUILT[shape]
        run(2)
        begin = time.perf_counter()
        run(request['count'])
        seconds = time.perf_counter() - begin
    per_row = request['count'] * (request['segment_length'] if request['kind'] == 'evaluate' else 1)
    return {'seconds': seconds, 'tokens': request['batch_size'] * per_row, 'bytes': memory_bytes}


def segments_of(request):
    """Random segments for `evaluate`: `index -> tokens`, int64 (rows, segment_length), the same again after eight."""
    import torch

    shape = (request['batch_size'], request['segment_length'])
    segments = [torch.randint(request['vocab_size'], shape) for _ in range(8)]
    return lambda index: segments[index % 8]


def loss_of(logits, tokens):
    """The mean cross entropy, in nats, of what follows each token but the last.

    Args:
      logits: (rows, T, V).
      tokens: (rows, T).
    """
    import torch

    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def serve(packages, build):
    """Answers standard input's requests, one a line, on standard output; arguments are those of `answer`."""
    # A library that prints would be taken for an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), packages, build)), file=answers, flush=True)
