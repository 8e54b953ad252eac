"""What is compared with which other implementation, under the names that results have.

Lengths are those of Transformer-XL's enwik8 evaluation. The Compressive Transformer sees as many slots, half of them
compressed.
"""

from __future__ import annotations

import dataclasses

from memjax.benchmark.peers import CT_PYTORCH, TRANSFO_XL, X_TRANSFORMERS, X_TRANSFORMERS_CACHE, Peer
from memjax.benchmark.work import Work
from memjax.evaluation.likelihood import SEGMENTS_A_CALL


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A piece of work that two systems do.

    Attributes:
      peer: the other one.
      work: the piece of work.
      impossible: why the other one cannot do it; '' if it can.
    """

    peer: Peer
    work: Work
    impossible: str = ''


_EVALUATE = Work('evaluate', batch_size=1, segment_length=80, memory_length=2100, count=24)
_EVALUATE_4 = Work('evaluate', batch_size=4, segment_length=80, memory_length=2100, count=8)
_DECODE = Work('decode', batch_size=1, segment_length=128, memory_length=512, count=256)
_DECODE_2100 = Work('decode', batch_size=1, segment_length=128, memory_length=2100, count=128)
_HALVES = {'memory_length': 1050, 'compressed_memory_length': 1050, 'compression_rate': 4, 'compression': 'conv'}
_NO_DECODING = 'its memory moves by whole segments only: for each token all of the segment would be read again'
COMPARISONS = {
    'eval_txl_vs_transfoxl': Comparison(TRANSFO_XL, _EVALUATE),
    'eval_txl_vs_transfoxl_batch_4': Comparison(TRANSFO_XL, _EVALUATE_4),
    'decode_txl_vs_transfoxl': Comparison(TRANSFO_XL, _DECODE),
    'decode_txl_vs_transfoxl_2100': Comparison(TRANSFO_XL, _DECODE_2100),
    'eval_txl_vs_xtransformers': Comparison(X_TRANSFORMERS, _EVALUATE),
    'eval_txl_vs_xtransformers_batch_4': Comparison(X_TRANSFORMERS, _EVALUATE_4),
    'decode_txl_vs_xtransformers': Comparison(X_TRANSFORMERS, _DECODE),
    'decode_txl_vs_xtransformers_2100': Comparison(X_TRANSFORMERS, _DECODE_2100),
    'eval_txl_vs_xtransformers_cache': Comparison(X_TRANSFORMERS_CACHE, _EVALUATE),
    'eval_txl_vs_xtransformers_cache_batch_4': Comparison(X_TRANSFORMERS_CACHE, _EVALUATE_4),
    'eval_ct_vs_ctpytorch': Comparison(CT_PYTORCH, dataclasses.replace(_EVALUATE, **_HALVES)),
    'eval_ct_vs_ctpytorch_batch_4': Comparison(CT_PYTORCH, dataclasses.replace(_EVALUATE_4, **_HALVES)),
    'decode_ct_vs_ctpytorch_2100': Comparison(CT_PYTORCH, dataclasses.replace(_DECODE_2100, **_HALVES), _NO_DECODING),
}


def comparisons(quick: bool) -> dict[str, Comparison]:
    """Name of a ratio -> what is compared, an eighth of it, if that is enough for a call, for a look."""
    if not quick:
        return COMPARISONS
    return {
        name: dataclasses.replace(
            each, work=dataclasses.replace(each.work, count=max(SEGMENTS_A_CALL, each.work.count // 8))
        )
        for name, each in COMPARISONS.items()
    }
