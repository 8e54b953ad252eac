"""Makes `transfo_xl_*.npz`: what another implementation of Transformer-XL computes on random weights.

The other implementation is `TransfoXLLMHeadModel` of transformers 4.35.2, on CPU in float32. Neither it nor torch is a
dependency of the tests; an environment of its own makes the files anew:

    python3.11 -m venv /tmp/torchv
    /tmp/torchv/bin/pip install torch==2.13.0 transformers==4.35.2 'numpy<2'
    /tmp/torchv/bin/python tests/models/golden/make_transfo_xl.py

`transfo_xl_weights.npz` holds the weights of every case, without pickle, as stacks over layers (L) of what
`torch.nn.Linear` calls its weight (out x in):

    embedding V x D, output_bias V, u and v L x H x K (the cases that share them use the first), qkv L x 3HK x D (query,
    key, value), position L x HK x D, output L x D x HK, attention_gain / attention_bias / feed_forward_gain /
    feed_forward_bias L x D (layer norms), up L x F x D, up_bias L x F, down L x D x F, down_bias L x D.

`transfo_xl_CASE.npz` holds the case's settings (memory_length, clamp_length with 0 for none, same_length, untie_r), its
tokens (inputs and targets, S x B x T) and what came out: logits S x B x T x V, losses S x B x T in nats, memory
L x B x M x D after the last segment, and `gradient_NAME` of the mean loss over all S segments for each weight. Memory
is carried from segment to segment, without gradient, and is truly empty at first: `mems` of length 0, for the model's
own first memory is zeros that it attends to.
"""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from transformers import TransfoXLConfig, TransfoXLLMHeadModel

FOLDER = pathlib.Path(__file__).parent
LAYERS, HEADS, HEAD_DIM, MODEL_DIM, MLP_DIM, VOCAB = 3, 3, 6, 12, 20, 13
ROWS = 2
# Large enough that attention is far from uniform, so that every term of its score shows in the output.
SCALE = 0.3

# name: segments, segment length, memory length, clamp length (0: none), same_length, untie_r
CASES = {
    'no_memory': (2, 6, 0, 0, False, False),
    'long_memory': (5, 4, 10, 0, False, False),
    'short_memory': (4, 6, 4, 0, False, False),
    'clamp': (4, 4, 10, 5, False, False),
    'same_length': (5, 4, 10, 0, True, False),
    'same_length_short_memory': (4, 6, 4, 0, True, False),
    'untied_everything': (4, 4, 8, 6, True, True),
}


def build(memory_length: int, clamp_length: int, same_length: bool, untie_r: bool) -> TransfoXLLMHeadModel:
    """The other implementation, with one softmax over the whole vocabulary and without dropout."""
    config = TransfoXLConfig(
        vocab_size=VOCAB,
        cutoffs=[],
        div_val=1,
        d_model=MODEL_DIM,
        d_embed=MODEL_DIM,
        n_head=HEADS,
        d_head=HEAD_DIM,
        d_inner=MLP_DIM,
        n_layer=LAYERS,
        mem_len=memory_length,
        clamp_len=clamp_length,
        same_length=same_length,
        untie_r=untie_r,
        dropout=0.0,
        dropatt=0.0,
        pre_lnorm=False,
    )
    return TransfoXLLMHeadModel(config).eval()


def parameters(model: TransfoXLLMHeadModel) -> dict[str, list[torch.nn.Parameter]]:
    """The model's parameters under the files' names, a list over layers each (one long for what layers share)."""
    core, layers = model.transformer, model.transformer.layers
    attentions = [layer.dec_attn for layer in layers]
    feed_forwards = [layer.pos_ff for layer in layers]
    biased = attentions if core.config.untie_r else [core]
    if model.crit.out_layers[0].weight is not core.word_emb.emb_layers[0].weight:
        raise RuntimeError('the output is not tied to the embedding')
    return {
        'embedding': [core.word_emb.emb_layers[0].weight],
        'output_bias': [model.crit.out_layers[0].bias],
        'u': [module.r_w_bias for module in biased],
        'v': [module.r_r_bias for module in biased],
        'qkv': [attention.qkv_net.weight for attention in attentions],
        'position': [attention.r_net.weight for attention in attentions],
        'output': [attention.o_net.weight for attention in attentions],
        'attention_gain': [attention.layer_norm.weight for attention in attentions],
        'attention_bias': [attention.layer_norm.bias for attention in attentions],
        'up': [feed_forward.CoreNet[0].weight for feed_forward in feed_forwards],
        'up_bias': [feed_forward.CoreNet[0].bias for feed_forward in feed_forwards],
        'down': [feed_forward.CoreNet[3].weight for feed_forward in feed_forwards],
        'down_bias': [feed_forward.CoreNet[3].bias for feed_forward in feed_forwards],
        'feed_forward_gain': [feed_forward.layer_norm.weight for feed_forward in feed_forwards],
        'feed_forward_bias': [feed_forward.layer_norm.bias for feed_forward in feed_forwards],
    }


def stacked(name: str, arrays: list[np.ndarray]) -> np.ndarray:
    """A list over layers as the files have it: without a layer axis where there are no layers."""
    return arrays[0] if name in ('embedding', 'output_bias') else np.stack(arrays)


def draw_weights() -> dict[str, np.ndarray]:
    """Random weights of the model whose layers do not share u and v."""
    generator = np.random.default_rng(0)
    weights = {}
    for name, owners in parameters(build(0, 0, False, True)).items():
        arrays = [SCALE * generator.standard_normal(owner.shape).astype(np.float32) for owner in owners]
        weights[name] = stacked(name, arrays) + np.float32(name.endswith('_gain'))
    return weights


def set_weights(model: TransfoXLLMHeadModel, weights: dict[str, np.ndarray]) -> None:
    """Copies the weights into the model."""
    named = parameters(model)
    if {id(owner) for owners in named.values() for owner in owners} != {id(owner) for owner in model.parameters()}:
        raise RuntimeError('the model has parameters that the files do not')
    for name, owners in named.items():
        arrays = weights[name][None] if name in ('embedding', 'output_bias') else weights[name]
        for owner, array in zip(owners, arrays, strict=False):  # u and v: the first alone, if shared
            owner.data.copy_(torch.from_numpy(array))


def token_losses(model: TransfoXLLMHeadModel, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Nats of each target, B x T, from the model's own head, which predicts label t + 1 from state t."""
    states = torch.cat([states, states[:, -1:]], dim=1)
    labels = torch.cat([targets[:, :1], targets], dim=1)
    return model.crit(states, labels).view(targets.shape)


def make_case(
    weights: dict[str, np.ndarray],
    segments: int,
    segment_length: int,
    memory_length: int,
    clamp_length: int,
    same_length: bool,
    untie_r: bool,
) -> dict[str, np.ndarray]:
    """Runs one case over its segments; the arrays of its file."""
    model = build(memory_length, clamp_length, same_length, untie_r)
    set_weights(model, weights)
    tokens = np.random.default_rng(1).integers(0, VOCAB, (ROWS, segments * segment_length + 1))

    def cut(sequence: np.ndarray) -> np.ndarray:
        return sequence.reshape(ROWS, segments, segment_length).swapaxes(0, 1)

    inputs, targets = cut(tokens[:, :-1]), cut(tokens[:, 1:])
    mems = [torch.zeros(0, ROWS, MODEL_DIM) for _ in range(LAYERS)] if memory_length else None
    logits, losses = [], []
    for segment_inputs, segment_targets in zip(inputs, targets, strict=True):
        target = torch.from_numpy(segment_targets)
        scores = model(torch.from_numpy(segment_inputs), mems=mems, output_hidden_states=True)
        states = scores.hidden_states[-1]
        head = model.crit.out_layers[0]
        logit = torch.nn.functional.linear(states, head.weight, head.bias)
        loss = token_losses(model, states, target)
        # Without cutoffs the adaptive softmax is a plain one over the tied table and its bias.
        plain = torch.nn.functional.cross_entropy(logit.flatten(0, 1), target.flatten(), reduction='none')
        torch.testing.assert_close(torch.log_softmax(logit, -1), scores.prediction_scores, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(plain.view(loss.shape), loss, rtol=1e-6, atol=1e-6)
        mems = scores.mems
        logits.append(logit)
        losses.append(loss)
    losses = torch.stack(losses)
    losses.mean().backward()
    arrays = {
        'memory_length': np.int32(memory_length),
        'clamp_length': np.int32(clamp_length),
        'same_length': np.bool_(same_length),
        'untie_r': np.bool_(untie_r),
        'inputs': inputs.astype(np.int32),
        'targets': targets.astype(np.int32),
        'logits': torch.stack(logits).detach().numpy(),
        'losses': losses.detach().numpy(),
    }
    if memory_length:
        arrays['memory'] = torch.stack(mems).transpose(1, 2).numpy()
    for name, owners in parameters(model).items():
        arrays[f'gradient_{name}'] = stacked(name, [owner.grad.numpy() for owner in owners])
    return arrays


def main() -> None:
    """Writes all files."""
    weights = draw_weights()
    np.savez_compressed(FOLDER / 'transfo_xl_weights.npz', **weights)
    for name, case in CASES.items():
        np.savez_compressed(FOLDER / f'transfo_xl_{name}.npz', **make_case(weights, *case))


if __name__ == '__main__':
    main()
