"""1B words in the benchmark's folders, of three training files."""

from __future__ import annotations

import numpy as np
import pytest

from memjax.data import lm1b
from memjax.data.lm1b import lm1b_source
from memjax.data.prepare import open_corpus, prepare
from memjax.errors import DataError

WHOLE = {split: lm1b.FILES[split] for split in ('validation', 'test')} | {'train': lm1b.FILES['train'][:3]}
TEXTS = {
    'news.en-00001-of-00100': 'the cat sat .\nthe dog sat .\n',
    'news.en-00002-of-00100': 'the cat .\n',
    'news.en-00003-of-00100': 'a dog , a cat .\n',
    'news.en.heldout-00001-of-00050': 'a bird sat .\n',
    'news.en.heldout-00000-of-00050': 'the dog .\na fish .\n',
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(lm1b, 'FILES', WHOLE)
    for names in WHOLE.values():
        for name in names:
            path = tmp_path / 'benchmark' / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TEXTS[path.name])
    return tmp_path / 'benchmark'


def test_the_files_of_the_benchmark():
    assert len(lm1b.FILES['train']) == 99
    assert lm1b.FILES['train'][-1].endswith('/news.en-00099-of-00100')
    assert lm1b.FILES['test'] == ('heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050',)


def test_memory_is_cleared_at_each_sentence_or_at_each_file(folder, tmp_path, data_config):
    data = data_config(name='lm1b', convention='words', path=str(folder))
    corpus = open_corpus(data, tmp_path / 'data')
    # 3 times or more: . (4), the (3), cat (3); what is rarer is <UNK> (sat 2, dog 2, a 2, the comma).
    assert corpus.tokenizer.to_json()['words'] == '<S> <UNK> . the cat'
    assert corpus.tokenizer.counts.tolist() == [4, 7, 4, 3, 3]
    test = corpus.splits['test']
    assert test.tokens.tolist() == [0, 3, 1, 2, 0, 0, 1, 1, 2, 0]
    assert test.document_offsets.tolist() == [0, 5, 10]
    # Every word and every sentence's end is a target.
    assert (test.num_targets, test.words, test.word_unit) == (8, 8, 'words and line ends')
    assert (corpus.documents, corpus.splits['train'].num_documents) == ('sentences', 4)
    assert corpus.splits['train'].note == 'whole'

    data.documents = 'stream'
    stream = open_corpus(data, tmp_path / 'data')
    assert stream.documents == 'stream'
    assert stream.splits['test'].tokens.tolist() == [0, 3, 1, 2, 0, 1, 1, 2, 0]
    assert [len(np.diff(split.document_offsets)) for split in stream.splits.values()] == [3, 1, 1]
    assert stream.splits['test'].num_targets == 8
    # Without rare words nothing stands for those that are held out.
    data.min_word_count = 1
    with pytest.raises(DataError, match="'bird' does not occur in the training text, and neither does <UNK>"):
        open_corpus(data, tmp_path / 'data')
    data.min_word_count = 2
    assert open_corpus(data, tmp_path / 'data').vocab_size == 8  # and sat, dog, a


def test_missing_files_are_named_or_make_a_subset(folder, tmp_path):
    def refused(subset=False):
        with pytest.raises(DataError) as caught:
            lm1b_source(str(folder), subset, progress=False)
        assert '\n' not in str(caught.value)
        return str(caught.value)

    for number in (2, 3):
        (folder / WHOLE['train'][number - 1]).unlink()
    message = refused()
    assert 'has no training-monolingual.tokenized.shuffled/news.en-00002-of-00100 and 1 other files of train' in message
    assert message.endswith('--config.data.subset=True takes what there is')
    assert lm1b_source(str(folder), True, False).notes == {'train': 'a subset of 1 of 3 files'}
    (folder / WHOLE['test'][0]).unlink()
    assert refused(subset=True).endswith('news.en.heldout-00000-of-00050')
    with pytest.raises(DataError, match='has to be brought'):
        lm1b_source(None, False, False)
    with pytest.raises(DataError, match='no such folder'):
        lm1b_source(str(tmp_path / 'nowhere'), False, False)


def test_other_documents_are_refused(tmp_path, data_config):
    data = data_config(name='lm1b', convention='words', documents='articles')
    with pytest.raises(DataError, match="'articles': the corpus lm1b has sentences, stream"):
        prepare(data, tmp_path)
    with pytest.raises(DataError, match="'stream': the corpus kjv takes none"):
        prepare(data_config(documents='stream'), tmp_path)
