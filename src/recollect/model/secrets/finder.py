"""Find credentials in a text, through several layers of encoding.

A text is searched as it is, with its escapes decoded (up to three times: JSON in JSON in JSON), with its
lines joined, and with its base64 decoded. ``find`` is pure and never raises.
"""

from __future__ import annotations

import binascii
import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from recollect.model.secrets.patterns import (
    BETWEEN,
    NAMED,
    SHAPES,
    TESTS,
    TOKENS,
    TokenPattern,
    ValuePattern,
    entropy,
    is_believed_value,
    is_invented,
)
from recollect.model.secrets.prefilter import trie
from recollect.model.secrets.views import TextSpan, TextView, base64_stretches, joined, unescaped


class MatchRank(IntEnum):
    """Which match wins where two overlap: the lower."""

    KEY_FILE = 0
    MARKED = 1
    NAMED = 2
    SHAPED = 3
    WRAPPED = 4
    GENERIC = 5


class SecretMatch(Struct, frozen=True):
    """A secret and its position."""

    kind: str
    start: int
    end: int
    secret: str
    rank: MatchRank = MatchRank.MARKED

    def __repr__(self) -> str:
        return f"SecretMatch({self.kind!r}, {self.start}, {self.end})"

    def at(self, place: TextSpan) -> SecretMatch:
        return SecretMatch(self.kind, place.start, place.end, self.secret, self.rank)


_LETTER = "[0-9A-Za-z]"
_WORD_LETTER = "[0-9A-Za-z_-]"


class CompiledToken(NamedTuple):
    """The expressions of a kind: with its edges, without them, and its alphabet."""

    token: TokenPattern
    strict: re.Pattern[str]
    loose: re.Pattern[str]
    edge: re.Pattern[str]
    has_one_length: bool


@functools.cache
def compiled(token: TokenPattern) -> CompiledToken:
    """Compiled on first use: there are many kinds, and a command meets few."""
    start = "|".join(map(re.escape, token.starts))
    core = f"(?:{start})(?:{token.body})"
    letter = _WORD_LETTER if "_-]" in token.body else _LETTER
    return CompiledToken(
        token,
        re.compile(f"(?<!{_LETTER}){core}(?!{letter})", re.ASCII),
        re.compile(core, re.ASCII),
        re.compile(letter, re.ASCII),
        re.search(r"\{\d+,\d*\}", token.body.replace("={0,", "=")) is None,
    )


@functools.cache
def beginnings() -> tuple[re.Pattern[str], dict[str, list[TokenPattern]]]:
    """One expression for all prefixes, and the tokens that may follow each."""
    starts = {start for token in TOKENS for start in token.starts}
    rows = {
        start: [token for token in TOKENS if token.starts and start.startswith(token.starts)]
        for start in starts
    }
    return re.compile(trie(map(str.encode, starts)).decode(), re.ASCII), rows


def tokens(text: str) -> Iterator[SecretMatch]:
    """Every unbroken token in a text."""
    expression, rows = beginnings()
    for beginning in expression.finditer(text):
        for token in rows[beginning.group()]:
            match = compiled(token).strict.match(text, beginning.start())
            if match is not None and not is_invented(match.group()):
                yield SecretMatch(token.kind, *match.span(), match.group())
    for token in marked_inside():
        if token.inside in text:
            for match in compiled(token).strict.finditer(text):
                if not is_invented(match.group()):
                    yield SecretMatch(token.kind, *match.span(), match.group())


@functools.cache
def marked_inside() -> tuple[TokenPattern, ...]:
    """The kinds without a prefix of their own."""
    return tuple(token for token in TOKENS if token.inside)


def is_believed(rule: ValuePattern, value: str) -> bool:
    """Whether a value that a rule matches may be a secret."""
    test = TESTS.get(rule.kind, is_believed_value)
    return entropy(value) >= rule.entropy and (not is_invented(value) if rule.name else test(value))


def rank_of(rule: ValuePattern) -> MatchRank:
    if rule.name:
        return MatchRank.NAMED
    return MatchRank.GENERIC if rule.is_generic else MatchRank.SHAPED


_GIVEN = rf"""[\w.-]{{0,30}}{BETWEEN}["'`]?"""
_NAME_MATTERS = re.compile(
    r"(?i)key|token|secret|passw|pwd|passphrase|credential|auth|cookie|"
    + "|".join(re.escape(word) for one in NAMED for word in one.words if len(word) > 4)
)


@functools.cache
def value_pattern(rule: ValuePattern, *, is_loose: bool = False) -> re.Pattern[str]:
    """The expression of a rule; a loose one ignores what follows the secret."""
    if rule.pattern:
        return re.compile(rule.pattern, re.ASCII)
    name = rule.name.replace("_?", "[_. -]?")
    letter = _WORD_LETTER if "_-]" in rule.body else "[0-9A-Za-z+/]"
    edge = "" if is_loose else f"(?!{letter})"
    return re.compile(f"(?i:{name}){_GIVEN}(?P<secret>{rule.body}){edge}", re.ASCII)


def rules_for(small: str) -> Iterator[ValuePattern]:
    """The rules that have one of their words in a lower-case text."""
    return (rule for rule in (*NAMED, *SHAPES) if any(word in small for word in rule.words))


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
        search, place = value_pattern(rule).search, 0
        while match := search(text, place):
            place = match.end()
            if is_believed(rule, match["secret"]):
                yield SecretMatch(rule.kind, *match.span("secret"), match["secret"], rank_of(rule))
            else:
                place = match.start("secret")  # it may be the name of the next one


_ANY_LETTER = re.compile(r"[0-9A-Za-z_+/-]")


def over_lines(view: TextView) -> Iterator[SecretMatch]:
    """Every secret in a view of joined lines that contains a line break."""
    expression, rows = beginnings()
    for beginning in expression.finditer(view.text):
        at = beginning.start()
        if view.is_break(at) or not (before := view.text[at - 1 : at]).isascii() or not before.isalnum():
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
            yield from _broken_value(view, TextSpan(*match.span("secret")), rule)


def _broken_value(view: TextView, place: TextSpan, rule: ValuePattern) -> Iterator[SecretMatch]:
    for end in _ends(view, place.start, place.end):
        if _is_whole(view, TextSpan(place.start, end), _ANY_LETTER, has_one_length=False):
            secret = view.text[place.start : end]
            if len(secret) >= 8 and is_believed(rule, secret):
                yield SecretMatch(rule.kind, *view.source(TextSpan(place.start, end)), secret, rank_of(rule))
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


PRIVATE_KEY = "private-key"
PUTTY_KEY = "putty-private-key"
_LONGEST_KEY = 20_000
_BEGIN = re.compile(r"-----BEGIN (?:[0-9A-Z]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END (?:[0-9A-Z]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PUTTY = re.compile(r"PuTTY-User-Key-File-[23]: [\s\S]{40,8000}?\bPrivate-MAC: [0-9a-f]{40,64}")
_KEY_LINE = re.compile(r"[0-9A-Za-z+/=]{16,}\s*|[A-Z][\w-]{2,20}: [^\n]{0,100}|\s*")


def private_keys(text: str) -> Iterator[SecretMatch]:
    if "PRIVATE KEY" in text:
        begins = list(_BEGIN.finditer(text))
        nexts = [*(one.start() for one in begins[1:]), len(text)]
        for begin, following in zip(begins, nexts, strict=False):
            limit = min(following, begin.end() + _LONGEST_KEY)
            end = _END.search(text, begin.end(), limit)
            last = _last_line(text, begin.end(), limit) if end is None else end.end()
            inside = text[begin.end() : last if end is None else end.start()]
            letters = _key_letters(inside)
            # With escapes in it, it is left to the unescaped view: its letters would be wrong here.
            if len(letters) >= 40 and "\\n" not in inside and not is_invented(letters):
                yield SecretMatch(PRIVATE_KEY, begin.start(), last, letters, MatchRank.KEY_FILE)
    if "PuTTY-User-Key-File" in text:
        for match in _PUTTY.finditer(text):
            yield SecretMatch(PUTTY_KEY, *match.span(), _key_letters(match.group()), MatchRank.KEY_FILE)


def _last_line(text: str, start: int, limit: int) -> int:
    last = start
    view = joined(text[start:limit], is_marked=True)
    if view is None:
        return last
    for line in view.lines():
        piece = view.text[line.start : line.end]
        if _KEY_LINE.fullmatch(piece) is None:
            break
        if piece.strip():
            last = start + view.source(line).end
    return last


def _key_letters(inside: str) -> str:
    """The base64 of a key without margins and headers."""
    view = joined(inside, is_marked=True)
    if view is None:
        return re.sub(r"[^0-9A-Za-z+/=]", "", inside)
    lines = (view.text[line.start : line.end] for line in view.lines())
    return "".join(line for line in lines if re.fullmatch(r"[0-9A-Za-z+/=]+", line))


_DEEPEST = 4
_SHORTEST_BINARY, _BINARY_SAMPLE = 120, 4096
_STRANGE = 0.1  # of the letters of a text: control characters and bytes that are not UTF-8
_PADDING = 2
_MARK = re.compile(r"\[redacted:[0-9a-z-]{1,60}:[0-9a-f]{8}\]")


def find(text: str, *, name: str = "", is_escaped: bool = False) -> list[SecretMatch]:
    """Every secret in a text, in order, none inside another.

    ``name`` is the key the text is the value of, if any. With ``is_escaped`` the text is the inside of a JSON
    string, and positions refer to the string as written.
    """
    found: list[SecretMatch] = []
    chain: list[TextView] = []
    current = text
    view = unescaped(current) if is_escaped else None
    if view is not None:
        chain, current = [view], view.text
    found += (one.at(_source(chain, one)) for one in in_value(name, current))
    for _ in range(_DEEPEST):
        found += (one.at(_source(chain, one)) for one in _look(current))
        view = unescaped(current)
        if view is None:
            break
        chain, current = [*chain, view], view.text
    # Digits inside a redaction mark are not a password.
    marks = [TextSpan(*mark.span()) for mark in _MARK.finditer(text)] if "[redacted:" in text else []
    return _settled([*_outside(marks, found)])


def _source(chain: list[TextView], found: SecretMatch) -> TextSpan:
    place = TextSpan(found.start, found.end)
    for view in reversed(chain):
        place = view.source(place)
    return place


def _settled(found: list[SecretMatch]) -> list[SecretMatch]:
    """Drop matches that overlap a more reliable or longer one."""
    kept: list[SecretMatch] = []
    starts: list[int] = []
    for one in sorted(found, key=lambda one: (one.rank, one.start - one.end, one.start)):
        at = bisect_right(starts, one.start)
        is_free_before = at == 0 or kept[at - 1].end <= one.start
        is_free_behind = at == len(kept) or one.end <= kept[at].start
        if is_free_before and is_free_behind:
            starts.insert(at, one.start)
            kept.insert(at, one)
    return kept


def _look(text: str) -> Iterator[SecretMatch]:
    runs = list(base64_stretches(text))
    binary = [place for place, letters in runs if _is_binary(letters)]
    # Letters in binary data in base64, such as a picture, are chance; but some secrets are base64 themselves.
    yield from _outside(binary, _directly(text), but_whole=True)
    for is_marked in (False, True):
        if not is_marked or re.search(r"\n[ \t]*[>+|\u2502\xe2-]", text):
            view = joined(text, is_marked=is_marked)
            if view is not None:
                yield from _outside(binary, over_lines(view), but_whole=True)
    for place, letters in runs:
        for inner in _in_base64(letters):
            yield SecretMatch(inner.kind, *place, inner.secret, MatchRank.WRAPPED)


def _outside(
    places: list[TextSpan], found: Iterable[SecretMatch], *, but_whole: bool = False
) -> Iterator[SecretMatch]:
    """Without matches inside some places; with ``but_whole`` one that is a whole place, up to padding, stays."""
    starts = [span.start for span in places]
    for one in found:
        at = bisect_right(starts, one.start) - 1
        is_inside = at >= 0 and one.end <= places[at].end
        is_whole = is_inside and one.start == starts[at] and places[at].end - one.end <= _PADDING
        if not is_inside or (but_whole and is_whole):
            yield one


def _is_binary(letters: str) -> bool:
    """Whether a long run of base64 holds anything but text."""
    if len(letters) < _SHORTEST_BINARY:
        return False
    start = letters[:_BINARY_SAMPLE]
    try:
        data = binascii.a2b_base64(start[: len(start) // 4 * 4])
    except binascii.Error:
        return False
    text = data.decode("utf-8", "replace")
    strange = sum(letter == "\ufffd" or not (letter.isprintable() or letter in "\t\r\n") for letter in text)
    return strange > len(text) * _STRANGE


def _directly(text: str) -> Iterator[SecretMatch]:
    yield from tokens(text)
    yield from values(text)
    yield from private_keys(text)


def _in_base64(letters: str) -> list[SecretMatch]:
    """Secrets in decoded base64; pictures and other binary data are skipped."""
    try:
        start = binascii.a2b_base64(letters[:24])
        if not start.isascii() or _is_binary(letters):
            return []
        whole = letters.rstrip("=")
        data = binascii.a2b_base64(whole[: len(whole) - (len(whole) % 4 == 1)] + "==")
    except binascii.Error:
        return []
    text = data.decode("latin-1")
    found = list(_directly(text))
    view = unescaped(text)
    if view is not None:
        found += (one.at(view.source(TextSpan(one.start, one.end))) for one in _directly(view.text))
    return _settled(found)
