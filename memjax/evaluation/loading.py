"""A run's model with its parameters, for evaluation, sampling, and anyone's own use."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data.prepare import open_corpus
from memjax.data.store import Corpus
from memjax.data.tokenizers import Tokenizer
from memjax.errors import CheckpointError, ConfigError
from memjax.models.contract import LanguageModel
from memjax.models.factory import build_model, init_params
from memjax.runs import workdir as workdirs
from memjax.runs.checkpoint import Checkpoints


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained model.

    Attributes:
      config: of the run, with any overrides.
      model: with the memory lengths of evaluation.
      params: its parameters, float32.
      step: of the checkpoint.
      host: what training recorded with it: `tokens` read and `seconds` spent so far, `tokenizer` (a fingerprint).
    """

    config: config_dict.ConfigDict
    model: LanguageModel
    params: Any
    step: int
    host: dict[str, Any]


def load_run(
    workdir: epath.PathLike,
    step: int | str | None = None,
    config: config_dict.ConfigDict | None = None,
) -> Run:
    """Loads a run's parameters.

    Args:
      workdir: of the run.
      step: of a checkpoint; 'best': the best of validation; None: the newest good one.
      config: the run's config with overrides in `eval`; None: as it was trained.

    Raises:
      WorkdirError: no run is there.
      CheckpointError: no such checkpoint, none that is good, or it is of another model.
    """
    config = workdirs.read_config(workdir) if config is None else config
    model = build_model(evaluation_config(config).model)
    abstract = jax.eval_shape(
        lambda: init_params(model, evaluation_config(config).data.segment_length, jax.random.key(0))
    )
    with Checkpoints(epath.Path(workdir) / 'checkpoints') as checkpoints:
        found = find_checkpoint(checkpoints, step, workdir)
        params = checkpoints.restore_params(found, abstract)
        host = checkpoints.host(found)
    return Run(config=config, model=model, params=params, step=found, host=host)


def open_run(
    workdir: epath.PathLike, data_dir: epath.PathLike, config: config_dict.ConfigDict, step: int | str | None = None
) -> tuple[Run, Corpus]:
    """A run and the corpus that it is to be measured on.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are.
      config: the run's config with overrides in `eval`.
      step: as for `load_run`.

    Raises:
      UserError: as for `load_run`; the corpus is not prepared, has more symbols than the model knows, or another
        vocabulary than the run was trained with.
    """
    corpus = open_corpus(config.data, data_dir)
    check_vocabulary(config, corpus)
    run = load_run(workdir, step, config)
    check_tokenizer(run.host, corpus.tokenizer)
    return run, corpus


def check_vocabulary(config: config_dict.ConfigDict, corpus: Corpus) -> None:
    """Refuses a corpus with more symbols than the model knows.

    Raises:
      ConfigError: it has.
    """
    if corpus.vocab_size > config.model.vocab_size:
        raise ConfigError(
            f'{corpus.name} ({corpus.convention}) has {corpus.vocab_size:,} symbols, more than '
            f'model.vocab_size={config.model.vocab_size:,}'
        )


def check_tokenizer(host: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Refuses a vocabulary other than the one that a run was trained with: its ids would mean something else.

    Args:
      host: what training recorded with a checkpoint; one without `tokenizer` is taken at its word.
      tokenizer: of the prepared corpus.

    Raises:
      CheckpointError: it is another.
    """
    if host.get('tokenizer', tokenizer.fingerprint) != tokenizer.fingerprint:
        raise CheckpointError(
            'the run was trained with another vocabulary than the corpus has as it is prepared here: prepare it from '
            'the text that the run was trained on, or use another --data_dir'
        )


def load_params(workdir: epath.PathLike, abstract_params: Any) -> Any:
    """The parameters of a run's newest good checkpoint, to begin another run from.

    Args:
      workdir: of that run.
      abstract_params: shapes, dtypes and shardings that they must have.

    Raises:
      CheckpointError: there is no good one, or it is of another model.
    """
    workdir = epath.Path(workdir).expanduser()
    with Checkpoints(workdir / 'checkpoints') as checkpoints:
        return checkpoints.restore_params(find_checkpoint(checkpoints, None, workdir), abstract_params)


def find_checkpoint(checkpoints: Checkpoints, step: int | str | None, workdir: epath.PathLike) -> int:
    """The step of a checkpoint that was asked for as `load_run` is.

    Raises:
      CheckpointError: none is good, or none has a validation loss. Whether a given step is there is not looked at.
    """
    if isinstance(step, int):
        return step
    found = checkpoints.best_good() if step == 'best' else checkpoints.latest_good()
    if found is None:
        kind = 'checkpoint with a validation loss' if step == 'best' else 'good checkpoint'
        raise CheckpointError(f'{epath.Path(workdir)} has no {kind}')
    return found
