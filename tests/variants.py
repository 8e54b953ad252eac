"""Models other than the tests' usual one: fields of the model section, to be set in `tiny_config`."""

from __future__ import annotations

PLAIN = {'name': 'transformer_xl', 'compressed_memory_length': 0}
VARIANTS = {
    'rates by layer': {'compression': 'most_used', 'compression_rate_by_layer': (2, 4)},
    'levels': {
        'higher_memory_lengths': (2,),
        'higher_compression_rates': (2,),
        'compression_loss': 'auto_encoding',
    },
    'random': {'compression': 'random', 'compressed_positions': 'time'},
    'dilated': {'compression': 'dilated_conv', 'compression_loss': 'none'},
    'shaw': {**PLAIN, 'position_encoding': 'shaw', 'largest_distance': 12},
    'absolute': {**PLAIN, 'position_encoding': 'absolute'},
    'adaptive': {**PLAIN, 'adaptive_cutoffs': (40, 120), 'adaptive_div': 2, 'tied_projections': 'all_but_first'},
    'rmt': {**PLAIN, 'name': 'rmt', 'num_memory_tokens': 2},
    'lstm': {**PLAIN, 'name': 'lstm', 'attention_dropout_rate': 0.0},
}
