"""compressive-transformer-pytorch (0.4.0), as a system that `work.py` describes, in its own environment.

Its model is another than the paper's: positions have one learned vector each, attention has no global biases. What the
paper does not have is switched off: gated residuals and recurrence from the layer above. Here it stands for its speed
alone. Memory is full of random states, compressed by a convolution.

It cannot decode a token at a time. Memory moves only on a whole `seq_len` of tokens: fewer are read and forgotten, so
its own `generate` reads all of a segment's tokens again for each new one. With `seq_len` of 1 the convolution has fewer
states than it compresses into one, and fails.

Its libraries are imported where they are used: this project's own environment has none of them.
"""

from __future__ import annotations


def build(request):
    """A model of random weights and full memories, as `torch_peer.answer` wants them.

    Raises:
      ValueError: the work is not to evaluate, or has another width of hidden layers than it can have.
    """
    if request['kind'] != 'evaluate':
        raise ValueError('memory moves by segments only')
    # The width of the hidden layer cannot be told to it.
    if request['mlp_dim'] != 4 * request['model_dim']:
        raise ValueError(f'mlp_dim is 4 times model_dim, not {request["mlp_dim"]}')
    import torch
    from compressive_transformer_pytorch import CompressiveTransformer
    from torch_peer import loss_of, segments_of

    model = CompressiveTransformer(
        num_tokens=request['vocab_size'],
        dim=request['model_dim'],
        seq_len=request['segment_length'],
        depth=request['num_layers'],
        heads=request['num_heads'],
        mem_len=request['memory_length'],
        cmem_len=request['compressed_memory_length'],
        cmem_ratio=request['compression_rate'],
        gru_gated_residual=False,
        enhanced_recurrence=False,
    ).eval()
    memories = tuple(
        torch.randn((request['num_layers'], request['batch_size'], slots, request['model_dim']))
        for slots in (request['memory_length'], request['compressed_memory_length'])
    )
    segment = segments_of(request)

    def run(count):
        carried = memories
        for index in range(count):
            tokens = segment(index)
            logits, carried, _ = model(tokens, memories=carried)
            loss_of(logits, tokens)

    return run, sum(part.nbytes for part in memories)


if __name__ == '__main__':
    from torch_peer import serve

    serve(('compressive-transformer-pytorch',), build)
