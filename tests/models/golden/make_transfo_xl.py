"""Makes `transfo_xl_*`: what another implementation of Transformer-XL computes on random weights.

The other implementation is `TransfoXLLMHeadModel` of transformers 4.35.2, on CPU in float32. Neither it nor torch is a
dependency of the tests; an environment of its own makes the files anew:

    python3.11 -m venv torch_env
    torch_env/bin/pip install torch==2.13.0 transformers==4.35.2 'numpy<2'
    torch_env/bin/python tests/models/golden/make_transfo_xl.py

`transfo_xl_tied.safetensors` holds the weights of the cases in which all layers share u and v, the other file those of
the cases in which each has its own, `transfo_xl_adaptive.safetensors` those of the case with adaptive embeddings and
softmax, all as that library itself saves a model, names and all.

`transfo_xl_CASE.npz` holds the case's settings (memory_length, clamp_length with 0 for none, same_length, untie_r), its
tokens (inputs and targets, S x B x T) and what came out: logits S x B x T x V (of `adaptive`: log-probabilities),
losses S x B x T in nats, memory L x B x M x D after the last segment, and `gradient_NAME` of the mean loss over all S
segments for each weight. Memory is carried from segment to segment, without gradient, and is truly empty at first:
`mems` of length 0, for the model's own first memory is zeros that it attends to.
"""

from __future__ import annotations

import pathlib
import shutil
import tempfile

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
    'adaptive': (4, 4, 8, 0, False, True),
}
# As the scripts for WikiText-103 have them: narrower bands, and the first band's two projections apart.
ADAPTIVE = {'cutoffs': [4, 9], 'div_val': 2, 'tie_projs': [False, True, True]}
DENSE = {'cutoffs': [], 'div_val': 1}


def build(
    memory_length: int, clamp_length: int, same_length: bool, untie_r: bool, adaptive: bool = False
) -> TransfoXLLMHeadModel:
    """The other implementation, without dropout."""
    config = TransfoXLConfig(
        vocab_size=VOCAB,
        **(ADAPTIVE if adaptive else DENSE),
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


def draw_weights(adaptive: bool = False) -> dict[str, torch.Tensor]:
    """Random weights of the model whose layers do not share u and v, by its own names."""
    generator = np.random.default_rng(0)
    weights = {}
    for name, parameter in build(0, 0, False, True, adaptive).named_parameters():
        array = SCALE * generator.standard_normal(parameter.shape).astype(np.float32)
        weights[name] = torch.from_numpy(array + np.float32(name.endswith('layer_norm.weight')))
    return weights


def set_weights(model: TransfoXLLMHeadModel, weights: dict[str, torch.Tensor]) -> None:
    """Copies the weights into the model; a u or v that all layers share is that of the first."""
    if model.crit.out_layers[0].weight is not model.transformer.word_emb.emb_layers[0].weight:
        raise RuntimeError('the output is not tied to the embedding')
    for name, parameter in model.named_parameters():
        shared = name.replace('transformer.r_', 'transformer.layers.0.dec_attn.r_')
        parameter.data.copy_(weights[name if name in weights else shared])


def save(name: str, weights: dict[str, torch.Tensor], untie_r: bool, adaptive: bool = False) -> None:
    """Saves a model of these weights as that library does."""
    model = build(0, 0, False, untie_r, adaptive)
    set_weights(model, weights)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, safe_serialization=True)
        path = FOLDER / f'transfo_xl_{name}.safetensors'
        shutil.copyfile(pathlib.Path(folder) / 'model.safetensors', path)


def token_losses(model: TransfoXLLMHeadModel, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Nats of each target, B x T, from the model's own head, which predicts label t + 1 from state t."""
    states = torch.cat([states, states[:, -1:]], dim=1)
    labels = torch.cat([targets[:, :1], targets], dim=1)
    # Else an adaptive softmax returns the losses band by band.
    return model.crit(states, labels, keep_order=True).view(targets.shape)


def make_case(
    weights: dict[str, torch.Tensor],
    segments: int,
    segment_length: int,
    memory_length: int,
    clamp_length: int,
    same_length: bool,
    untie_r: bool,
    adaptive: bool = False,
) -> dict[str, np.ndarray]:
    """Runs one case over its segments; the arrays of its file."""
    model = build(memory_length, clamp_length, same_length, untie_r, adaptive)
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
        loss = token_losses(model, states, target)
        logit = scores.prediction_scores
        if not adaptive:
            # Without cutoffs the adaptive softmax is a plain one over the tied table and its bias.
            head = model.crit.out_layers[0]
            logit = torch.nn.functional.linear(states, head.weight, head.bias)
            torch.testing.assert_close(torch.log_softmax(logit, -1), scores.prediction_scores, rtol=1e-6, atol=1e-6)
        plain = torch.nn.functional.cross_entropy(logit.flatten(0, 1), target.flatten(), reduction='none')
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
    for name, parameter in model.named_parameters():
        arrays[f'gradient_{name}'] = parameter.grad.numpy()
    return arrays


def main() -> None:
    """Writes all files."""
    weights = draw_weights()
    adaptive_weights = draw_weights(adaptive=True)
    save('tied', weights, untie_r=False)
    save('untied', weights, untie_r=True)
    save('adaptive', adaptive_weights, untie_r=True, adaptive=True)
    for name, case in CASES.items():
        adaptive = name == 'adaptive'
        arrays = make_case(adaptive_weights if adaptive else weights, *case, adaptive)
        np.savez_compressed(FOLDER / f'transfo_xl_{name}.npz', **arrays)


if __name__ == '__main__':
    main()
