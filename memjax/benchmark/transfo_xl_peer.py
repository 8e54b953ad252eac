"""Hugging Face's TransfoXL (transformers 4.35.2), as a system that `work.py` describes, in its own environment.

Its libraries are imported where they are used: this project's own environment has none of them.
"""

from __future__ import annotations


def build(request):
    """A model of random weights, and mems that are full of random states, as `torch_peer.answer` wants them."""
    import torch
    from transformers import TransfoXLConfig, TransfoXLLMHeadModel

    model = TransfoXLLMHeadModel(
        TransfoXLConfig(
            vocab_size=request['vocab_size'],
            cutoffs=[],
            div_val=1,
            d_model=request['model_dim'],
            d_embed=request['model_dim'],
            n_head=request['num_heads'],
            d_head=request['model_dim'] // request['num_heads'],
            d_inner=request['mlp_dim'],
            n_layer=request['num_layers'],
            mem_len=request['memory_length'],
            clamp_len=0,
            same_length=False,
            dropout=0.0,
            dropatt=0.0,
        )
    ).eval()
    states = (request['memory_length'], request['batch_size'], request['model_dim'])
    mems = [torch.randn(states) for _ in range(request['num_layers'])]
    work = {'evaluate': _evaluation, 'decode': _decoding}[request['kind']]
    return work(model, mems, request), sum(mem.nbytes for mem in mems)


def _evaluation(model, mems, request):
    from torch_peer import segments_of

    segment = segments_of(request)

    def run(count):
        carried = mems
        for index in range(count):
            tokens = segment(index)
            carried = model(tokens, mems=carried, labels=tokens).mems

    return run


def _decoding(model, mems, request):
    import torch

    def run(count):
        carried = mems
        tokens = torch.zeros((request['batch_size'], 1), dtype=torch.long)
        for _ in range(count):
            output = model(tokens, mems=carried)
            carried = output.mems
            tokens = output.prediction_scores[:, -1:].argmax(-1)

    return run


if __name__ == '__main__':
    from torch_peer import serve

    serve(('transformers',), build)
