"""WikiText-103 (Merity et al.): good articles of Wikipedia, words apart by spaces, rare ones `<unk>`.

Accepted: a folder or .zip with `wiki.train.tokens`, `wiki.valid.tokens` and `wiki.test.tokens`. They are told by their
counts of tokens, a line's end being one, as the published perplexities count them. WikiText-2 has files of the same
names; in validation and test its text is the same but for many more `<unk>`.
"""

from __future__ import annotations

from memjax.data.split_files import SplitFiles

WIKITEXT103 = SplitFiles(
    title='WikiText-103',
    file_names={'train': 'wiki.train.tokens', 'validation': 'wiki.valid.tokens', 'test': 'wiki.test.tokens'},
    tokens={'train': 103_227_021, 'validation': 217_646, 'test': 245_569},
    other_title='WikiText-2',
    other_unknown={'validation': 11_718, 'test': 15_218},
)
