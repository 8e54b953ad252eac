"""Made-up result files, and an experiment that they are of."""

import json

import pytest

from memjax.config import evaluation_config
from memjax.evaluation import results


@pytest.fixture
def score_of():
    """A function: what a result file of an experiment holds, with an invented figure."""

    def make(experiment, seed=0, bpc=2.0, **changes):
        config = experiment.load(seed)
        used = evaluation_config(config)
        score = {
            'config': experiment.run_name,
            'commit': '0' * 40,
            'seed': seed,
            'step': config.training.num_steps,
            'parameters': 1234,
            'train_tokens': 5_000_000,
            'train_seconds': 100.0,
            'dataset': config.data.name,
            'convention': config.data.convention,
            'split': 'test',
            'targets': 1000,
            'scored': 1000,
            'nll_nats': 693.0 * bpc,
            'token_perplexity': 2.0**bpc,
            'protocol': {**results.protocol_of(config), 'warmup': 16},
            'seconds': 60.0,
            'bpc': bpc,
        }
        assert score['protocol']['segment_length'] == used.data.segment_length
        return score | changes

    return make


@pytest.fixture
def results_dir(tmp_path):
    """An empty folder of results."""
    (tmp_path / 'results' / 'runs').mkdir(parents=True)
    return tmp_path / 'results'


@pytest.fixture
def put(results_dir):
    """A function: writes a result file, and returns its path."""

    def write(name, data):
        path = results_dir / 'runs' / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    return write
