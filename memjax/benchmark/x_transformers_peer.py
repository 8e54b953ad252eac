"""x-transformers (2.31.10), as a system that `work.py` describes, in its own environment.

Segments are read with `mems`, the states of the slots, as the library does it for Transformer-XL, with T5's relative
position bias. With the argument `cache` they are read with the library's cache of keys and values instead, one more
segment at a time, with rotary positions and PyTorch's fused attention, the fastest way that was found. Tokens are
always decoded with that cache, and the bias, which is then faster. The library's cache grows without bound: as its own
`generate` does, the oldest entries are dropped after each step, so that a query sees `memory_length` slots and what has
come after them.

Its libraries are imported where they are used: this project's own environment has none of them.
"""

from __future__ import annotations

import sys


def build(request, cached=False):
    """A model of random weights and full memory, as `torch_peer.answer` wants them.

    Args:
      request: the piece of work, as a dictionary.
      cached: segments are read with the cache of keys and values, not with `mems`.
    """
    import torch

    rows, slots = request['batch_size'], request['memory_length']
    if request['kind'] == 'evaluate' and not cached:
        model = _model(request, max_mem_len=slots, rel_pos_bias=True)
        mems = [torch.randn((rows, slots, request['model_dim'])) for _ in range(request['num_layers'])]
        return _evaluation(model, mems, request), sum(mem.nbytes for mem in mems)
    fused = {'rotary_pos_emb': True, 'attn_flash': True}
    model = _model(request, **(fused if request['kind'] == 'evaluate' else {'rel_pos_bias': True}))
    _, cache = model(torch.randint(request['vocab_size'], (rows, slots)), return_intermediates=True)
    work = {'evaluate': _cached_evaluation, 'decode': _decoding}[request['kind']]
    return work(model, cache, request), sum(part.nbytes for each in _attentions(cache) for part in each.cached_kv)


def _model(request, max_mem_len=0, **positions):
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=request['model_dim'],
        depth=request['num_layers'],
        heads=request['num_heads'],
        attn_dim_head=request['model_dim'] // request['num_heads'],
        ff_mult=request['mlp_dim'] / request['model_dim'],
        **positions,
    )
    return TransformerWrapper(
        num_tokens=request['vocab_size'],
        max_seq_len=request['segment_length'],  # no positions of its own depend on it
        max_mem_len=max_mem_len,
        attn_layers=layers,
    ).eval()


def _attentions(cache):
    return [each for each in cache.attn_intermediates if each.layer_type == 'a']


def _step(model, tokens, cache, slots):
    """Logits (rows, T, V) of new tokens (rows, T), and a cache of the last so many slots."""
    logits, cache = model(
        tokens, cache=cache, return_intermediates=True, input_not_include_cache=True, cache_age=tokens.shape[1]
    )
    for each in _attentions(cache):
        each.cached_kv = [part[..., -slots:, :] for part in each.cached_kv]
    return logits, cache


def _evaluation(model, mems, request):
    from torch_peer import loss_of, segments_of

    segment = segments_of(request)

    def run(count):
        carried = mems
        for index in range(count):
            tokens = segment(index)
            logits, carried = model(tokens, mems=carried, return_mems=True)
            loss_of(logits, tokens)

    return run


def _cached_evaluation(model, cache, request):
    from torch_peer import loss_of, segments_of

    segment = segments_of(request)

    def run(count):
        carried = cache
        for index in range(count):
            tokens = segment(index)
            logits, carried = _step(model, tokens, carried, request['memory_length'])
            loss_of(logits, tokens)

    return run


def _decoding(model, cache, request):
    import torch

    def run(count):
        carried = cache
        tokens = torch.zeros((request['batch_size'], 1), dtype=torch.long)
        for _ in range(count):
            logits, carried = _step(model, tokens, carried, request['memory_length'])
            tokens = logits[:, -1:].argmax(-1)

    return run


if __name__ == '__main__':
    import functools

    from torch_peer import serve

    serve(('x-transformers',), functools.partial(build, cached='cache' in sys.argv[1:]))
