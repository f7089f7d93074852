"""How well messages and sessions answer a question, from which of its words they have.

A word counts by its rarity. A message counts by its words, by who said them and by how much else it says; messages
beside it that have the missing words help. A session counts by its best three messages, and by the share of the
question that its best passage has: a long session has every word somewhere, an answer has them in one place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

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
        ranked.append(ScoredSession(session, score, _strength(score, shares[session], weights), best))
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


def _strength(score: float, share: float, weights: WordWeights) -> float:
    """How much of the question was found in one place, words that occur nowhere included."""
    return round(min(1.0, share / weights.asked) * min(1.0, score), 3) if weights.asked else 0.0
