"""Words that a question is asked with, and words of a message as the table of questions has them.

A text comes as ``terms.indexed_text`` prepared it. Chinese and Japanese have no blanks between words, and a single
character says little, so pairs of neighbouring characters are words too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from recollect.model.search.terms import folded, indexed_text

if TYPE_CHECKING:
    from recollect.model.search.query import WordPlace

# Bytes of a text that are searched, by role: what is said comes first, and a file that is written is no speech.
LONGEST_SAID, LONGEST_THOUGHT, LONGEST_INPUT = 4_000, 2_000, 1_000
_LONGEST_QUESTION, _MOST_WORDS, _LONGEST_WORD = 2_000, 32, 64
# The preparation puts a blank on both sides of a CJK character.
_CJK = "[\u3005-\ud7ff\uf900-\U0003fffd]"
# Only for quotes, so they are compiled there: what the stemmer of the index takes off a word, roughly.
_SUFFIX = r"(?<=[a-z]{3})(?:i?ations?|ings?|ions?|ments?|ies|ied|ers?|ed|es|ly|e|s|y)$"
_DOUBLED = r"([b-df-hj-np-tv-z])\1$"

_STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "above",
        "after",
        "again",
        "against",
        "all",
        "also",
        "although",
        "am",
        "an",
        "and",
        "any",
        "anyone",
        "anything",
        "are",
        "aren",
        "as",
        "ask",
        "asked",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "but",
        "by",
        "can",
        "cannot",
        "could",
        "couldn",
        "did",
        "didn",
        "do",
        "does",
        "doesn",
        "doing",
        "don",
        "done",
        "down",
        "during",
        "each",
        "either",
        "else",
        "ever",
        "every",
        "everything",
        "few",
        "for",
        "from",
        "further",
        "gave",
        "get",
        "gets",
        "getting",
        "give",
        "given",
        "go",
        "goes",
        "going",
        "gone",
        "got",
        "had",
        "hadn",
        "has",
        "hasn",
        "have",
        "haven",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "herself",
        "him",
        "himself",
        "his",
        "how",
        "i",
        "if",
        "in",
        "instead",
        "into",
        "is",
        "isn",
        "it",
        "its",
        "itself",
        "just",
        "kept",
        "know",
        "last",
        "later",
        "let",
        "lets",
        "like",
        "ll",
        "make",
        "makes",
        "making",
        "many",
        "may",
        "maybe",
        "me",
        "might",
        "mine",
        "more",
        "most",
        "much",
        "must",
        "my",
        "myself",
        "need",
        "needed",
        "never",
        "no",
        "nor",
        "not",
        "now",
        "of",
        "off",
        "ok",
        "on",
        "once",
        "one",
        "ones",
        "only",
        "or",
        "other",
        "others",
        "our",
        "ours",
        "ourselves",
        "out",
        "over",
        "own",
        "please",
        "put",
        "rather",
        "re",
        "really",
        "right",
        "s",
        "said",
        "same",
        "saw",
        "say",
        "says",
        "see",
        "seem",
        "seemed",
        "seems",
        "seen",
        "shall",
        "she",
        "should",
        "shouldn",
        "showed",
        "so",
        "some",
        "someone",
        "something",
        "somewhere",
        "still",
        "stuff",
        "such",
        "t",
        "take",
        "taken",
        "takes",
        "than",
        "that",
        "the",
        "their",
        "theirs",
        "them",
        "themselves",
        "then",
        "there",
        "these",
        "they",
        "thing",
        "things",
        "this",
        "those",
        "though",
        "through",
        "thus",
        "time",
        "times",
        "to",
        "together",
        "told",
        "too",
        "took",
        "tried",
        "try",
        "trying",
        "two",
        "under",
        "until",
        "up",
        "upon",
        "us",
        "use",
        "used",
        "uses",
        "using",
        "ve",
        "very",
        "want",
        "wanted",
        "was",
        "wasn",
        "way",
        "we",
        "went",
        "were",
        "weren",
        "what",
        "whatever",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "who",
        "whole",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "within",
        "without",
        "won",
        "would",
        "wouldn",
        "yes",
        "yet",
        "you",
        "your",
        "yours",
        "yourself",
    ]
)


def recalled_text(prepared: bytes, longest: int) -> bytes:
    """The beginning of a prepared text (UTF-8), with pairs of CJK characters at its end."""
    text = prepared[:longest]
    if text.isascii():
        return text
    whole = text.decode(errors="ignore")  # the cut may be inside a character
    pairs = set(_cjk_pairs(whole))
    return f"{whole} {' '.join(sorted(pairs))}".encode() if pairs else whole.encode()


def _cjk_pairs(text: str) -> list[str]:
    """Neighbours among the CJK characters of a prepared text."""
    return [] if text.isascii() else [first + second for first, second in _neighbours().findall(text)]


@cache
def _neighbours() -> re.Pattern[str]:
    # Compiled where such a text is met: that takes longer than reading a line.
    return re.compile(f"({_CJK})  (?=({_CJK}) )")


def question_words(question: str) -> list[str]:
    """The different words of a question that say something; all its words where none does."""
    text = indexed_text(question[:_LONGEST_QUESTION])
    # Parts of names stand after a mark, which is a word of its own.
    words = [word for word in folded(text).decode(errors="replace").split() if word[0] != "\ue9c3"]
    pairs = _cjk_pairs(text)
    paired = {char for pair in pairs for char in pair}
    found = dict.fromkeys(
        word for word in (*words, *pairs) if word not in paired and len(word) <= _LONGEST_WORD
    )
    telling = [word for word in found if word not in _STOP_WORDS and (len(word) > 1 or not word.isascii())]
    return (telling or list(found))[:_MOST_WORDS]


class QuestionFinder:
    """Finds the words of a question in a text, in their other forms too, to quote them. Rougher than the index."""

    def __init__(self, words: Iterable[str]) -> None:
        forms = "|".join(f"({_form(word)})" for word in words)
        self._pattern = re.compile(forms or "(?!)")

    def matches(self, fields: Mapping[str, str]) -> bool:
        return any(map(self._pattern.search, fields.values()))

    def places(self, text: str) -> Iterator[WordPlace]:
        """Start, end and number of each word, from left to right."""
        for found in self._pattern.finditer(text):
            yield found.start(), found.end(), found.lastindex or 0


def _form(word: str) -> str:
    """A pattern for a word: from its beginning on if it is short, also inside a name if it is long.

    Only the word itself ignores case: compiling a range that does takes longer than finding it.
    """
    if not word.isascii():
        return f"(?i:{re.escape(word)})"
    stem = re.sub(_DOUBLED, r"\1", re.sub(_SUFFIX, "", word)) if len(word) > 4 else word
    begins = "" if len(stem) > 4 else "(?<![0-9A-Za-z])"
    return f"{begins}(?i:{stem}){'[A-Za-z]*' if len(word) > 4 else '(?![0-9A-Za-z])'}"
