"""Find credentials in a text, through several layers of encoding.

A text is searched as it is, with its escapes decoded (up to three times: JSON in JSON in JSON), with its
lines joined, and with its base64 decoded. ``find`` is pure and never raises.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Iterator

from recollect.model.secrets.found import MatchRank, SecretMatch
from recollect.model.secrets.over_lines import over_lines
from recollect.model.secrets.private_keys import private_keys
from recollect.model.secrets.tokens import tokens
from recollect.model.secrets.values import in_value, values
from recollect.model.secrets.views import TextSpan, TextView, base64_stretches, joined, unescaped

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
    return _settled(_not_marked(text, found))


def _source(chain: list[TextView], found: SecretMatch) -> TextSpan:
    place = TextSpan(found.start, found.end)
    for view in reversed(chain):
        place = view.source(place)
    return place


def _not_marked(text: str, found: list[SecretMatch]) -> list[SecretMatch]:
    """Drop matches inside a redaction mark: its digits are not a password."""
    marks = [TextSpan(*mark.span()) for mark in _MARK.finditer(text)] if "[redacted:" in text else []
    starts = [mark.start for mark in marks]

    def is_inside(one: SecretMatch) -> bool:
        at = bisect_right(starts, one.start) - 1
        return at >= 0 and one.end <= marks[at].end

    return [one for one in found if not is_inside(one)]


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
    binary = [run.place for run in runs if _is_binary(run.letters)]
    yield from _outside(binary, _directly(text))
    for is_marked in (False, True):
        if not is_marked or re.search(r"\n[ \t]*[>+|\u2502\xe2-]", text):
            view = joined(text, is_marked=is_marked)
            if view is not None:
                yield from _outside(binary, over_lines(view))
    for run in runs:
        for inner in _in_base64(run.letters):
            yield SecretMatch(inner.kind, *run.place, inner.secret, MatchRank.WRAPPED)


def _outside(binary: list[TextSpan], found: Iterator[SecretMatch]) -> Iterator[SecretMatch]:
    """Without matches that are a part of binary data in base64, such as a picture: those letters are chance."""
    starts = [span.start for span in binary]
    for one in found:
        at = bisect_right(starts, one.start) - 1
        if at < 0 or one.end > binary[at].end or _covers(one, binary[at]):
            yield one


def _covers(one: SecretMatch, run: TextSpan) -> bool:
    """Whether a match is the whole run, up to its padding: some secrets are base64 themselves."""
    return one.start == run.start and run.end - one.end <= _PADDING


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
