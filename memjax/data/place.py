"""Where a corpus lies in a data directory, and from which source.

    NAME/records/SPLIT_RULE/       the text as TFDS records (memjax.data.builders), shared by all conventions
    NAME/CONVENTION-FINGERPRINT/   a token store (memjax.data.store); the fingerprint is that of all that decides tokens
                                   and splits, besides the source
    NAME/.scratch/                 what is under way; stale where a preparation was killed

A data directory that is no file system (gs://..) has the token stores only; the rest is in a local cache.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etils import epath
from ml_collections import config_dict

from memjax.config import base_config
from memjax.data.corpora import CorpusSpec, corpus_spec
from memjax.data.remote import is_remote, local_directory
from memjax.data.store import FORMAT, META
from memjax.data.words import WordRules
from memjax.errors import DataError

# Fields that decide tokens and are no flag of the command that prepares.
_TOLD = (
    'documents', 'sentencepiece_vocab_size', 'min_word_count', 'subset', 'validation_fraction', 'test_fraction',
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """The paths of one corpus in one convention.

    Attributes:
      spec: the corpus.
      data_dir: as the user named it.
      local: the directory that is used from here: `data_dir`, or its local cache.
      store: the token store.
      remote_store: the same at its remote place, or None.
      records: the TFDS records.
      convention: what a symbol is.
      fields: of `config.data`, those that the command to prepare it must set.
    """

    spec: CorpusSpec
    data_dir: epath.Path
    local: Path
    store: Path
    remote_store: epath.Path | None
    records: Path
    convention: str
    fields: dict[str, Any]

    @property
    def folder(self) -> Path:
        """The corpus's local folder."""
        return self.local / self.spec.name

    @property
    def incomplete(self) -> Path:
        """The token store while it is being written."""
        return self.store.with_name(self.store.name + '.incomplete')

    @property
    def command(self) -> str:
        """The command that prepares the corpus here."""
        command = (
            f'python launch/prepare.py --dataset={self.spec.name} --data_dir={shlex.quote(os.fspath(self.data_dir))}'
        )
        if self.convention != 'bytes':
            command += f' --convention={self.convention}'
        if self.fields:
            command += ' ' + ' '.join(f'--config.data.{name}={value}' for name, value in self.fields.items())
        return command if self.spec.fixed_text else f'{command} --source=FOLDER'

    @property
    def remedy(self) -> str:
        """What to do about damaged data."""
        return f'prepare it again with {self.command} --overwrite'

    def is_prepared(self) -> bool:
        """Whether there is a store, good or damaged."""
        return self.store.exists() if self.remote_store is None else (self.remote_store / META).exists()

    def other_sources(self, identity: str) -> dict[epath.Path, str]:
        """Everything of this corpus that was made from another source than `identity`: its path -> that source."""
        folders = {epath.Path(self.folder), self.data_dir / self.spec.name}
        found = {}
        for folder in folders:
            for path, source in _prepared(folder):
                if source['identity'] != identity:
                    found[path] = source['location']
        return found


def find_place(data: config_dict.ConfigDict, data_dir: os.PathLike | str) -> Place:
    """The place of the corpus that `config.data` names.

    Raises:
      DataError: unknown corpus, or a convention or documents that it does not have.
    """
    spec = corpus_spec(data.name)
    if data.convention not in spec.conventions:
        known = ', '.join(spec.conventions)
        raise DataError(f'the corpus {spec.name} has no convention {data.convention!r}, known: {known}')
    data_dir = epath.Path(data_dir).expanduser()
    local = local_directory(data_dir)
    rule, default = spec.split_rule(data), base_config().data
    decisive = [FORMAT, spec.name, data.convention, rule]
    if len(spec.splitters) > 1:
        decisive.append({'documents': spec.documents(data)})
    if data.convention == 'sentencepiece':
        decisive.append({'sentencepiece_vocab_size': data.sentencepiece_vocab_size})
    if data.convention == 'words':
        decisive.append({'min_word_count': word_rules(spec, data).min_count})
    key = f'{data.convention}-{hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:12]}'
    return Place(
        spec=spec,
        data_dir=data_dir,
        local=local,
        store=local / spec.name / key,
        remote_store=data_dir / spec.name / key if is_remote(data_dir) else None,
        records=local / spec.name / 'records' / rule,
        convention=data.convention,
        fields={name: data[name] for name in _TOLD if data[name] != default[name]},
    )


def word_rules(spec: CorpusSpec, data: config_dict.ConfigDict) -> WordRules:
    """How the corpus's words are read, with what `config.data` changes of it."""
    if data.min_word_count is None:
        return spec.word_rules
    return dataclasses.replace(spec.word_rules, min_count=data.min_word_count)


def _prepared(folder: epath.Path) -> Iterator[tuple[epath.Path, dict[str, Any]]]:
    """Stores and records in a corpus's folder with their source; what is too damaged to tell is left out."""
    described = [(path.parent, path) for path in folder.glob(f'*/{META}')]
    described += [(path.parents[2], path) for path in folder.glob('records/*/*/*/metadata.json')]
    for directory, description in described:
        try:
            source = json.loads(description.read_text())['source']
            yield directory, {'identity': source['identity'], 'location': source['location']}
        except (OSError, ValueError, TypeError, KeyError):
            continue
