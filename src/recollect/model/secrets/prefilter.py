"""The quick look: which lines may hold a secret, and which cannot.

Gigabytes of logs hold a handful of secrets, so nearly every line must be skipped without parsing. All needles are
searched in one pass, by the scan engine (Vectorscan) at memory speed or by ``re`` where there is no wheel of it or the
text is short. A text that is written in colours, in base64 or in the escapes of an address is searched once more without.

The promise is one-sided: a skipped line has nothing the finder would find (except for the rare cases that
``tests/model/secrets`` counts); other lines may have nothing either. Lines are raw: a secret may be escaped in JSON, broken
by an escaped newline, or encoded in base64.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from recollect.model.secrets.patterns import NAMED, SHAPES, TOKENS, TokenPattern
from recollect.model.secrets.views import TERMINAL_CODE, TextSpan

_WORTH_THE_ENGINE = 64
# What ``re`` searches in the time that it takes to compile the engine.
_WORTH_COMPILING = 1 << 20
_FARTHEST = 20_000
# Whatever a needle matches has one of these; most strings of a log are short and have none.
_ANYTHING = re.compile(rb"[0-9A-Za-z_+/=.:$~-]{10}|[\\\n%\[\]]|[pP](?i:ass|wd|rivate)|[cC](?i:url)|//|Q~")
_SHORT_TEXT = 128


def suspects(block: bytes) -> list[TextSpan]:
    """The lines of a block that need a closer look, each without its newline."""
    lines: dict[int, int] = {}
    for match in _matches(block):
        for place in (match.start, match.end - 1):
            start = block.rfind(b"\n", 0, place) + 1
            if start not in lines:
                end = block.find(b"\n", start)
                lines[start] = len(block) if end < 0 else end
    return [TextSpan(start, end) for start, end in sorted(lines.items())]


def regions(text: bytes) -> list[TextSpan]:
    """The parts of a text that need a closer look, with their surroundings; they do not overlap."""
    if len(text) <= _SHORT_TEXT and _ANYTHING.search(text) is None:
        return []
    merged: list[TextSpan] = []
    for start, end in sorted(
        (_word_before(text, match.start - BEFORE), _word_behind(text, match.end + match.behind))
        for match in _matches(text)
    ):
        if merged and start <= merged[-1].end:
            merged[-1] = TextSpan(merged[-1].start, max(end, merged[-1].end))
        else:
            merged.append(TextSpan(start, end))
    return merged


def _word_before(text: bytes, place: int) -> int:
    """The start of the word at a position, so that no word is cut."""
    least = max(place - _FARTHEST, 0)
    return max(text.rfind(b" ", least, max(place, 0)) + 1, text.rfind(b"\n", least, max(place, 0)) + 1, least)


def _word_behind(text: bytes, place: int) -> int:
    ends = (text.find(mark, place, place + _FARTHEST) for mark in (b" ", b"\n"))
    return min((end for end in ends if end >= 0), default=min(place + _FARTHEST, len(text)))


class _Match(NamedTuple):
    """Where a needle matches, as far as that is known, and how far behind it a secret may go."""

    start: int
    end: int
    behind: int = 0


def _matches(block: bytes, *, is_inside: bool = False, is_plain: bool = False) -> Iterator[_Match]:
    """What may be a secret.

    ``is_inside``: in a text that was decoded from another one, in which no third is looked for; ``is_plain``: without colours.
    """
    has_colours, end_of_run = False, 0
    for needle, start, end in _search(block):
        if needle.kind == COLOUR:
            has_colours = True
        elif needle.kind == BASE64:
            if not is_inside and end > end_of_run:
                run = _in_base64(block, end)
                end_of_run = run.end
                if run.behind:
                    yield run
        elif _counts(needle, block, start, end, is_inside):
            yield _Match(start, end, needle.behind)
    if has_colours and not is_plain:
        plain = _Uncoloured(block)
        for match in _matches(plain.text, is_inside=is_inside, is_plain=True):
            yield _Match(plain.source(match.start), plain.source(match.end - 1) + 1, match.behind)


def _counts(needle: Needle, block: bytes, start: int, end: int, is_inside: bool) -> bool:
    """Whether a match of a needle may be a secret."""
    if needle.kind == TOKEN:
        return _token().search(block, max(end - BEFORE, 0), end + 40) is not None
    if needle.kind == NAMED_VALUE:
        return _has_digit(block, end)
    if needle.kind == BREAK:
        return _is_start_broken(block, start, end)
    return needle.kind != PERCENT or (not is_inside and _is_in_address(block, end))


@functools.cache
def _token() -> re.Pattern[bytes]:
    return re.compile(token_expression())


_DIGIT = re.compile(rb"[0-9]")
_REST_OF_VALUE = re.compile(rb"(?:[0-9A-Za-z_~+/=.-]|\\n|\n *){0,400}")
# A path in a line of its own; keys of the same letters are longer than its names.
_PATH = re.compile(rb"(?:(?<=\n)|(?<=\\)n|(?<=\\n))/(?!(?:[0-9A-Za-z+/]|\\n|\n *){39})")


def _has_digit(block: bytes, end: int) -> bool:
    """Whether a value whose first letters end here has a digit: what is random has one, a name in a program seldom.

    Not in a path behind a name, as in what ``grep`` prints of programs."""
    if _PATH.match(block, max(end - 16, 0)):
        return False
    rest = _REST_OF_VALUE.match(block, end)
    return _DIGIT.search(block, max(end - 16, 0), end if rest is None else rest.end()) is not None


def _is_start_broken(block: bytes, start: int, end: int) -> bool:
    """Whether the beginning of a token goes on behind a line break."""
    pairs = broken_starts().get(block[start - 1 : start] + block[end : end + 1], ())
    return any(block.endswith(before, 0, start) and block.startswith(behind, end) for before, behind in pairs)


# --- texts inside -------------------------------------------------------------------------------------------

# Letters of base64 whose bytes are ASCII: the first three of four; the last is any.
_LETTER = rb"[0-9A-Za-z+/]"
_TEXT = re.compile(
    rb"(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589]%s){6}%s{3}" % (_LETTER, _LETTER)
)
_BETWEEN = re.compile(rb"(?:\\r)?(?:\\n|\r?\n)[ +]{0,8}")
_RUN = re.compile(rb"%s+(?:(?:\\r)?(?:\\n|\r?\n)[ +]{0,8}%s+)*" % (_LETTER, _LETTER))
_REST = re.compile(rb"%s*" % _LETTER)
_LONGEST_TEXT = 1 << 20
_ADDRESS = re.compile(rb"[0-9A-Za-z_.~%+=&?-]*")


def _in_base64(block: bytes, end: int) -> _Match:
    """The run of base64 whose first letters end here; with something behind it if it may hold a secret."""
    start = end - SHORTEST_BASE64
    # The first letter may be that of an escape, and a plus the mark of a line in a patch.
    is_escape = block[start - 1 : start] == b"\\" and block[start] in b"nrt"
    for first in (start, start + 1) if is_escape or block[start] == 0x2B else (start,):
        if _TEXT.match(block, first):
            run = _RUN.match(block, first, min(first + _LONGEST_TEXT, len(block)))
            assert run is not None  # noqa: S101 - for the type checker: it has the letters of a text
            # Searched once as a whole: its lines are not searched again one by one.
            letters = _BETWEEN.sub(b"", run[0])
            text = binascii.a2b_base64(letters[: len(letters) - (len(letters) % 4 == 1)] + b"==")
            return _Match(start, run.end(), any(True for _ in _matches(text, is_inside=True)))
    rest = _REST.match(block, end)
    return _Match(start, end if rest is None else rest.end())


def _is_in_address(block: bytes, place: int) -> bool:
    """Whether the words around an escape of an address hold a secret once they are decoded."""
    least = max(0, place - 300)
    before = _ADDRESS.match(block[least:place][::-1])
    behind = _ADDRESS.match(block, place, place + 300)
    assert before is not None and behind is not None  # noqa: S101, PT018 - an expression that matches nothing too
    text = unquote_to_bytes(block[place - before.end() : behind.end()])
    return any(True for _ in _matches(text, is_inside=True))


_COLOUR = re.compile(rb"(?=[\\\x1b^\[])(?:%s)" % TERMINAL_CODE.encode())  # what it begins with is tried first
_BESIDE_COLOUR = 300


class _Uncoloured:
    """What stands near colours, without them."""

    def __init__(self, block: bytes) -> None:
        pieces: list[bytes] = []
        self._starts, self._places = list[int](), list[int]()
        length = end = 0
        codes = [code.span() for code in _COLOUR.finditer(block)]
        for start, behind in [*codes, (len(block), len(block))]:
            parts = (
                [(end, start)]
                if start - end <= 2 * _BESIDE_COLOUR
                else [(end, end + _BESIDE_COLOUR), (start - _BESIDE_COLOUR, start)]
            )
            for number, (first, last) in enumerate(parts):
                piece = (b"\n" if number else b"") + block[first:last]
                pieces.append(piece)
                self._starts.append(length)
                self._places.append(first - number)
                length += len(piece)
            end = behind
        self.text = b"".join(pieces)

    def source(self, place: int) -> int:
        """Where a letter stands in the block."""
        at = bisect_right(self._starts, max(place, 0)) - 1
        return self._places[at] + max(place, 0) - self._starts[at]


# --- what is searched for, derived from the patterns ----------------------------------------------------------

# Each expression says less than the finder: it matches wherever the finder might, with escapes and line breaks inside. The
# scan engine has no look-behind, so the byte before a secret is part of its expression.
BEFORE, BEHIND = 900, 2_048
KEY_BEHIND = 13_000
SHORTEST_BASE64 = 27


class Needle(NamedTuple):
    """An expression, how many bytes behind its end are searched, and what else is asked of a match."""

    expression: bytes
    behind: int = BEHIND
    kind: int = 0


TOKEN, NAMED_VALUE, BREAK, BASE64, PERCENT, COLOUR = range(1, 7)
_WORD = rb"[0-9A-Za-z_+/=.:$~-]"
_VALUE = rb"[0-9A-Za-z_~+/=.-]"
BASE64_RUN = Needle(rb"[0-9A-Za-z+/]{%d}" % SHORTEST_BASE64, kind=BASE64)
_BREAK = rb"(?:\\n|\n) *"
# No letter or digit, or one that can end an escape or a colour: \n, %3D, \u000a, [31m.
_EDGE = rb"(?:^|[^G-JL-Zg-lo-qsuw-z])"
_BESIDE = rb"[\\\"'` \]]"
_BETWEEN_NAME_AND_VALUE = rb"(?:[\\\"'`\s\]:=>,]|\\[nrt]|value|%[23][0-9A-Fa-f])*"
_GLUE = _BETWEEN_NAME_AND_VALUE + rb"(?:[:=,]|%(?:2[Cc]|3[AaDd]))" + _BETWEEN_NAME_AND_VALUE
_SHORT, _NEAR = 4, 6
_LONG_WORD = 14  # of 16 letters: the escape before it may have taken two


def needles() -> list[Needle]:
    """Those of the engine but ``BASE64_RUN``; the index of one is its number there."""
    behind: dict[bytes, set[bytes]] = {}
    for start, rest in _token_starts().items():
        behind.setdefault(rest, set()).add(re.escape(start))
    # Beginnings by what follows them: in one expression, they take the engine less time to compile.
    tokens = [rb"%s(?:%s)(?:%s)" % (_EDGE, b"|".join(sorted(some)), rest) for rest, some in behind.items()]
    # Literals, of which there are thousands: they take the engine no time.
    broken = {
        re.escape(before) + line_break + re.escape(behind)
        for before, behind, may_be_indented in _broken_starts()
        for line_break in (rb"\\n", rb"\n", *([_BREAK] if may_be_indented else []))
    }
    return [*(Needle(one, kind=TOKEN) for one in tokens), *map(Needle, sorted(broken)), *_others()]


def python_needles() -> list[Needle]:
    """The same for ``re``, which tries expressions one by one."""
    return [
        Needle(token_expression()),
        Needle(_BREAK, kind=BREAK),
        *_others(rb"(?=(?:%s|%s){0,400}[0-9])" % (_VALUE, _BREAK)),
        BASE64_RUN,
    ]


@functools.cache
def token_expression() -> bytes:
    """Any beginning of a token and letters behind it, for ``re``; a letter before it is that of an escape or a colour."""
    starts = _token_starts()
    long = rb"%s(?:%s|%s){10}" % (trie(one for one in starts if len(one) > _SHORT), _WORD, _BREAK)
    # Two or three letters are chance in data: what follows them must fit.
    short = b"|".join(
        rb"%s(?:%s)" % (re.escape(one), rest) for one, rest in starts.items() if len(one) <= _SHORT
    )
    edge = rb"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrtv0e])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=[0-9;[][mK]))"
    return rb"%s(?:%s|(?=(?:%s|%s){14})(?:%s))" % (edge, long, _WORD, _BREAK, short)


@functools.cache
def broken_starts() -> dict[bytes, set[tuple[bytes, bytes]]]:
    """What stands before and behind a line break inside a beginning, by the two letters beside the break."""
    found: dict[bytes, set[tuple[bytes, bytes]]] = {}
    for before, behind, _ in _broken_starts():
        found.setdefault(before[-1:] + behind[:1], set()).add((before, behind))
    return found


def trie(words: Iterable[bytes]) -> bytes:
    """An expression for any of the words that tries each first letter once, and the longest word first."""
    tails: dict[bytes, list[bytes]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    has_end = tails.pop(b"", None) is not None
    branches = [re.escape(letter) + trie(rest) for letter, rest in sorted(tails.items())]
    if len(branches) == 1 and not has_end:
        return branches[0]
    return b"(?:%s)%s" % (b"|".join(branches), b"?" if has_end else b"") if branches else b""


def digest() -> str:
    """Changes whenever a pattern or an expression does."""
    return hashlib.sha256(repr((TOKENS, NAMED, SHAPES, needles(), BASE64_RUN)).encode()).hexdigest()[:16]


def _token_starts() -> dict[bytes, bytes]:
    """How tokens begin, each with the expression for what follows."""
    starts: dict[bytes, set[bytes]] = {}
    for token in TOKENS:
        for start in token.starts:
            starts.setdefault(start.encode(), set()).add(_behind_start(token, start))
    return {start: b"|".join(sorted(some)) for start, some in starts.items()}


def _behind_start(token: TokenPattern, start: str) -> bytes:
    plain = re.match(r"(\[[^]]+\]|\\d)\{(\d+)", token.body)
    is_plain = plain is not None and int(plain[2]) >= _SHORT
    letter, count = (plain[1].encode(), int(plain[2])) if plain and is_plain else (_WORD, _SHORT)
    if token.hint and len(start) <= _SHORT:
        # Only the whole of it is matched, so behind a late break any number of letters may be left.
        whole, rest = token.body.encode(), 1
    else:
        count = min(count, max(_SHORT, _LONG_WORD - len(start)))
        more = max(1, _LONG_WORD - len(start) - count)
        whole, rest = rb"%s{%d}%s{%d}" % (letter, count, _WORD, more), _SHORT
    # All in one expression: three would take the engine half as long again to compile.
    early = rb"%s{0,3}%s%s" % (letter, _BREAK, letter)
    late = rb"%s{%d}%s*%s%s{%d}" % (letter, _SHORT, _WORD, _BREAK, _WORD, rest)
    return rb"%s|%s|%s" % (whole, early, late)


def _broken_starts() -> Iterator[tuple[bytes, bytes, bool]]:
    """What stands before and behind a line break inside the beginning or the mark of a token; whether the next line may be indented."""
    starts = [(start, "(?<=" in token.hint) for token in TOKENS for start in token.starts]
    for start, is_known_by_rest in [*starts, ("_mmk", False), ("AZDO", False)]:
        for at in range(1, len(start)):
            yield start[max(0, at - _NEAR) : at].encode(), start[at : at + _SHORT].encode(), is_known_by_rest


def _others(has_digit: bytes = b"") -> Iterator[Needle]:
    """Marks inside a token or at its end; values of telling names, schemes and cookies; passwords; keys; escapes; colours."""
    for token in TOKENS:
        if token.inside:
            yield Needle(rb"[0-9]{8}:AA[\w-]{10}" if token.inside == ":AA" else token.body.encode())
    words = {word for one in NAMED for word in one.words} - {"session", "bot"}
    words |= {"key", "token", "secret", "credential", "auth", "cookie", "_session"}
    # A name that contains another is matched by that one.
    shortest = [one.encode() for one in words if not any(less in one for less in words - {one})]
    # Counted repetitions would make these slower, and this several times as slow.
    named = rb"(?i:%s)[\w.-]*%s" % (trie(shortest), _GLUE)
    value = rb"(?:%s{16}|%s+%s%s)" % (_VALUE, _VALUE, _BREAK, _VALUE)
    yield Needle(named + has_digit + value, kind=NAMED_VALUE)
    yield Needle(
        rb"(?i)(?:bearer|basic)[\s\\\"'nrt]{1,4}(?:%s{10}|%s{1,9}%s%s)" % (_VALUE, _VALUE, _BREAK, _VALUE)
    )
    yield Needle(rb"(?i)(?:(?:sess|sid)[\w.-]*|[?&;]sig)=" + value)
    yield Needle(rb"_mmk|AZDO|[0-9a-f]{28}-us")
    given = rb"[\w.-]{0,20}%s{0,6}(?:[:=,]|=>|value\\?=)%s{0,8}[^\s\"'`\\,;]{4}" % (_BESIDE, _BESIDE)
    yield Needle(rb"(?i)(?:passw(?:or)?d|passphrase|pwd)%s" % given)
    yield Needle(rb"(?i)login[^\n]{0,120}password[ \\\n]")
    yield Needle(rb"://[^\s:/?#@\"'`<>\\]{0,100}:[^\s/?#@\"'`<>\\]{3,200}(?:\\n[^\s/?#@\"'`<>\\]{1,100})?@")
    yield Needle(rb"(?i)//(?:hooks\.slack|[a-z]{0,8}\.?discord|[\w-]{1,60}\.webhook\.office)")
    yield Needle(rb"(?i)curl[^\n]{0,400} (?:-u|--user)")
    yield Needle(rb"\\u00[2-7]")
    yield Needle(rb"%(?:2[4BDFbdf]|3[ADad]|7[Ee])", kind=PERCENT)
    yield Needle(rb"Q~[\w~.-]{31}")
    yield Needle(rb"sig=[0-9A-Za-z+/%]{43}")
    yield Needle(rb"(?i)private key", KEY_BEHIND)
    colour = rb"(?:1[bB]|\x1b|\\e|033|\^\[)\[|\[[0-9]{1,3}(?:[;:][0-9]{1,3}){0,8}m|[bBe3\x1b]\][0-9]{1,4};"
    yield Needle(colour, kind=COLOUR)


# --- search -------------------------------------------------------------------------------------------------


def _search(block: bytes) -> Iterator[tuple[Needle, int, int]]:
    """Each needle that matches, from where to where; the engine says only where a match ends."""
    _State.searched += len(block)
    is_much = len(block) >= _WORTH_THE_ENGINE and _State.searched > _WORTH_COMPILING
    engine = scan_engine() if is_much else None
    if engine is not None:
        for number, end in engine.scan(block):
            yield engine.needles[number], end - 1, end
        end = 0
        while (length := engine.first_run(memoryview(block)[end:])) is not None:
            yield BASE64_RUN, end + length - 1, end + length
            rest = _REST.match(block, end + length)
            end = len(block) if rest is None else rest.end()
        return
    for needle, expression in _expressions():
        for match in expression.finditer(block):
            yield needle, match.start(), match.end()


class _State:
    """How much this process has searched."""

    searched = 0


@functools.cache
def _expressions() -> list[tuple[Needle, re.Pattern[bytes]]]:
    return [(needle, re.compile(needle.expression)) for needle in python_needles()]


class ScanEngine:
    """The needles, compiled; shared by all threads, each of which has working memory of its own.

    Runs of base64 are looked for one by one: an expression that names all of them takes as long as all other needles.
    """

    def __init__(self, library: Any) -> None:
        self.needles = needles()
        once = library.HS_FLAG_SINGLEMATCH
        flags = [once if one.kind == COLOUR else 0 for one in self.needles]
        self._library = library
        self._needles, self._runs = library.Database(), library.Database()
        self._needles.compile(
            expressions=[one.expression for one in self.needles], ids=list(range(len(flags))), flags=flags
        )
        self._runs.compile(expressions=[BASE64_RUN.expression], ids=[0], flags=[once])
        # Working memory that no thread uses at the moment, by database.
        self._unused: dict[Any, list[Any]] = {self._needles: [], self._runs: []}

    def scan(self, block: bytes) -> list[tuple[int, int]]:
        """The number of each needle that matches, and where the match ends."""
        return self._scan(self._needles, block)

    def first_run(self, block: memoryview) -> int | None:
        """Where the first run of base64 has its shortest length."""
        found = self._scan(self._runs, block) if len(block) >= SHORTEST_BASE64 else None
        return found[0][1] if found else None

    def _scan(self, database: Any, block: bytes | memoryview) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []

        def note(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((number, end))

        unused = self._unused[database]
        memory = unused.pop() if unused else self._library.Scratch(database)
        database.scan(block, match_event_handler=note, scratch=memory)
        unused.append(memory)
        return found


@functools.cache
def scan_engine() -> ScanEngine | None:
    """None where the library is missing, or cannot compile for this processor."""
    try:
        import hyperscan
    except ImportError:  # no wheel for this platform
        return None
    try:
        return ScanEngine(hyperscan)
    except hyperscan.HyperscanError:
        return None
