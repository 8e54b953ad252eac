"""Other implementations, each in a Python environment of its own that is made when it is first needed."""

from __future__ import annotations

import dataclasses
import subprocess
import venv
from pathlib import Path

from memjax.errors import BenchmarkError


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another implementation.

    Attributes:
      name: in results.
      requirements: what pip installs for it.
      program: a system as `work.py` describes it.
      title: in tables; '' for the name.
      arguments: the program's.
      environment: the name of its environment, which others of the same requirements may share; '' for its own name.
    """

    name: str
    requirements: tuple[str, ...]
    program: Path
    title: str = ''
    arguments: tuple[str, ...] = ()
    environment: str = ''

    def python(self, folder: Path, install: bool) -> Path:
        """The interpreter of its environment.

        Args:
          folder: where environments are kept.
          install: make it if it is not there.

        Raises:
          BenchmarkError: it is not there, or cannot be made.
        """
        environment = folder / (self.environment or self.name)
        python = environment / 'bin' / 'python'
        done = environment / 'installed'
        if done.exists() and done.read_text().split() == list(self.requirements):
            return python
        needed = ' '.join(self.requirements)
        if not install:
            raise BenchmarkError(f'{self.name} is not installed in {environment}: run once without --noinstall')
        print(f'{self.name}: installing {needed} into {environment}', flush=True)
        try:
            venv.create(environment, clear=True, with_pip=True)
            subprocess.run(
                [python, '-m', 'pip', 'install', '--quiet', *self.requirements],
                check=True,
                stderr=subprocess.PIPE,
                text=True,
            )
            done.write_text('\n'.join(self.requirements))
        except (OSError, subprocess.CalledProcessError) as error:
            # pip's own words tell more than its exit status.
            said = [line for line in (getattr(error, 'stderr', None) or '').splitlines() if line.startswith('ERROR')]
            reason = said[-1] if said else error
            raise BenchmarkError(f'cannot install {needed} into {environment}: {reason}') from error
        return python

    def command(self, folder: Path, install: bool) -> list[str]:
        """What runs it: interpreter, program and arguments; as `python`, and with its errors."""
        return [str(self.python(folder, install)), str(self.program), *self.arguments]


TORCH = 'torch==2.13.0'
TRANSFO_XL = Peer(
    name='transfoxl',
    requirements=(TORCH, 'transformers==4.35.2', 'numpy<2'),
    program=Path(__file__).with_name('transfo_xl_peer.py'),
    title='TransfoXL',
)
X_TRANSFORMERS = Peer(
    name='xtransformers',
    requirements=(TORCH, 'x-transformers==2.31.10'),
    program=Path(__file__).with_name('x_transformers_peer.py'),
    title='x-transformers',
)
# Another way to evaluate with the same library.
X_TRANSFORMERS_CACHE = dataclasses.replace(
    X_TRANSFORMERS,
    name='xtransformers_cache',
    title='x-transformers, its cache',
    arguments=('cache',),
    environment=X_TRANSFORMERS.name,
)
CT_PYTORCH = Peer(
    name='ctpytorch',
    requirements=(TORCH, 'compressive-transformer-pytorch==0.4.0'),
    program=Path(__file__).with_name('ct_pytorch_peer.py'),
    title='compressive-transformer-pytorch',
)
