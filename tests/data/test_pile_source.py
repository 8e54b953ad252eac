"""JSON lines, compressed or not, in the Pile's layout or to be cut."""

from __future__ import annotations

import itertools
import json

import pytest
import zstandard

from memjax.data.pile import pile_source
from memjax.data.prepare import open_corpus
from memjax.data.sources import SPLITS, SpanReader
from memjax.errors import DataError


def jsonl(*texts):
    return ''.join(json.dumps({'text': text, 'meta': {}}) + '\n' for text in texts).encode()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith('.zst'):
        # Two frames, as files that were appended to have.
        half = len(content) // 2
        content = b''.join(map(zstandard.ZstdCompressor().compress, (content[:half], content[half:])))
    path.write_bytes(content)


@pytest.fixture
def pile(tmp_path):
    root = tmp_path / 'pile'
    write(root / 'train' / '01.jsonl.zst', jsonl('third'))
    write(root / 'train' / '00.jsonl.zst', jsonl('first\nlines', 'second é'))
    write(root / 'val.jsonl.zst', jsonl('held out'))
    write(root / 'test.jsonl', jsonl('a test', 'another'))
    return root


def test_a_document_a_line_in_the_piles_layout(pile, tmp_path, data_config):
    corpus = open_corpus(data_config(name='pile', path=str(pile)), tmp_path / 'data')
    documents = {}
    for name, split in corpus.splits.items():
        bounds = split.document_offsets.tolist()
        documents[name] = [
            corpus.tokenizer.decode(split.tokens[begin:end]) for begin, end in itertools.pairwise(bounds)
        ]
    assert documents == {
        'train': ['first\nlines', 'second é', 'third'],
        'validation': ['held out'],
        'test': ['a test', 'another'],
    }
    assert corpus.splits['test'].words == 3
    assert corpus.splits['train'].num_bytes == 11 + 9 + 5


@pytest.mark.parametrize('name', ['all.jsonl', 'all.jsonl.zst'])
def test_a_file_is_cut_between_lines(tmp_path, name):
    text = jsonl(*'abcdefghij')  # ten lines of one length
    write(tmp_path / name, text)
    for location in (tmp_path / name, tmp_path):
        source = pile_source(str(location), 0.19, 0.2, progress=False)
        with SpanReader(source) as reader:
            texts = [b''.join(map(reader.read, source.splits[split])) for split in SPLITS]
        # 61 % is within the seventh line: the cut moves to its end; 80 % is between two.
        assert texts == [jsonl(*'abcdefg'), jsonl('h'), jsonl(*'ij')]


def test_what_cannot_be_read_is_one_line(pile, tmp_path):
    def refused(location=pile):
        with pytest.raises(DataError) as caught:
            pile_source(None if location is None else str(location), 0.1, 0.1, progress=False)
        assert '\n' not in str(caught.value)
        return str(caught.value)

    assert '--source=FOLDER' in refused(None)
    assert refused(tmp_path / 'nowhere').startswith('no such file or folder')
    (tmp_path / 'empty').mkdir()
    assert 'holds no .jsonl' in refused(tmp_path / 'empty')
    write(pile / 'train' / '01.jsonl.zst', jsonl('a') + b'{"text": 3}\n')
    assert 'train/01.jsonl.zst: line 2 is not a JSON object' in refused()
    (pile / 'train' / '01.jsonl.zst').write_bytes(b'no zstandard')
    assert '01.jsonl.zst is a broken .zst' in refused()
    write(pile / 'train' / '01.jsonl.zst', b'')
    (pile / 'val.jsonl.zst').unlink()
    assert refused().endswith('has files of train, test but none of validation')
    write(pile / 'valid.jsonl', b'')
    assert refused().endswith('has no text for validation')
    write(tmp_path / 'one.jsonl', jsonl('a'))
    assert 'has no text for validation' in refused(tmp_path / 'one.jsonl')
