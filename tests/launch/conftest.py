"""Launchers as modules, and stand-ins for the functions that they call."""

import importlib
import importlib.util
import inspect
import pathlib

import pytest

from memjax import command_line
from memjax.config import base_config, to_json

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def launch(capsys):
    """A function: runs a launcher in this process; returns its exit code, standard output and error."""

    def run(name: str, *arguments: str) -> tuple[int, str, str]:
        spec = importlib.util.spec_from_file_location(f'launch_{name}', ROOT / 'launch' / f'{name}.py')
        module = importlib.util.module_from_spec(spec)  # anew each time: its flags keep what was parsed
        spec.loader.exec_module(module)
        with pytest.raises(SystemExit) as exit_:
            command_line.main(module.COMMAND, [f'launch/{name}.py', *map(str, arguments)])
        out, err = capsys.readouterr()
        return exit_.value.code or 0, out, err

    return run


@pytest.fixture
def refusal(launch):
    """A function: the one line with which a launcher that is given these arguments ends, at exit code 2."""

    def of(*arguments) -> str:
        code, out, err = launch(*arguments)
        assert (code, out) == (2, '')
        assert err.startswith('error: ')
        assert err.endswith('\n')
        assert err.count('\n') == 1
        return err.removeprefix('error: ').rstrip('\n')

    return of


@pytest.fixture
def stand_in(monkeypatch):
    """A function: puts a recorder of the same signature in a function's place; returns the list of its calls."""

    def replace(module: str, function: str, result=None) -> list[dict]:
        calls = []
        real = getattr(importlib.import_module(module), function)
        signature = inspect.signature(real)

        def record(*args, **kwargs):
            calls.append(signature.bind(*args, **kwargs).arguments)
            return result

        monkeypatch.setattr(f'{module}.{function}', record)
        return calls

    return replace


@pytest.fixture
def workdir(tmp_path):
    """The directory of a run, as far as a launcher looks at it."""
    config = base_config()
    config.name = 'a_run'
    config.model.num_layers = 3
    config.sample.temperature = 0.7
    path = tmp_path / 'a_run'
    path.mkdir()
    (path / 'config.json').write_text(to_json(config))
    return path
