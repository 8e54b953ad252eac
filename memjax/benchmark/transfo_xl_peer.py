"""Hugging Face's TransfoXL (transformers 4.35.2), as a system that `work.py` describes, in its own environment.

Its libraries are imported where they are used: this project's own environment has none of them.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import sys
import time


@functools.cache
def build(shape):
    """A model of random weights with that memory, and mems that are full of random states."""
    import torch
    from transformers import TransfoXLConfig, TransfoXLLMHeadModel

    fields = dict(shape)
    model = TransfoXLLMHeadModel(
        TransfoXLConfig(
            vocab_size=fields['vocab_size'],
            cutoffs=[],
            div_val=1,
            d_model=fields['model_dim'],
            d_embed=fields['model_dim'],
            n_head=fields['num_heads'],
            d_head=fields['model_dim'] // fields['num_heads'],
            d_inner=fields['mlp_dim'],
            n_layer=fields['num_layers'],
            mem_len=fields['memory_length'],
            clamp_len=0,
            same_length=False,
            dropout=0.0,
            dropatt=0.0,
        )
    ).eval()
    states = (fields['memory_length'], fields['batch_size'], fields['model_dim'])
    return model, [torch.randn(states) for _ in range(fields['num_layers'])]


def evaluate(model, mems, request):
    """The losses of segments that follow one another."""
    import torch

    shape = (request['batch_size'], request['segment_length'])
    segments = [torch.randint(request['vocab_size'], shape) for _ in range(8)]
    for index in range(request['count']):
        tokens = segments[index % 8]
        mems = model(tokens, mems=mems, labels=tokens).mems
    return request['count'] * request['segment_length'] * request['batch_size']


def decode(model, mems, request):
    """One token after another, each the likeliest."""
    import torch

    tokens = torch.zeros((request['batch_size'], 1), dtype=torch.long)
    for _ in range(request['count']):
        output = model(tokens, mems=mems)
        mems = output.mems
        tokens = output.prediction_scores[:, -1:].argmax(-1)
    return request['count'] * request['batch_size']


def answer(request):
    """Does what a request says."""
    import torch

    if request['kind'] == 'versions':
        return {name: importlib.metadata.version(name) for name in ('torch', 'transformers')}
    fields = ('vocab_size', 'model_dim', 'num_heads', 'mlp_dim', 'num_layers', 'memory_length', 'batch_size')
    model, mems = build(tuple((name, request[name]) for name in fields))
    work = {'evaluate': evaluate, 'decode': decode}[request['kind']]
    with torch.no_grad():
        work(model, mems, {**request, 'count': 2})
        begin = time.perf_counter()
        tokens = work(model, mems, request)
        seconds = time.perf_counter() - begin
    return {'seconds': seconds, 'tokens': tokens, 'bytes': sum(mem.nbytes for mem in mems)}


if __name__ == '__main__':
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
