"""Tables that no paper has: demonstrations and probes, on a laptop."""

from __future__ import annotations

from memjax.report.experiments import NEEDLE, Experiment, Row, Table

TABLES = (
    Table(
        id='demo',
        title='demonstrations on the King James Bible',
        source='',
        measure='bpc',
        rows=(
            Row('Compressive Transformer', tiny=Experiment('demo_ct')),
            Row('Transformer-XL at equal cost of attention', tiny=Experiment('demo_txl')),
        ),
    ),
    Table(
        id='needle',
        title='the needle probe: values recalled, over all distances',
        source='',
        measure='accuracy',
        rows=(
            Row('Compressive Transformer', tiny=Experiment('needle_ct')),
            Row('Transformer-XL at equal cost of attention', tiny=Experiment('needle_txl')),
        ),
        kind=NEEDLE,
        note='A guess recalls one value in eight. By distance: [the needle probe](#needle-by-distance).',
    ),
)
