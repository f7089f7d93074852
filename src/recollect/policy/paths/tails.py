"""Path rules indexed by the last component of their patterns, so that a call is compared with few of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from recollect.policy.paths.glob_meeting import agree, ends, parts_meet
from recollect.policy.paths.pattern import PathPattern
from recollect.policy.rules.rule import Rule

PathRule = tuple[int, Rule, PathPattern]
_REMEMBERED = 4096


class PathTails:
    """Path rules by their last component, which every matching path must contain."""

    def __init__(self, rules: Sequence[PathRule]) -> None:
        self._named: dict[str, list[PathRule]] = defaultdict(list)
        self._wild: list[PathRule] = []
        for entry in rules:
            tail = entry[2].tail
            (self._wild if tail is None else self._named[tail]).append(entry)
        self._ends: dict[str, tuple[str, str]] = {}
        self._ending: dict[str, list[PathRule]] = defaultdict(list)
        for entry in rules:
            last = entry[2].last
            first, final, _ = ends(last)
            self._ends[last] = (first, final[::-1])
            self._ending[last].append(entry)
        self._met: dict[str, list[PathRule]] = {}
        self._known: dict[str, bool] = {}
        parts = {entry[2].tail_expression for entry in self._wild}
        self._some_wild = re.compile("|".join(f"(?:{part})" for part in sorted(parts)), re.DOTALL)

    def _ends_some_wild(self, component: str) -> bool:
        """Cached: the components of a project's paths recur."""
        known = self._known.get(component)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[component] = self._some_wild.fullmatch(component) is not None
        return known

    def meeting(self, components: Iterable[str]) -> list[PathRule]:
        """The rules whose last component shares a name with a component of a glob, in order."""
        found = {entry[0]: entry for part in set(components) for entry in self._meeting(part)}
        return [found[order] for order in sorted(found)]

    def _meeting(self, component: str) -> list[PathRule]:
        met = self._met.get(component)
        if met is None:
            start, end, _ = ends(component)
            backwards = end[::-1]
            met = [
                entry
                for last, (first, final_backwards) in self._ends.items()
                if agree(first, start) and agree(final_backwards, backwards)
                if "**" in last or parts_meet(last, component)
                for entry in self._ending[last]
            ]
            if len(self._met) >= _REMEMBERED:
                self._met.clear()
            self._met[component] = met
        return met

    def about(self, components: set[str]) -> list[PathRule]:
        """The rules that could match a path of these components, in order."""
        found = [entry for part in components for entry in self._named.get(part, ())]
        if self._wild and any(map(self._ends_some_wild, components)):
            found += self._wild
        return sorted(found, key=_order)


def _order(entry: PathRule) -> int:
    return entry[0]
