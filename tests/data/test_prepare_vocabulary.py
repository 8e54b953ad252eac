"""Preparing words and subwords: which store is whose, and what is not done twice."""

from __future__ import annotations

import json

import numpy as np
import pytest

from memjax.data import prepare as prepare_module
from memjax.data import wikitext103
from memjax.data.place import find_place
from memjax.data.prepare import open_corpus, prepare
from memjax.errors import DataError

TEXT = ' \n = A = \n \n the cat sat on the mat . \n \n = B = \n \n the <unk> sat . \n'


@pytest.fixture
def wikitext(tmp_path):
    """A part of WikiText: the same two articles in each split, 17 words and 8 line ends."""
    folder = tmp_path / 'wikitext'
    folder.mkdir()
    for name in wikitext103.WIKITEXT103.file_names.values():
        (folder / name).write_text(TEXT)
    return folder


def test_every_field_that_decides_tokens_has_a_store_of_its_own(tmp_path, data_config):
    def key(**fields):
        return find_place(data_config(**fields), tmp_path).store

    keys = [
        key(name='wikitext103'),
        key(name='wikitext103', documents='articles'),
        key(name='wikitext103', subset=True),
        key(name='wikitext103', convention='words'),
        key(name='wikitext103', convention='words', min_word_count=2),
        key(name='wikitext103', convention='sentencepiece'),
        key(name='wikitext103', convention='sentencepiece', sentencepiece_vocab_size=100),
    ]
    assert len(set(keys)) == len(keys)
    assert key(name='wikitext103', documents='stream') == keys[0]  # the default
    assert key(name='wikitext103', min_word_count=9) == keys[0]  # bytes have no words
    # What was prepared before there were such fields stays where it is.
    assert key().name == 'bytes-f8fbcc7534ec'


def test_the_command_that_is_named_prepares_the_same(tmp_path, data_config):
    data = data_config(name='wikitext103', convention='words', documents='articles', subset=True)
    with pytest.raises(DataError) as caught:
        open_corpus(data, tmp_path)
    assert str(caught.value).endswith(
        f'--dataset=wikitext103 --data_dir={tmp_path} --convention=words --config.data.documents=articles '
        f'--config.data.subset=True --source=FOLDER'
    )


def test_the_command_tells_how_much_is_held_out(tmp_path, data_config):
    with pytest.raises(DataError) as caught:
        open_corpus(data_config(name='files', test_fraction=0.2), tmp_path)
    assert ' --config.data.test_fraction=0.2 ' in str(caught.value)


def test_a_link_that_leads_nowhere_may_lie_beside_the_text(wikitext, tmp_path, data_config):
    (wikitext / 'elsewhere').symlink_to(tmp_path / 'absent')
    data = data_config(name='wikitext103', convention='words', subset=True, path=str(wikitext))
    assert prepare(data, tmp_path, source=str(wikitext), progress=False).splits['test'].words == 25


def test_articles_and_the_stream(wikitext, tmp_path, data_config):
    data = data_config(name='wikitext103', convention='words', subset=True, path=str(wikitext))
    stream = open_corpus(data, tmp_path / 'data')
    test = stream.splits['test']
    assert (len(test.tokens), test.num_documents, test.num_targets) == (25, 1, 24)
    assert (test.words, test.word_unit) == (25, 'words and line ends')
    assert test.note == 'a subset of 25 of 245,569 tokens'
    assert stream.documents == 'stream'
    assert stream.tokenizer.counts.sum() == 25
    data.documents = 'articles'
    articles = open_corpus(data, tmp_path / 'data')
    assert np.array_equal(articles.splits['test'].tokens, test.tokens)
    assert articles.splits['test'].document_offsets.tolist() == [0, 15, 25]
    assert articles.tokenizer.fingerprint == stream.tokenizer.fingerprint


def test_the_same_text_has_as_many_words_in_every_convention(wikitext, tmp_path, data_config):
    for convention, fields in (('bytes', {}), ('sentencepiece', {'sentencepiece_vocab_size': 272})):
        data = data_config(name='wikitext103', convention=convention, subset=True, path=str(wikitext), **fields)
        corpus = open_corpus(data, tmp_path / 'data')
        assert corpus.tokenizer.decode(corpus.splits['test'].tokens) == TEXT
        assert corpus.splits['test'].words == 25


def test_an_untouched_source_is_not_read_again(wikitext, tmp_path, data_config, monkeypatch):
    data = data_config(name='wikitext103', convention='words', subset=True, path=str(wikitext))
    corpus = open_corpus(data, tmp_path / 'data')
    with monkeypatch.context() as patch:
        patch.setattr('memjax.data.split_files.TextReader', None)
        assert open_corpus(data, tmp_path / 'data').fingerprint == corpus.fingerprint
        assert prepare(data, tmp_path / 'data', progress=False).fingerprint == corpus.fingerprint
        data.documents = 'articles'  # from the records that are there
        assert prepare(data, tmp_path / 'data', progress=False).splits['test'].num_documents == 2
    (wikitext / 'wiki.test.tokens').write_text(TEXT.replace('mat', 'hat'))
    with pytest.raises(DataError, match='has changed since'):
        open_corpus(data, tmp_path / 'data')


def test_an_interrupted_preparation_keeps_its_vocabulary(wikitext, tmp_path, data_config, monkeypatch):
    data = data_config(name='wikitext103', convention='words', subset=True, path=str(wikitext))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(prepare_module, 'write_split', interrupted)
        prepare(data, tmp_path / 'data', progress=False)
    monkeypatch.setattr(prepare_module, 'make_vocabulary', lambda *_: pytest.fail('it is made again'))
    corpus = prepare(data, tmp_path / 'data', progress=False)
    assert len(corpus.splits['test'].tokens) == 25
    store = find_place(data, tmp_path / 'data').store
    assert not (store / 'tokenizer.json').exists()
    assert json.loads((store / 'meta.json').read_text())['tokenizer']['kind'] == 'words'


def test_a_text_without_words_or_too_little_of_it_is_one_line(wikitext, tmp_path, data_config):
    def refused(**fields):
        data = data_config(name='wikitext103', subset=True, path=str(wikitext), **fields)
        with pytest.raises(DataError) as caught:
            open_corpus(data, tmp_path / 'data')
        assert '\n' not in str(caught.value)
        return str(caught.value)

    assert 'it can be at most' in refused(convention='sentencepiece')
    assert [path.name for path in (tmp_path / 'data' / 'wikitext103').iterdir()] == ['records']  # nothing half-made
    (wikitext / 'wiki.valid.tokens').write_text('a bird\n')
    for name in ('train', 'test'):
        (wikitext / f'wiki.{name}.tokens').write_text(' \n')
    (tmp_path / 'data').rename(tmp_path / 'old')
    for convention in ('words', 'sentencepiece', 'bytes'):
        assert refused(convention=convention).endswith('holds no words')
