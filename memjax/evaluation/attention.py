"""Where attention goes: its mass over memory and segment (Compressive Transformer, section 5.6.1 and Figure 2)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.errors import ConfigError
from memjax.evaluation.full_memory import read_with_full_memory
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import protocol_of, provenance_of, write_result
from memjax.report.attention_figure import draw_attention

_BUCKETS = 6  # of each region


def analyze_attention(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
    sequences: int = 20_000,
) -> dict[str, Any]:
    """Sums attention in buckets; writes `WORKDIR/eval/attention_SPLIT.json`, a figure of that name, prints a table.

    Args:
      workdir: of a run of transformer_xl or compressive.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      step: as for `evaluate_run`.
      sequences: to average over, at least, if the split has them; the paper's figure has 20,000.

    Returns:
      Provenance, `protocol`, `seconds`, `sequences` (with full memory, which alone were counted), and `buckets`, the
      oldest first, 6 a region: `region` (`compressed_2` and on, `compressed`, `memory`, `segment`, as far as there are
      any), `slots`, `mass` (a mean over sequences, heads, queries and layers; their sum is 1) and `mass_by_layer`.

    Raises:
      UserError: as for `evaluate_run`; a model without such attention; a text too short to fill the memory.
    """
    used = evaluation_config(config).model
    if used.name not in ('transformer_xl', 'compressive'):
        raise ConfigError(f'model.name={used.name}: attention by bucket is of transformer_xl and compressive')
    run, corpus = open_run(workdir, data_dir, config, step)
    shown = read_with_full_memory(config, run.params, corpus.splits[split], sequences, attention=True)
    result = provenance_of(run, corpus, split) | {
        'protocol': protocol_of(config) | {'warmup': 0},
        'seconds': shown.seconds,
        'sequences': shown.sequences,
        'buckets': in_buckets(shown.attention_LxN, regions_of(config)),
    }
    path = write_result(workdir, f'attention_{split}', result, draw_attention)
    print(f'{result["config"]}, {split} of {corpus.name}: attention over {shown.sequences:,} sequences, oldest first')
    for each in result['buckets']:
        print(f'{each["region"]:<12}{each["slots"]:>7,} slots  {each["mass"]:.4f}')
    print(path)
    return result


def regions_of(config: config_dict.ConfigDict) -> dict[str, int]:
    """Name -> number of keys of each region that evaluation with a config has, the oldest first."""
    used = evaluation_config(config)
    regions = {'memory': used.model.memory_length, 'segment': used.data.segment_length}
    if used.model.name == 'compressive':
        regions = {'compressed': used.model.compressed_memory_length} | regions
        for level, length in enumerate(used.model.higher_memory_lengths, start=2):
            regions = {f'compressed_{level}': length} | regions
    return {name: length for name, length in regions.items() if length}


def in_buckets(attention_LxN: np.ndarray, regions: dict[str, int]) -> list[dict[str, Any]]:
    """Sums of attention over 6 neighbouring parts of each region, as equal as can be.

    Args:
      attention_LxN: by layer and key.
      regions: name -> number of keys, in the keys' order; they are all keys.

    Returns:
      The `buckets` of `analyze_attention`.
    """
    if sum(regions.values()) != attention_LxN.shape[1]:
        raise ValueError(f'{attention_LxN.shape[1]} keys are not those of {regions}')
    buckets, begin = [], 0
    for region, length in regions.items():
        edges = [begin + length * bucket // _BUCKETS for bucket in range(_BUCKETS + 1)]
        for first, last in itertools.pairwise(edges):
            mass_L = attention_LxN[:, first:last].sum(axis=1)
            mass = {'mass': float(mass_L.mean()), 'mass_by_layer': mass_L.tolist()}
            buckets.append({'region': region, 'slots': last - first} | mass)
        begin += length
    return buckets
