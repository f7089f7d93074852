"""Words that a question is asked with, and words of a message as the table of questions has them.

A text comes as ``terms.indexed_text`` prepared it. Chinese and Japanese have no blanks between words, and a single
character says little, so pairs of neighbouring characters are words too.
"""

from __future__ import annotations

import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from recollect.model.text.query import WordPlace
from recollect.model.text.terms import folded, indexed_text

# Bytes of a text that are searched, by role: what is said comes first, and a file that is written is no speech.
LONGEST_SAID, LONGEST_THOUGHT, LONGEST_INPUT = 4_000, 2_000, 1_000
_LONGEST_QUESTION, _MOST_WORDS, _LONGEST_WORD = 2_000, 32, 64
# The preparation puts a blank on both sides of a CJK character.
_CJK = "[\u3005-\ud7ff\uf900-\U0003fffd]"
# Only for quotes, so they are compiled there: what the stemmer of the index takes off a word, roughly.
_SUFFIX = r"(?<=[a-z]{3})(?:i?ations?|ings?|ions?|ments?|ies|ied|ers?|ed|es|ly|e|s|y)$"
_DOUBLED = r"([b-df-hj-np-tv-z])\1$"

_SHORTEST_QUESTION = 4
# Of a question without its mark. "is not a function" is an error and no question.
_ASKS = re.compile(
    r"(?:what|why|how|when|where|which|who|whose)\b|(?:did|do|does|should|can|could|have|are|were) (?:we|i|you)\b"
)

_STOP_WORDS = frozenset((pkgutil.get_data("recollect.model", "stop_words.txt") or b"").decode().split())


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


def is_question(text: str) -> bool:
    """Whether a text is asked as a question, so that an answer is wanted and not its words."""
    words = text.split()
    is_query = '"' in text or {"AND", "OR", "NOT"} & {*words}
    is_long = len(words) >= _SHORTEST_QUESTION
    is_asked = text.rstrip().endswith(("?", "？")) or bool(is_long and _ASKS.match(text.strip().casefold()))
    return is_asked and not is_query


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


# Prompts and answers weigh the same; copies of one line in several logs may even be either.
SAID, TITLE, THINKING, TOOL_INPUT, TOOL_OUTPUT = range(5)

WEIGHTS = (1.0, 1.0, 0.7, 0.6, 0.5)
TEXT_KIND = ("prose", "title", "thinking", "tool_input", "tool_result")
"""The kind of text that a role is quoted from; see ``line_views.facts.TEXT_KINDS``."""


# Below this strength the best answer is called weak.
WEAK = 0.3
_BEST = (1.0, 0.5, 0.25)
_LEAST = 0.5  # a session keeps this much of its score, whatever share of the question it has
_NEIGHBOUR, _REACH = 0.2, 3
# As in BM25: how soon a long message counts less, and the length of a usual one.
_K1, _B, _USUAL_LENGTH = 1.2, 0.4, 60


class ScoredMessage(NamedTuple):
    """A message that has words of a question. ``row`` says where; ``mask`` which words."""

    row: int
    mask: int
    score: float


class ScoredSession(NamedTuple):
    """The messages of a session, best first. ``strength`` is between 0 and 1."""

    session: str
    score: float
    strength: float
    messages: list[ScoredMessage]


class WordWeights:
    """What each word of a question is worth: rare ones more. A word that occurs nowhere is missed by all alike."""

    def __init__(self, counts: Sequence[int], total: int) -> None:
        self._weights = [rarity(count, total) if count else 0.0 for count in counts]
        self._known: dict[int, float] = {}
        self.whole = sum(self._weights)
        self.asked = sum(rarity(count, total) for count in counts)

    def of(self, mask: int) -> float:
        """The worth of some of the words."""
        known = self._known.get(mask)
        if known is None:
            known = self._known[mask] = sum(
                weight for place, weight in enumerate(self._weights) if mask >> place & 1
            )
        return known


def rarity(count: int, total: int) -> float:
    """The weight of a word that ``count`` of ``total`` rows have."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5)) if count <= total else 0.0


def by_length(length: int) -> float:
    """The factor for a message of so many words."""
    return (_K1 + 1) / (1 + _K1 * (1 - _B + _B * length / _USUAL_LENGTH))


def scored_sessions(
    logs: Mapping[int, Iterable[ScoredMessage]],
    session_of: Mapping[int, str],
    weights: WordWeights,
    place_of: Callable[[int], int],
) -> list[ScoredSession]:
    """Sessions, best first. ``logs`` has the messages of each log; ``place_of`` a row is its place in the log."""
    found: dict[str, list[ScoredMessage]] = {}
    shares: dict[str, float] = {}
    for log, messages in logs.items():
        session = session_of[log]
        helped, share = _with_neighbours(sorted(messages), weights, place_of)
        found.setdefault(session, []).extend(helped)
        shares[session] = max(share, shares.get(session, 0.0))
    ranked = []
    for session, messages in found.items():
        best = sorted(messages, key=lambda one: (-one.score, one.row))
        share = shares[session] / weights.whole
        score = sum(part * one.score for part, one in zip(_BEST, best, strict=False)) / weights.whole
        score *= _LEAST + share
        # How much of the question was found in one place, words that occur nowhere included.
        asked = min(1.0, shares[session] / weights.asked) if weights.asked else 0.0
        ranked.append(ScoredSession(session, score, round(asked * min(1.0, score), 3), best))
    return sorted(ranked, key=lambda one: (-one.score, one.session))


def _with_neighbours(
    messages: Sequence[ScoredMessage], weights: WordWeights, place_of: Callable[[int], int]
) -> tuple[list[ScoredMessage], float]:
    """The messages of a log with the help of those beside them, and the worth of the best passage."""
    places = [place_of(one.row) for one in messages]
    helped, most, first, last = [], 0.0, 0, 0
    for number, one in enumerate(messages):
        place = places[number]
        while places[first] < place - _REACH:
            first += 1
        while last < len(places) and places[last] <= place + _REACH:
            last += 1
        beside = 0
        for other in messages[first:last]:
            beside |= other.mask
        most = max(most, weights.of(beside))
        helped.append(one._replace(score=one.score + _NEIGHBOUR * weights.of(beside & ~one.mask)))
    return helped, most
