"""What an exact reader must say of a corpus: counted while it is written, by rules that know nothing of recollect."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

KINDS = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
)
SEARCH_NANO_USD = 10_000_000
# Nano-dollars per token of each kind, from the vendor's price page.
PRICES = {
    "claude-opus-4-5-20251101": (5_000, 25_000, 6_250, 10_000, 500),
    "claude-opus-4-1-20250805": (15_000, 75_000, 18_750, 30_000, 1_500),
    "claude-sonnet-4-5-20250929": (3_000, 15_000, 3_750, 6_000, 300),
    "claude-haiku-4-5-20251001": (1_000, 5_000, 1_250, 2_000, 100),
}
UNPRICED = "claude-unheard-of-9"


class Response(NamedTuple):
    """One call of a model: it counts once, however many lines and logs repeat it."""

    id: str
    model: str
    day: str  # UTC, of its last line
    tokens: tuple[int, int, int, int, int]  # as in KINDS
    searches: int
    is_agent: bool
    is_final: bool  # some clients wrote only the counts that a stream begins with

    @property
    def nano_usd(self) -> int:
        prices = PRICES.get(self.model)
        if prices is None:
            return 0
        return sum(map(int.__mul__, self.tokens, prices)) + self.searches * SEARCH_NANO_USD


class Line(NamedTuple):
    """One line of a log, without its newline, and what it counts for."""

    data: bytes
    uuid: str = ""
    response: Response | None = None
    words: tuple[str, ...] = ()
    is_prompt: bool = False


class Truth:
    """Everything counted so far."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.torn: list[str] = []
        self.broken: list[tuple[str, int]] = []
        self._responses: dict[str, Response] = {}
        self._messages: dict[str, set[str]] = defaultdict(set)
        self._places: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._uuids: set[str] = set()

    def count(self, path: str, lines: list[Line]) -> None:
        """One log, at a path below the home."""
        self.counts["lines"] += len(lines)
        for number, line in enumerate(lines, 1):
            if line.uuid:
                self._uuids.add(line.uuid)
            if line.response is not None:
                self._responses.setdefault(line.response.id, line.response)
            for word in line.words:
                self._messages[word].add(line.uuid)
                self._places[word].append((path, number))

    def report(self, planted: dict[str, tuple[str, ...]]) -> dict[str, Any]:
        """All of it, as JSON."""
        days: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        models: dict[str, Counter[str]] = defaultdict(Counter)
        total: Counter[str] = Counter(dict.fromkeys((*KINDS, "cost_nano_usd"), 0))
        for response in self._responses.values():
            for sums in (days[response.day][response.model], models[response.model], total):
                for kind, tokens in zip(KINDS, response.tokens, strict=True):
                    sums[kind] += tokens
                sums["cost_nano_usd"] += response.nano_usd
        every = self._responses.values()
        return {
            **self.counts,
            "entries": len(self._uuids),
            "responses": len(every),
            "agent_tokens": sum(sum(one.tokens) for one in every if one.is_agent),
            "unpriced_tokens": sum(sum(one.tokens) for one in every if one.model not in PRICES),
            "uncertain_responses": sum(not one.is_final for one in every),
            "unpriced": sorted(models.keys() - PRICES.keys()),
            "total": total,
            "by_model": models,
            "by_day": days,
            "damage": {"torn": self.torn, "broken": self.broken},
            "words": {
                word: {"kind": kind, "messages": len(self._messages[word]), "places": self._places[word]}
                for kind, words in planted.items()
                for word in words
            },
        }
