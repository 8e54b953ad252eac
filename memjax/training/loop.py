"""The training of one run: from a config to checkpoints, metrics and, at the end, its evaluation.

Run again on the same workdir, it goes on from the newest good checkpoint as if it had never stopped: the checkpoint
holds parameters, optimizer, memory, running sums and the data's cursor.
"""

from __future__ import annotations

import math
import time
from typing import Any

import jax
import numpy as np
from absl import logging
from etils import epath
from ml_collections import config_dict

from memjax.config_checks import check
from memjax.data.prepare import open_corpus
from memjax.data.store import Corpus
from memjax.data.streams import Batch, TrainingStream, prefetched
from memjax.data.tokenizers import CHARACTER_CONVENTIONS
from memjax.errors import CheckpointError, TrainingError
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import check_tokenizer, check_vocabulary, load_params
from memjax.models.contract import Segment
from memjax.models.factory import build_model, init_params
from memjax.runs.checkpoint import Checkpoints
from memjax.runs.metrics import open_writers
from memjax.runs.workdir import check_environment, check_same_run, exclusive
from memjax.training import sharding
from memjax.training.branch import begin_branch, settled
from memjax.training.ending import end_of_training
from memjax.training.optimizer import learning_rate, make_optimizer
from memjax.training.progress import Progress
from memjax.training.signals import StopSignal
from memjax.training.step import TrainState, empty_sums, init_state, make_step, scalar_names

_PREFETCH = 2
_NEW_HOST = {'cursor': None, 'tokens': 0, 'logged_tokens': 0, 'seconds': 0.0, 'best': None}


def train(config: config_dict.ConfigDict, workdir: epath.PathLike, data_dir: epath.PathLike) -> None:
    """Trains a run to its end, or on from where it stopped; a finished one is left as it is.

    Args:
      config: a whole config.
      workdir: where the run lives; created if it is not there.
      data_dir: where prepared corpora are; one that needs no download is prepared.

    Raises:
      UserError: the config, the corpus or the workdir cannot be used, or the loss is not finite.
      SystemExit: 143 or 130, after SIGTERM or SIGINT; everything is saved then.
    """
    check(config)
    config = settled(config, workdir)
    corpus = open_corpus(config.data, data_dir)
    check_vocabulary(config, corpus)
    training = Training(config, corpus)
    with exclusive(workdir, jax.process_index()) as workdir:
        if jax.process_index() == 0:
            check_same_run(workdir, config)
            check_environment(workdir)
        stopped_by = training.run(workdir)
    if stopped_by is not None:
        raise SystemExit(128 + stopped_by)
    end_of_training(config, workdir, data_dir)


class Training:
    """What is fixed for a training: model, data, mesh and the compiled step."""

    def __init__(self, config: config_dict.ConfigDict, corpus: Corpus):
        """Builds it; nothing is written.

        Raises:
          UserError: the batch does not fit the corpus or the devices.
        """
        self.config = config
        self._corpus = corpus
        self._is_character = corpus.convention in CHARACTER_CONVENTIONS
        data, training = config.data, config.training
        self._stream = TrainingStream(
            corpus.splits['train'],
            data.batch_size,
            data.segment_length,
            training.segments_per_step,
            training.seed,
            data.piece_length,
            jax.process_index(),
            jax.process_count(),
        )
        self._mesh = sharding.make_mesh(config.mesh)
        self._batch_sharding = sharding.batch_sharding(self._mesh, 1, data.batch_size)
        self._model = build_model(config.model)
        self._optimizer = make_optimizer(training)
        self._abstract_params = jax.eval_shape(self._init_params)
        self._names = self._scalar_names()
        state = jax.eval_shape(self._init_state, self._abstract_params)
        self._shardings = self._state_shardings(state)
        self._abstract_state = sharding.placed(state, self._shardings)
        self._step = jax.jit(
            make_step(self._model, self._optimizer, training.seed, training.half_loss),
            donate_argnums=0,
            in_shardings=(self._shardings, self._batch_sharding),
            out_shardings=self._shardings,
        )
        # Jitted, so that no two sums share a buffer, which could not be donated.
        self._empty_sums = jax.jit(lambda: empty_sums(self._names), out_shardings=self._shardings.sums)
        self._rate = learning_rate(training)
        self._scorer = Scorer(config, self._mesh)

    def run(self, workdir: epath.Path) -> int | None:
        """Trains until `num_steps`, or a signal; returns its number."""
        training = self.config.training
        with Checkpoints(workdir / 'checkpoints', training.checkpoints_to_keep) as checkpoints:
            resumed = checkpoints.latest_good()
            if resumed is not None and resumed >= training.num_steps:
                logging.warning('%s is finished: it has %d of %d steps', workdir, resumed, training.num_steps)
                return None
            if resumed is None:
                state, begin, host = self._begin()
            else:
                checkpoints.discard_after(resumed)
                self.check_corpus(checkpoints.host(resumed))
                state, host = self._restore(checkpoints, resumed)
                begin = resumed
            writers = open_writers(workdir, resumed, jax.process_index())
            progress = Progress(training.num_steps, begin, enabled=jax.process_index() == 0)
            try:
                with progress, StopSignal(jax.process_count()) as stop:
                    return _Loop(self, state, host, begin, checkpoints, writers, progress, stop).run()
            finally:
                writers.close()

    @property
    def fingerprints(self) -> dict[str, str]:
        """What a checkpoint records of the data: of the vocabulary, and of all tokens with it."""
        return {'tokenizer': self._corpus.tokenizer.fingerprint, 'corpus': self._corpus.fingerprint}

    def check_corpus(self, host: dict[str, Any]) -> None:
        """Refuses data other than those in which a checkpoint has its place.

        Raises:
          CheckpointError: they are.
        """
        check_tokenizer(host, self._corpus.tokenizer)
        if host.get('corpus', self._corpus.fingerprint) != self._corpus.fingerprint:
            raise CheckpointError(
                f'the checkpoint has its place in another text than {self._corpus.name} as it is prepared here'
            )

    def batches(self, cursor: Any) -> Any:
        """Endless batches of this process's rows from a cursor on, made ahead in the background."""
        return prefetched(self._stream.batches(cursor), _PREFETCH)

    def step(self, state: TrainState, batch: Batch) -> TrainState:
        """One step; the state given is consumed."""
        segment = Segment(
            inputs_BxT=batch.inputs_SxBxT,
            targets_BxT=batch.targets_SxBxT,
            weights_BxT=batch.weights_SxBxT,
            start_B=batch.start_SxB,
            lengths_B=batch.lengths_SxB,
        )
        return self._step(state, sharding.put_batch(segment, self._batch_sharding))

    def clear_sums(self, state: TrainState) -> TrainState:
        """The state with nothing measured."""
        return state.replace(sums=self._empty_sums())

    def validate(self, params: Any) -> dict[str, float]:
        """Loss and its measure on the validation split, or as many of its segments as the config says."""
        score = self._scorer.score(
            params, self._corpus.splits['validation'], max_segments=self.config.training.eval_segments
        )
        return self.measured(score.loss)

    def measured(self, loss: float) -> dict[str, float]:
        """`loss` in nats with `bpc`, or `ppl` where symbols are no characters."""
        measure = {'bpc': loss / math.log(2)} if self._is_character else {'ppl': float(np.exp(loss))}
        return {'loss': loss, **measure}

    def rate(self, step: int) -> float:
        """The learning rate at a step."""
        return float(self._rate(step))

    def _init_params(self) -> Any:
        key = jax.random.key(self.config.training.seed)
        return init_params(self._model, self.config.data.segment_length, key)

    def _init_state(self, params: Any) -> TrainState:
        return init_state(self._model, self._optimizer, params, self.config.data.batch_size, self._names)

    def _scalar_names(self) -> list[str]:
        shape = (1, self.config.data.batch_size, self.config.data.segment_length)
        whole, rows = (lambda dtype: jax.ShapeDtypeStruct(shape, dtype)), shape[:2]
        batch = Segment(
            inputs_BxT=whole(np.int32),
            targets_BxT=whole(np.int32),
            weights_BxT=whole(np.float32),
            start_B=jax.ShapeDtypeStruct(rows, bool),
            lengths_B=jax.ShapeDtypeStruct(rows, np.int32),
        )
        return scalar_names(self._model, self._abstract_params, batch)

    def _state_shardings(self, state: TrainState) -> TrainState:
        whole = sharding.replicated(self._mesh)
        return TrainState(
            step=whole,
            params=sharding.param_shardings(self._mesh, state.params),
            opt_state=sharding.param_shardings(self._mesh, state.opt_state),
            memory=sharding.memory_shardings(self._mesh, self._model.init_memory, self.config.data.batch_size),
            sums=jax.tree.map(lambda _: whole, state.sums),
            fault=jax.tree.map(lambda _: whole, state.fault),
        )

    def _begin(self) -> tuple[TrainState, int, dict[str, Any]]:
        """What a run begins with: its state, the steps behind it, and what is recorded beside it."""
        if self.config.training.branch_from is None:
            return self._new_state(), 0, _NEW_HOST
        state, step, host = begin_branch(self.config, self._abstract_state, self._mesh)
        self.check_corpus(host)
        return self.clear_sums(state), step, host

    def _new_state(self) -> TrainState:
        init_from = self.config.training.init_from
        if init_from is None:
            params = jax.jit(self._init_params, out_shardings=self._shardings.params)()
        else:
            params = load_params(init_from, self._abstract_state.params)
        return jax.jit(self._init_state, out_shardings=self._shardings)(params)

    def _restore(self, checkpoints: Checkpoints, step: int) -> tuple[TrainState, dict[str, Any]]:
        abstract = self._abstract_state
        params, rest, host = checkpoints.restore(step, abstract.params, abstract.replace(params=None))
        return rest.replace(params=params), host


class _Loop:
    """The steps of one process's life, and what happens between them."""

    def __init__(self, training, state, host, step, checkpoints, writers, progress, stop):
        self._training, self._state, self._step = training, state, step
        self._checkpoints, self._writers, self._progress, self._stop = checkpoints, writers, progress, stop
        self._cursor, self._best = host['cursor'], host['best']
        self._logged_tokens, self._seconds_before = host['logged_tokens'], host['seconds']
        self._fields = training.config.training
        self._began = self._logged_at = time.monotonic()
        self._waited = 0.0  # seconds, for data, since the last report

    def run(self) -> int | None:
        """Returns the number of the signal that ended it, or None at `num_steps`."""
        fields = self._fields
        batches = self._training.batches(self._cursor)
        try:
            while self._step < fields.num_steps:
                asked = time.monotonic()
                batch = next(batches)
                self._waited += time.monotonic() - asked
                self._state = self._training.step(self._state, batch)
                self._cursor = batch.cursor
                self._step += 1
                self._progress.advance(self._step)
                self._between_steps()
                signal = self._stop.requested(self._step)
                if signal is not None:
                    if self._step < fields.num_steps:  # or it is saved already
                        self._save(None)
                    self._progress.note(f'stopped by signal {signal} after step {self._step}; saved')
                    return signal
        finally:
            batches.close()
        return None

    def _between_steps(self) -> None:
        fields, step = self._fields, self._step
        is_last = step == fields.num_steps
        if step % fields.log_every == 0 or is_last:
            self._log()
        validation_loss = None
        if is_last or (fields.eval_every is not None and step % fields.eval_every == 0):
            validation_loss = self._validate()
        improved = validation_loss is not None and (self._best is None or validation_loss < self._best)
        if improved:
            self._best = validation_loss
        if improved or is_last or step % fields.checkpoint_every == 0:
            self._save(validation_loss)

    def _log(self) -> None:
        sums = jax.device_get(self._state.sums)
        self._check_finite()
        self._logged_tokens += int(sums.tokens)
        now = time.monotonic()
        rate = int(sums.tokens) / (now - self._logged_at)
        # At most what data cost: steps dispatched before may have kept the device busy meanwhile.
        wait_share = min(self._waited / (now - self._logged_at), 1.0)
        self._logged_at, self._waited = now, 0.0
        # An interval may hold padding alone.
        loss = float(sums.nll) / int(sums.scored) if sums.scored else float('nan')
        measured = self._training.measured(loss)
        self._writers.write(
            self._step,
            'train',
            {
                **measured,
                'tokens': self._logged_tokens,
                'tokens_per_second': rate,
                'data_wait_share': wait_share,
                'learning_rate': self._training.rate(self._step - 1),
                **{name: float(total) / int(sums.steps) for name, total in sums.scalars.items()},
            },
        )
        self._progress.report(_in_words(measured), rate, wait_share)
        self._state = self._training.clear_sums(self._state)

    def _validate(self) -> float:
        began = time.monotonic()
        self._check_finite()
        measured = self._training.validate(self._state.params)
        seconds = time.monotonic() - began
        self._logged_at += seconds  # so that the next rate is training's alone
        self._writers.write(self._step, 'validation', {**measured, 'tokens': self._total_tokens()})
        self._progress.note(f'step {self._step}: validation {_in_words(measured)}')
        return measured['loss']

    def _save(self, validation_loss: float | None) -> None:
        self._check_finite()
        self._writers.flush()
        host = {
            'cursor': self._cursor,
            'tokens': self._total_tokens(),
            'logged_tokens': self._logged_tokens,  # the rest is in the state's sums
            'seconds': self._seconds_before + time.monotonic() - self._began,
            'best': self._best,
            **self._training.fingerprints,
        }
        self._checkpoints.save(self._step, self._state.params, self._state.replace(params=None), host, validation_loss)

    def _total_tokens(self) -> int:
        return self._logged_tokens + int(self._state.sums.tokens)

    def _check_finite(self) -> None:
        fault = jax.device_get(self._state.fault)
        if fault.step >= 0:
            where = f'row {fault.row} of the batch' if fault.row >= 0 else 'the gradient alone'
            raise TrainingError(
                f'not finite at step {fault.step}, {where}: nothing was saved since; a lower training.learning_rate or '
                f'training.gradient_clip may help'
            )


def _in_words(measured: dict[str, float]) -> str:
    (name, value), loss = list(measured.items())[1], measured['loss']
    return f'loss {loss:.4f} ({value:.3f} {name})'
