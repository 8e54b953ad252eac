"""Environments of other implementations, and their programs as far as they go without PyTorch."""

import json
import os
import subprocess
import sys
import types

import pytest

from memjax.benchmark import ct_pytorch_peer, torch_peer, x_transformers_peer
from memjax.benchmark import peers as module
from memjax.benchmark.comparisons import COMPARISONS
from memjax.benchmark.peers import X_TRANSFORMERS, X_TRANSFORMERS_CACHE, Peer
from memjax.errors import BenchmarkError

REQUEST = {'kind': 'evaluate', 'batch_size': 2, 'segment_length': 4, 'memory_length': 8, 'count': 3}


def test_an_implementation_that_is_not_there(tmp_path):
    peer = Peer('absent', ('nothing==1',), tmp_path / 'program.py')
    with pytest.raises(BenchmarkError, match='absent is not installed'):
        peer.python(tmp_path, install=False)


def test_an_installation_that_fails_is_told_in_pips_words(tmp_path, monkeypatch):
    complaint = 'WARNING: slow\nERROR: no such thing\n\n[notice] a new pip'

    def fail(command, **_):
        assert command[-1] == 'nothing==1'
        raise subprocess.CalledProcessError(1, command, stderr=complaint)

    monkeypatch.setattr(module.venv, 'create', lambda *_, **__: None)
    monkeypatch.setattr(module.subprocess, 'run', fail)
    with pytest.raises(BenchmarkError, match=r'^cannot install nothing==1 into .*absent: ERROR: no such thing$'):
        Peer('absent', ('nothing==1',), tmp_path / 'program.py').python(tmp_path, install=True)
    assert not (tmp_path / 'absent' / 'installed').exists()


def test_two_ways_with_one_library_share_its_environment(tmp_path):
    environment = tmp_path / X_TRANSFORMERS.name
    environment.mkdir()
    (environment / 'installed').write_text('\n'.join(X_TRANSFORMERS.requirements))
    python, program = str(environment / 'bin' / 'python'), str(X_TRANSFORMERS.program)
    assert X_TRANSFORMERS.command(tmp_path, install=False) == [python, program]
    assert X_TRANSFORMERS_CACHE.command(tmp_path, install=False) == [python, program, 'cache']


def test_every_peer_has_a_program_and_names_of_its_own():
    peers = {each.peer for each in COMPARISONS.values()}
    assert all(peer.program.is_file() for peer in peers)
    assert len({peer.name for peer in peers}) == len({peer.title for peer in peers}) == len(peers)


@pytest.fixture
def torch(monkeypatch):
    class NoGrad:
        inside = False

        def __enter__(self):
            NoGrad.inside = True

        def __exit__(self, *_):
            NoGrad.inside = False

    monkeypatch.setitem(sys.modules, 'torch', types.SimpleNamespace(no_grad=NoGrad))
    monkeypatch.setattr(torch_peer, '_BUILT', {})
    return NoGrad


def test_a_program_builds_once_for_all_counts_and_warms_up(torch):
    counts, built = [], []

    def build(request):
        def run(count):
            assert torch.inside
            counts.append(count)

        built.append(request['memory_length'])
        return run, 7

    assert torch_peer.answer(REQUEST, (), build)['tokens'] == 2 * 4 * 3
    done = torch_peer.answer({**REQUEST, 'count': 5}, (), build)
    assert (done['tokens'], done['bytes']) == (2 * 4 * 5, 7) and done['seconds'] > 0
    assert (built, counts) == ([8], [2, 3, 2, 5])
    assert torch_peer.answer({**REQUEST, 'kind': 'decode'}, (), build)['tokens'] == 2 * 3
    torch_peer.answer({**REQUEST, 'memory_length': 16}, (), build)
    assert built == [8, 8, 16]


def test_what_a_library_prints_is_no_answer(tmp_path):
    (tmp_path / 'torch.py').write_text('import contextlib\nno_grad = contextlib.nullcontext\n')
    program = tmp_path / 'program.py'
    program.write_text("""
from torch_peer import serve
def build(request):
    print('what a library says')
    return (lambda count: print(count)), 7
serve((), build)
""")
    done = subprocess.run(
        [sys.executable, program],
        input=f'{json.dumps(REQUEST)}\n',
        env={**os.environ, 'PYTHONPATH': str(X_TRANSFORMERS.program.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)['tokens'] == 24 and 'what a library says' in done.stderr


def test_x_transformers_cache_keeps_the_last_slots_of_each_layer():
    numpy = pytest.importorskip('numpy')

    def cache_of(slots):
        layers = [
            types.SimpleNamespace(layer_type=kind, cached_kv=(numpy.arange(slots)[:, None],) * 2) for kind in 'aca'
        ]
        return types.SimpleNamespace(attn_intermediates=layers)

    def model(tokens, *, cache, return_intermediates, input_not_include_cache, cache_age):
        assert return_intermediates and input_not_include_cache
        assert cache_age == tokens.shape[1]  # else all tokens but the last are left out
        return 'logits', cache_of(len(cache.attn_intermediates[0].cached_kv[0]) + cache_age)

    logits, cache = x_transformers_peer._step(model, numpy.zeros((1, 3)), cache_of(8), 8)
    assert logits == 'logits'
    first, other, last = cache.attn_intermediates
    for each in (first, last):
        assert [part[:, 0].tolist() for part in each.cached_kv] == [list(range(3, 11))] * 2
    assert len(other.cached_kv[0]) == 11


def test_what_the_compressive_transformer_of_pytorch_cannot_do():
    with pytest.raises(ValueError, match='by segments only'):
        ct_pytorch_peer.build({**REQUEST, 'kind': 'decode'})
    with pytest.raises(ValueError, match='4 times model_dim, not 7'):
        ct_pytorch_peer.build({**REQUEST, 'model_dim': 8, 'mlp_dim': 7})
    assert [each.impossible != '' for each in COMPARISONS.values() if each.peer.name == 'ctpytorch'] == [
        each.work.kind == 'decode' for each in COMPARISONS.values() if each.peer.name == 'ctpytorch'
    ]
