"""Penn Treebank as Mikolov prepared it for language models: 10,000 words, numbers `N`, rare words `<unk>`.

Accepted: a folder or .zip with `ptb.train.txt`, `ptb.valid.txt` and `ptb.test.txt`, told by their counts of tokens, a
line's end being one.
"""

from __future__ import annotations

from memjax.data.split_files import SplitFiles

PTB = SplitFiles(
    title='Penn Treebank',
    file_names={'train': 'ptb.train.txt', 'validation': 'ptb.valid.txt', 'test': 'ptb.test.txt'},
    tokens={'train': 929_589, 'validation': 73_760, 'test': 82_430},
)
