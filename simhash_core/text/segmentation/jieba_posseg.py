"""Words with their part of speech as jieba's tagger reads it from the sentence (jieba.posseg).

Each term is tagged (``simhash_core.text.term_traits.TAG_MARK``), so a word that is a noun here and
a verb there is two terms; hash and idf are the word's. For the weighting ``tfidf-roles``, which
without it takes the dictionary's part of speech for each word. The tagger is pure Python and a
hidden Markov model of some 250 states: about 250 documents a second, fifty times slower than
``words``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simhash_core.text.segmentation import jieba_words
from simhash_core.text.segmentation.words import VERSION
from simhash_core.text.term_traits import TAG_MARK
from simhash_core.text.user_dictionary import UserDictionary


def load(words: UserDictionary | None) -> tuple[str, Callable[[str], Sequence[str]]]:
    """Return the identity and the cut function of jieba's tagger with its own dictionary."""
    import jieba
    import jieba.posseg

    tagger = jieba.posseg.POSTokenizer(jieba_words.tokenizer(words))

    def cut(text: str) -> Sequence[str]:
        return [f"{pair.word}{TAG_MARK}{pair.flag}" for pair in tagger.lcut(text)]

    return f"jieba-posseg-{jieba.__version__}/{VERSION}", cut
