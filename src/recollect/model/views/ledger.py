"""Usage of some logs added up as their lines come, each response once (``model.cost.line_usage`` says which copy)."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.model.cost.line_usage import ResponseCopy, ResponseUsage, better, counted
from recollect.model.cost.money import Spending, spending
from recollect.model.cost.prices import PriceList
from recollect.model.views.facts import LineFacts

_Said = tuple[ResponseCopy, ResponseUsage]


class Ledger:
    """Adds up what lines say of usage, correcting itself when a better copy of a response arrives."""

    def __init__(self, prices: PriceList | None = None) -> None:
        self._prices = PriceList() if prices is None else prices
        self._kept: dict[str, dict[tuple[str, int, bool], _Said]] = {}
        self._without_id: list[_Said] = []

    def add(self, facts: LineFacts | None, *, path: str = "") -> None:
        """Count what a line says, unless a better copy of the same response is there. Without an id it is one itself.

        Lines that say nothing of usage, and what is no line at all, are passed over. ``path`` names their log.
        """
        if facts is not None and facts.response is not None:
            for said in facts.response.each():
                self._add(said, facts, path)

    def _add(self, said: ResponseUsage, facts: LineFacts, path: str) -> None:
        output = said.usage.output_tokens or 0
        copy = ResponseCopy(
            said.request_id, said.speaker, output, said.has_stop, facts.at or 0, facts.is_forked, path
        )
        if said.message_id is None:
            self._without_id.append((copy, said))
            return
        # Of copies with the same request, speaker and origin one is enough: the others can never count.
        kept = self._kept.setdefault(said.message_id, {})
        key = (said.request_id, said.speaker, facts.is_forked)
        known = kept.get(key)
        if known is None or not better(known[0], copy):
            kept[key] = copy, said

    @property
    def responses(self) -> int:
        """How many responses were counted."""
        return sum(1 for _ in self._counted())

    def total(self, prices: PriceList | None = None) -> Spending:
        """Tokens and money of everything counted, by the ledger's prices or by others."""
        prices = prices or self._prices
        spent = (spending(said.usage, said.model, copy.at, prices) for copy, said in self._counted())
        return sum(spent, Spending())

    def places(self) -> Iterator[tuple[str, str]]:
        """The ids of responses, each with the path of the log that it belongs to."""
        for name, kept in self._kept.items():
            copies = [copy for copy, _ in kept.values()]
            yield from ((name, copies[place].path) for place, _ in counted(copies))

    def _counted(self) -> Iterator[_Said]:
        """Each response by the copy it belongs with, and what the copy with its amounts says."""
        yield from self._without_id
        for kept in self._kept.values():
            said = list(kept.values())
            for place, amounts in counted([copy for copy, _ in said]):
                yield said[place][0], said[amounts][1]
