"""Values that are secrets because of their context: a name beside them, or the shape of the whole."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from recollect.model.secrets.found import MatchRank, SecretMatch
from recollect.model.secrets.patterns import BETWEEN, NAMED, SHAPES, NamedPattern, ShapePattern
from recollect.model.secrets.plausible import TESTS, entropy, is_believed_value, is_not_invented
from recollect.model.secrets.views import TextSpan

SecretRule = NamedPattern | ShapePattern
_WORD_LETTER = "[0-9A-Za-z_-]"


class ValueRule(NamedTuple):
    """The conditions on a value, and its kind."""

    kind: str
    rank: MatchRank
    entropy: float
    test: Callable[[str], bool]

    def is_one(self, value: str) -> bool:
        return entropy(value) >= self.entropy and self.test(value)


@functools.cache
def believed(rule: SecretRule) -> ValueRule:
    """The conditions on the values of a rule."""
    if isinstance(rule, NamedPattern):
        return ValueRule(rule.kind, MatchRank.NAMED, 3.0, is_not_invented)
    rank = MatchRank.GENERIC if rule.is_generic else MatchRank.SHAPED
    return ValueRule(rule.kind, rank, rule.entropy, TESTS.get(rule.kind, is_believed_value))


_GIVEN = rf"""[\w.-]{{0,30}}{BETWEEN}["'`]?"""
_NAME_MATTERS = re.compile(
    r"(?i)key|token|secret|passw|pwd|passphrase|credential|auth|cookie|"
    + "|".join(re.escape(word) for one in NAMED for word in one.words if len(word) > 4)
)


@functools.cache
def value_pattern(rule: SecretRule, *, is_loose: bool = False) -> re.Pattern[str]:
    """The expression of a rule; a loose one ignores what follows the secret."""
    if isinstance(rule, ShapePattern):
        return re.compile(rule.pattern, re.ASCII)
    name = rule.name.replace("_?", "[_. -]?")
    letter = _WORD_LETTER if "_-]" in rule.body else "[0-9A-Za-z+/]"
    edge = "" if is_loose else f"(?!{letter})"
    return re.compile(f"(?i:{name}){_GIVEN}(?P<secret>{rule.body}){edge}", re.ASCII)


def rules_for(small: str) -> Iterator[SecretRule]:
    """The rules that have one of their words in a lower-case text."""
    rules: tuple[SecretRule, ...] = (*NAMED, *SHAPES)
    for rule in rules:
        if any(word in small for word in rule.words):
            yield rule


def in_value(name: str, text: str) -> Iterator[SecretMatch]:
    """Secrets recognised by the name of the whole value."""
    if not name or not _NAME_MATTERS.search(name):
        return
    before = re.sub(r"[^\w.-]", "_", name[-60:]) + '="'
    whole = f'{before}{text}"'
    for one in values(whole):
        if one.start >= len(before):
            yield one.at(TextSpan(one.start - len(before), one.end - len(before)))


def values(text: str) -> Iterator[SecretMatch]:
    """Every value of a telling name, or of a known shape."""
    for rule in rules_for(text.lower()):
        must_be, search, place = believed(rule), value_pattern(rule).search, 0
        while match := search(text, place):
            place = match.end()
            if must_be.is_one(match["secret"]):
                yield SecretMatch(rule.kind, *match.span("secret"), match["secret"], must_be.rank)
            else:
                place = match.start("secret")  # it may be the name of the next one
