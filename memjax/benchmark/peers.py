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
    """

    name: str
    requirements: tuple[str, ...]
    program: Path

    def python(self, folder: Path, install: bool) -> Path:
        """The interpreter of its environment.

        Args:
          folder: where environments are kept; this one's is named after the peer.
          install: make it if it is not there.

        Raises:
          BenchmarkError: it is not there, or cannot be made.
        """
        environment = folder / self.name
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
            subprocess.run([python, '-m', 'pip', 'install', '--quiet', *self.requirements], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise BenchmarkError(f'cannot install {needed} into {environment}: {error}') from error
        done.write_text('\n'.join(self.requirements))
        return python


TRANSFO_XL = Peer(
    name='transfoxl',
    requirements=('torch==2.13.0', 'transformers==4.35.2', 'numpy<2'),
    program=Path(__file__).with_name('transfo_xl_peer.py'),
)
