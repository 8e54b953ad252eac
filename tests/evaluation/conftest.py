"""A finished run that all tests of what comes after training share."""

from __future__ import annotations

import pytest

from memjax.training.loop import train


@pytest.fixture(scope='session')
def finished(tmp_path_factory):
    """A function: the workdir of a finished run with everything that comes at the end, made once."""
    made = {}

    def make(config, data_dir):
        if not made:
            config.training.update({'num_steps': 4, 'checkpoint_every': 2, 'eval_every': 2, 'log_every': 2})
            config.training.figure = True
            config.eval.update({'after_training': 'test', 'compressors': ('gzip', 'xz')})
            config.sample.update({'after_training': True, 'prompt': 'the quick', 'length': 5})
            made['workdir'] = tmp_path_factory.mktemp('finished')
            train(config, made['workdir'], data_dir)
        return made['workdir']

    return make
