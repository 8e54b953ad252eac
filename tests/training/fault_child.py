"""What `test_faults.py` runs in processes of its own: importable, so that a process can begin with it."""

from __future__ import annotations

import pathlib
import sys

from memjax.config import from_json
from memjax.data.prepare import prepare
from memjax.errors import UserError


def begin(action: str, config_json: str, workdir: str, data_dir: str, told: str) -> None:
    """Trains, or prepares anew; what is the user's to mend ends with exit code 2 and its line in the file `told`."""
    config = from_json(config_json)
    try:
        if action == 'train':
            from memjax.training.loop import train

            train(config, workdir, data_dir)
        else:
            prepare(config.data, data_dir, overwrite=True)
    except UserError as error:
        pathlib.Path(told).write_text(str(error))
        sys.exit(2)
