"""Secrets broken over lines, by a terminal or by the author.

In joined lines a secret has no visible end: the next line continues directly after it. A kind of fixed length
ends where it is complete. Any other ends with one of its lines, as long as every line looks like a part of it
and not like a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.model.secrets.found import SecretMatch
from recollect.model.secrets.plausible import is_invented
from recollect.model.secrets.tokens import CompiledToken, beginnings, compiled, marked_inside
from recollect.model.secrets.values import ValueRule, believed, rules_for, value_pattern
from recollect.model.secrets.views import TextSpan, TextView

_ANY_LETTER = re.compile(r"[0-9A-Za-z_+/-]")


def over_lines(view: TextView) -> Iterator[SecretMatch]:
    """Every secret in a view of joined lines that contains a line break."""
    expression, rows = beginnings()
    for beginning in expression.finditer(view.text):
        at = beginning.start()
        if view.is_break(at) or not _is_letter(view.text[at - 1 : at]):
            for token in rows[beginning.group()]:
                yield from _broken(view, compiled(token), at)
    for token in marked_inside():
        if token.inside in view.text:
            for match in compiled(token).loose.finditer(view.text):
                yield from _broken(view, compiled(token), match.start())
    yield from _broken_values(view)


def _broken(view: TextView, token: CompiledToken, at: int) -> Iterator[SecretMatch]:
    match = token.loose.match(view.text, at)
    if match is None:
        return
    for end in _ends(view, at, match.end()):
        is_token = token.loose.fullmatch(view.text, at, end) is not None
        if is_token and _is_whole(view, TextSpan(at, end), token.edge, token.has_one_length):
            if not is_invented(view.text[at:end]):
                yield SecretMatch(token.token.kind, *view.source(TextSpan(at, end)), view.text[at:end])
            return


def _broken_values(view: TextView) -> Iterator[SecretMatch]:
    """Values of telling names, and of known shapes, that contain a line break."""
    for rule in rules_for(view.text.lower()):
        for match in value_pattern(rule, is_loose=True).finditer(view.text):
            yield from _broken_value(view, TextSpan(*match.span("secret")), believed(rule))


def _broken_value(view: TextView, place: TextSpan, believed: ValueRule) -> Iterator[SecretMatch]:
    for end in _ends(view, place.start, place.end):
        if _is_whole(view, TextSpan(place.start, end), _ANY_LETTER, has_one_length=False):
            secret = view.text[place.start : end]
            if len(secret) >= 8 and believed.is_one(secret):
                yield SecretMatch(
                    believed.kind, *view.source(TextSpan(place.start, end)), secret, believed.rank
                )
            return


def _ends(view: TextView, start: int, end: int) -> Iterator[int]:
    """Possible ends of a secret over several lines: its match end, or the end of any line but the first."""
    inner = view.breaks_inside(start, end)
    if inner:
        yield end
        yield from reversed(inner[1:])


def _is_whole(view: TextView, place: TextSpan, edge: re.Pattern[str], has_one_length: bool) -> bool:
    """Whether a secret ends here. Where its length is not fixed, each line must look like a part of it."""
    start, end = place
    if not view.is_break(end) and edge.match(view.text, end):
        return False
    if has_one_length:
        return True
    inner = view.breaks_inside(start, end)
    is_closed = view.is_break(end) or end == len(view.text) or view.text[end] in "\"'`,;)]}<@"
    pieces = zip(inner, [*inner[1:], end], strict=True)
    return is_closed and all(_is_drawn(view.text[first:last]) for first, last in pieces)


def _is_drawn(piece: str) -> bool:
    """Whether a line could be the rest of a secret rather than a word."""
    is_mixed = any(map(str.isupper, piece[1:])) and any(map(str.islower, piece))
    return len(piece) <= 8 or is_mixed or any(map(str.isdigit, piece))


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalnum()
