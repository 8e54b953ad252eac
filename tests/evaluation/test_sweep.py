from __future__ import annotations

import json

import pytest

from memjax.errors import ConfigError
from memjax.evaluation.loading import load_run
from memjax.evaluation.run import evaluate_run
from memjax.evaluation.sweep import sweep_run


def sweep(workdir, data_dir, values, what='compressed_memory_length', **options):
    return sweep_run(workdir, data_dir, load_run(workdir).config, what, values, 'validation', **options)


def test_each_value_scores_as_evaluation_with_it(tiny_config, data_dir, finished, capsys):
    workdir = finished(tiny_config, data_dir)
    capsys.readouterr()
    found = sweep(workdir, data_dir, [12, 0, 4])
    lines = capsys.readouterr().out.splitlines()
    assert [result['compressed_memory_length'] for result in found['results']] == [12, 0, 4]
    config = load_run(workdir).config
    for value, result in zip((12, 0, 4), found['results'], strict=True):
        config.eval.compressed_memory_length = value
        alone = evaluate_run(workdir, data_dir, config, 'validation')
        for each in (alone, result):
            each.pop('seconds')
            each.pop('compressors', None)
        assert result == {'compressed_memory_length': value, **alone}
        assert result['protocol']['compressed_memory_length'] == value
        assert f'{value}  bpc {result["bpc"]:.4f}' in lines.pop(0)
    losses = {result['compressed_memory_length']: result['nll_nats'] for result in found['results']}
    assert len(set(losses.values())) == 3
    assert found['best'] == min(losses, key=losses.get)


def test_file_and_figure_hold_what_was_found(tiny_config, data_dir, finished):
    workdir = finished(tiny_config, data_dir)
    found = sweep(workdir, data_dir, [8, 16], 'memory_length', step=2)
    path = workdir / 'eval' / 'sweep_memory_length_validation.json'
    assert json.loads(path.read_text()) == found
    assert (found['what'], found['split'], found['results'][0]['step']) == ('memory_length', 'validation', 2)
    assert path.with_suffix('.png').read_bytes().startswith(b'\x89PNG')


def test_what_is_done_is_in_the_file_when_a_later_value_fails(tiny_config, data_dir, finished, monkeypatch):
    workdir = finished(tiny_config, data_dir)
    from memjax.evaluation import sweep as module

    class Scorer(module.Scorer):
        def __init__(self, config):
            if config.eval.warmup == 9:
                raise KeyboardInterrupt
            super().__init__(config)

    monkeypatch.setattr(module, 'Scorer', Scorer)
    with pytest.raises(KeyboardInterrupt):
        sweep(workdir, data_dir, [8, 9], 'warmup')
    held = json.loads((workdir / 'eval' / 'sweep_warmup_validation.json').read_text())
    assert [result['warmup'] for result in held['results']] == [8]


def test_a_sweep_goes_on_where_it_was_stopped(tiny_config, data_dir, finished, monkeypatch, capsys):
    workdir = finished(tiny_config, data_dir)
    from memjax.evaluation import sweep as module

    scored = []

    class Scorer(module.Scorer):
        def __init__(self, config):
            scored.append(config.eval.segment_length)
            super().__init__(config)

    monkeypatch.setattr(module, 'Scorer', Scorer)
    first = sweep(workdir, data_dir, [8], 'segment_length')
    capsys.readouterr()
    both = sweep(workdir, data_dir, [4, 8], 'segment_length')
    assert scored == [8, 4]
    assert both['results'][0] == first['results'][0]
    assert [result['segment_length'] for result in both['results']] == [8, 4]
    assert [line.endswith('from before') for line in capsys.readouterr().out.splitlines()[:2]] == [False, True]
    # Another checkpoint, or another way of reading, is scored anew.
    sweep(workdir, data_dir, [8], 'segment_length', step=2)
    config = load_run(workdir).config
    config.eval.compressed_memory_length = 0
    sweep_run(workdir, data_dir, config, 'segment_length', [8], 'validation', step=2)
    assert scored == [8, 4, 8, 8]


@pytest.mark.parametrize(
    ('what', 'values', 'complaint'),
    [
        ('memory_length', [8, 12], 'eval.memory_length=12 does not divide by data.segment_length=8'),
        ('clamp_length', [8, 0], 'eval.clamp_length=0 must be at least 1'),
        ('num_layers', [1], "'num_layers' cannot be swept"),
        ('warmup', [], 'there are no values of warmup'),
    ],
)
def test_what_cannot_be_scored_is_refused_before_anything_is(
    tiny_config, data_dir, finished, what, values, complaint, capsys
):
    workdir = finished(tiny_config, data_dir)
    capsys.readouterr()
    with pytest.raises(ConfigError, match=complaint):
        sweep(workdir, data_dir, values, what)
    assert capsys.readouterr().out == ''
