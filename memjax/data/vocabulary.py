"""Which tokenizer a corpus gets in a convention."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ml_collections import config_dict

from memjax.data.sources import SPLITS
from memjax.data.tokenizers import Tokenizer, make_tokenizer
from memjax.data.words import WordRules, count_words


def make_vocabulary(
    data: config_dict.ConfigDict,
    rules: WordRules,
    documents: Callable[[str], Iterable[Iterable[bytes]]],
    training_bytes: int,
) -> Tokenizer:
    """The tokenizer that `config.data` asks for.

    Args:
      data: `config.data`.
      rules: of the corpus's words.
      documents: the documents of a split, each in pieces; read only as far as the convention depends on them.
      training_bytes: of the training split, or about.

    Raises:
      DataError: there are no words, or too little text for the vocabulary asked for.
    """
    if data.convention == 'words':
        return count_words(documents('train'), rules)
    if data.convention == 'sentencepiece':
        # Takes time to import, and most corpora need none of it.
        from memjax.data.sentencepieces import train_sentencepiece

        return train_sentencepiece(documents('train'), training_bytes, data.sentencepiece_vocab_size)
    return make_tokenizer(
        data.convention, (piece for split in SPLITS for pieces in documents(split) for piece in pieces)
    )
