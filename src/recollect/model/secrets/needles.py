"""What the scan engine looks for in raw bytes, derived from the patterns.

Each expression says less than the finder: it matches wherever the finder might, in a line of a log as it is
written, with escapes, colours and line breaks inside. ``prefilter`` examines every match. The engine has no
look-behind, so the byte before a secret is part of its expression.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from recollect.model.secrets.base64_runs import LONG_RUN, TEXT
from recollect.model.secrets.patterns import NAMED, SHAPES, TOKENS

# Bytes to examine before and behind the end of a match.
BEFORE, BEHIND = 900, 400
# A key continues far behind its name.
KEY_BEHIND = 13_000


class Needle(NamedTuple):
    """An expression. ``behind``: how much is examined.

    ``is_colour``: that the block has colours, which is said once. ``is_rare``: what it stands for is known by a rare
    word, and not by a long one.
    """

    expression: bytes
    behind: int = BEHIND
    is_colour: bool = False
    is_rare: bool = False


_WORD = rb"[0-9A-Za-z_+/=.:$~-]"
_VALUE = rb"[0-9A-Za-z_~+/=.-]"
_BREAK = rb"(?:\\n|\n) *"
# No letter or digit, or one that can end an escape or a colour: \n, %3D, \u000a, [31m.
_EDGE = rb"(?:^|[^G-JL-Zg-lo-qsuw-z])"
_BESIDE = rb"[\\\"'` \]]"
_GLUE = rb"(?:[\\\"'`\s\]:=>,]|\\[nrt]|value|%[23][0-9A-Fa-f])+"
_SHORT, _NEAR = 4, 6
_LONG_WORD = 14  # of 16 letters: the escape before it may have taken two


def needles() -> list[Needle]:
    """All of them; the index of one is its number in the engine."""
    tokens = [Needle(one) for one in sorted(set(_tokens()))]
    rare = [Needle(one, is_rare=True) for one in _rare_words()]
    return [*tokens, *map(Needle, _values()), *rare, *_others()]


def digest() -> str:
    """Changes whenever a pattern or an expression does."""
    all_of_it = (TOKENS, NAMED, SHAPES, needles(), LONG_RUN, TEXT.pattern)
    return hashlib.sha256(repr(all_of_it).encode()).hexdigest()[:16]


def _tokens() -> Iterator[bytes]:
    # Beginnings by what follows them: in one expression, they take the engine less time to compile.
    starts: dict[bytes, set[bytes]] = {}
    for token in TOKENS:
        body = token.body.encode()
        if token.inside:
            yield rb"[0-9]{8}:AA[\w-]{10}" if token.inside == ":AA" else body
        for start in token.starts:
            first, (letter, count) = re.escape(start.encode()), _first_letters(token.body)
            if token.hint and len(start) <= _SHORT:
                # Only the whole of it is matched, so behind a late break any number of letters may be left.
                whole, rest = body, 1
            else:
                count = min(count, max(_SHORT, _LONG_WORD - len(start)))
                more = max(1, _LONG_WORD - len(start) - count)
                whole, rest = rb"%s{%d}%s{%d}" % (letter, count, _WORD, more), _SHORT
            # All in one expression: three would take the engine half as long again to compile.
            early = rb"%s{0,3}%s%s" % (letter, _BREAK, letter)
            late = rb"%s{%d}%s*%s%s{%d}" % (letter, _SHORT, _WORD, _BREAK, _WORD, rest)
            starts.setdefault(rb"%s|%s|%s" % (whole, early, late), set()).add(first)
            yield from _broken(start.encode(), is_known_by_rest="(?<=" in token.hint)
    for behind, some in starts.items():
        yield rb"%s(?:%s)(?:%s)" % (_EDGE, b"|".join(sorted(some)), behind)


def _first_letters(body: str) -> tuple[bytes, int]:
    """The class of the first letters of a body and how many, at least four; any letter where that is not plain."""
    plain = re.match(r"(\[[^]]+\]|\\d)\{(\d+)", body)
    return (plain[1].encode(), int(plain[2])) if plain and int(plain[2]) >= _SHORT else (_WORD, _SHORT)


def _broken(start: bytes, *, is_known_by_rest: bool) -> Iterator[bytes]:
    """A line break inside the beginning. Literals, of which there may be thousands: they take the engine no time.

    Where the next line is indented, the prefilter names only kinds that it knows by what follows the beginning.
    """
    for at in range(1, len(start)):
        before, behind = re.escape(start[max(0, at - _NEAR) : at]), re.escape(start[at : at + _SHORT])
        yield rb"%s\\n%s" % (before, behind)
        yield rb"%s\n%s" % (before, behind)
        if is_known_by_rest:
            yield rb"%s%s%s" % (before, _BREAK, behind)


def _values() -> Iterator[bytes]:
    """A value behind a telling name, a scheme of a header or the name of a cookie; marks at the end of one."""
    words = {word for one in NAMED for word in one.words} - {"session", "bot"}
    words |= {"key", "token", "secret", "credential", "auth", "cookie", "_session"}
    # A name that contains another is matched by that one.
    names = "|".join(sorted(one for one in words if not any(less in one for less in words - {one}))).encode()
    # Counted repetitions would make these slower, and this several times as slow.
    yield rb"(?i)(?:%s)[\w.-]*%s(?:%s{16}|%s+%s%s)" % (names, _GLUE, _VALUE, _VALUE, _BREAK, _VALUE)
    yield rb"(?i)(?:bearer|basic)[\s\\\"'nrt]{1,4}(?:%s{10}|%s{1,9}%s%s)" % (_VALUE, _VALUE, _BREAK, _VALUE)
    session = rb"(?i)(?:(?:sess|sid)[\w.-]*|[?&;]sig)="
    yield rb"%s(?:%s{16}|%s+%s%s)" % (session, _VALUE, _VALUE, _BREAK, _VALUE)
    yield rb"_mmk|AZDO|[0-9a-f]{28}-us"
    yield from _broken(b"_mmk", is_known_by_rest=False)
    yield from _broken(b"AZDO", is_known_by_rest=False)


def _rare_words() -> Iterator[bytes]:
    """Passwords in their usual places, escaped letters, marks in the middle."""
    given = rb"[\w.-]{0,20}%s{0,6}(?:[:=,]|=>|value\\?=)%s{0,8}[^\s\"'`\\,;]{4}" % (_BESIDE, _BESIDE)
    yield rb"(?i)(?:passw(?:or)?d|passphrase|pwd)%s" % given
    yield rb"(?i)login[^\n]{0,120}password[ \\\n]"
    yield rb"://[^\s:/?#@\"'`<>\\]{0,100}:[^\s/?#@\"'`<>\\]{3,200}(?:\\n[^\s/?#@\"'`<>\\]{1,100})?@"
    yield rb"(?i)//(?:hooks\.slack|[a-z]{0,8}\.?discord|[\w-]{1,60}\.webhook\.office)"
    yield rb"(?i)curl[^\n]{0,400} (?:-u|--user)"
    yield rb"\\u00[2-7]"
    yield rb"%(?:2[4BDFbdf]|3[ADad]|7[Ee])"
    yield rb"Q~[\w~.-]{31}"
    yield rb"sig=[0-9A-Za-z+/%]{43}"


def _others() -> Iterator[Needle]:
    """Private keys, colours."""
    yield Needle(rb"(?i)private key", KEY_BEHIND, is_rare=True)
    # The brackets of colours, as the prefilter looks for them.
    colour = rb"(?:1[bB]|\x1b|\\e|033|\^\[)\[|\[[0-9]{1,3}(?:[;:][0-9]{1,3}){0,8}m|[bBe3\x1b]\][0-9]{1,4};"
    yield Needle(colour, is_colour=True)
