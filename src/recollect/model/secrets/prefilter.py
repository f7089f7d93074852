"""The quick look: which lines may hold a secret, and which cannot.

Gigabytes of logs hold a handful of secrets, so nearly every line must be skipped without parsing. All needles are
searched in one pass, by Vectorscan at memory speed or by ``re`` where there is no wheel of it or the text is short. What
stands near colours, or near a line break in a token, is searched once more without them; base64 and escapes of an address
are searched decoded.

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
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from recollect.model.secrets.patterns import NAMED, SHAPES, TOKENS
from recollect.model.secrets.views import TERMINAL_CODE, TextSpan

_FARTHEST = 20_000


def suspects(block: bytes) -> list[TextSpan]:
    """The lines of a block that need a closer look, each without its newline."""
    lines: dict[int, int] = {}
    for first, last, _ in _matches(block):
        for place in (first, last - 1):
            start = block.rfind(b"\n", 0, place) + 1
            if start not in lines:
                end = block.find(b"\n", start)
                lines[start] = len(block) if end < 0 else end
    return [TextSpan(start, end) for start, end in sorted(lines.items())]


def regions(text: bytes) -> list[TextSpan]:
    """The parts of a text that need a closer look, with their surroundings; they do not overlap."""
    return _merged(
        TextSpan(_word_before(text, first - BEFORE), _word_behind(text, last + behind))
        for first, last, behind in _matches(text)
    )


def _merged(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """In order, those that touch as one."""
    merged: list[TextSpan] = []
    for start, end in sorted(spans):
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


# Where a needle matches, as far as that is known, and how far behind it a secret may go.
_Match = tuple[int, int, int]


def _matches(block: bytes) -> Iterator[_Match]:
    """What may be a secret."""
    return _matches_with(scan_engine() if len(block) >= _WORTH_THE_ENGINE else None, block)


def _matches_with(engine: ScanEngine | None, block: bytes, *, is_inside: bool = False) -> Iterator[_Match]:
    """``is_inside``: in a text that was decoded from another one, in which no third is looked for."""
    divided: list[TextSpan] = []
    for needle, start, end in _needle_matches(engine, block, is_inside):
        if needle.kind == DIVIDED:
            divided.append(TextSpan(max(start - BEFORE, 0), min(end + needle.behind, len(block))))
        else:
            yield start, end, needle.behind
    if divided:
        plain = _PlainText(block, divided)
        for needle, start, end in _needle_matches(engine, plain.text, is_inside):
            if needle.kind != DIVIDED:
                yield plain.source(start), plain.source(end - 1) + 1, needle.behind


def _needle_matches(
    engine: ScanEngine | None, block: bytes, is_inside: bool
) -> Iterator[tuple[Needle, int, int]]:
    end_of_run = 0
    for needle, start, end in _search(engine, block):
        if needle.kind == BASE64:
            if not is_inside and end > end_of_run:
                end_of_run, holds_secret = _in_base64(engine, block, end)
                if holds_secret:
                    yield needle, start, end_of_run
        elif _counts(engine, needle, block, end, is_inside):
            yield needle, start, end


def _counts(engine: ScanEngine | None, needle: Needle, block: bytes, end: int, is_inside: bool) -> bool:
    """Whether a match of a needle may be a secret."""
    if needle.kind == SHORT_START:
        return _token().match(block, end - needle.length) is not None
    if needle.kind == NAMED_VALUE:
        # What is random has a digit, a name in a program seldom. A path behind a name is what ``grep`` prints of programs.
        if _PATH.match(block, max(end - 16, 0)):
            return False
        rest = _REST_OF_VALUE.match(block, end)
        return _DIGIT.search(block, max(end - 16, 0), end if rest is None else rest.end()) is not None
    return needle.kind != PERCENT or (not is_inside and _is_in_address(engine, block, end))


_DIGIT = re.compile(rb"[0-9]")
# In a line of its own; keys of the same letters are longer than its names.
_PATH = re.compile(rb"(?:(?<=\n)|(?<=\\)n|(?<=\\n))/(?!(?:[0-9A-Za-z+/]|\\n|\n *){39})")
_BREAK = rb"(?:\\r)?(?:\\n|\r?\n)[ +]{0,8}"
_REST_OF_VALUE = re.compile(rb"(?:[0-9A-Za-z_~+/=.-]|%s){0,400}" % _BREAK)


# --- texts inside -------------------------------------------------------------------------------------------

_LETTERS = re.compile(rb"[0-9A-Za-z+/]*")
_RUN = re.compile(rb"[0-9A-Za-z+/]+(?:%s[0-9A-Za-z+/]+)*" % _BREAK)
_LONGEST_TEXT = 1 << 20
_ADDRESS = re.compile(rb"[0-9A-Za-z_.~%+=&?-]*")


def _in_base64(engine: ScanEngine | None, block: bytes, end: int) -> tuple[int, bool]:
    """The end of the run of base64 whose first letters end here, and whether it may hold a secret."""
    start = end - SHORTEST_BASE64
    run = _RUN.match(block, start, min(start + _LONGEST_TEXT, len(block)))
    assert run is not None  # noqa: S101 - for the type checker: there are letters
    # The first letter may be that of an escape, or the mark of a line in a patch.
    for first in (start, start + 1):
        if binascii.a2b_base64(block[first : first + 24]).isascii():
            own = re.sub(_BREAK, b"", run[0])[first - start :]
            text = binascii.a2b_base64(own[: len(own) - (len(own) % 4 == 1)] + b"==")
            return run.end(), any(True for _ in _matches_with(engine, text, is_inside=True))
    return run.end(), False


def _is_in_address(engine: ScanEngine | None, block: bytes, place: int) -> bool:
    """Whether the words around an escape of an address hold a secret once they are decoded."""
    least = max(0, place - 300)
    before = _ADDRESS.match(block[least:place][::-1])
    behind = _ADDRESS.match(block, place, place + 300)
    assert before is not None and behind is not None  # noqa: S101, PT018 - an expression that matches nothing too
    text = unquote_to_bytes(block[place - before.end() : behind.end()])
    return any(True for _ in _matches_with(engine, text, is_inside=True))


# What they begin with is tried first.
_LEFT_OUT = re.compile(rb"(?=[\\\x1b^\[\r\n])(?:%s|%s)" % (TERMINAL_CODE.encode(), _BREAK))


class _PlainText:
    """Parts of a text without line breaks, what indents the next line, and colours."""

    def __init__(self, block: bytes, parts: list[TextSpan]) -> None:
        pieces: list[bytes] = []
        # Where the pieces of the text begin, in it and in the block.
        self._starts, self._places = list[int](), list[int]()
        length = 0
        for first, last in _merged(parts):
            place = first
            for start, end in [
                *(code.span() for code in _LEFT_OUT.finditer(block, first, last)),
                (last, last),
            ]:
                pieces.append(block[place:start])
                self._starts.append(length)
                self._places.append(place)
                length += start - place
                place = end
            # Each part is a line.
            pieces.append(b"\n")
            length += 1
        self.text = b"".join(pieces)

    def source(self, place: int) -> int:
        """Where a letter stands in the block."""
        at = bisect_right(self._starts, place) - 1
        return self._places[at] + place - self._starts[at]


# --- what is searched for, derived from the patterns ----------------------------------------------------------

# Each expression says less than the finder: it matches wherever the finder might.
BEFORE, BEHIND = 900, 2_048
KEY_BEHIND = 13_000
SHORTEST_BASE64 = 27


class Needle(NamedTuple):
    """An expression, how many bytes behind its end are searched, what else is asked of a match; its length, if it has one."""

    expression: bytes
    behind: int = BEHIND
    kind: int = 0
    length: int = 0


# DIVIDED: a colour, or a line break in a token. What it divides is searched for without it.
SHORT_START, NAMED_VALUE, BASE64, PERCENT, DIVIDED = range(1, 6)
_WORD = rb"[0-9A-Za-z_+/=.:$~-]"
_VALUE = rb"[0-9A-Za-z_~+/=.-]"
_BESIDE = rb"[\\\"'` \]]"
_BETWEEN_NAME_AND_VALUE = rb"(?:[\\\"'`\s\]:=>,]|\\[nrt]|value|%[23][0-9A-Fa-f])*"
_GLUE = _BETWEEN_NAME_AND_VALUE + rb"(?:[:=,]|%(?:2[Cc]|3[AaDd]))" + _BETWEEN_NAME_AND_VALUE
_SHORT = 4


@functools.cache
def needles() -> list[Needle]:
    """All of them; the index of one is its number in the engine."""
    starts = _token_starts()
    short = [start for start in starts if len(start) <= _SHORT]
    # By their first letters: all in one are too many.
    tries = [
        (trie(some), trie(one for one in some if len(one) > _SHORT)) for some in _by_first_letter(starts)
    ]
    by_length = {
        length: trie(one for one in short if len(one) == length) for length in sorted(set(map(len, short)))
    }
    run = rb"[0-9A-Za-z+/]{%d}" % SHORTEST_BASE64
    return [
        *(Needle(rb"%s%s{10}" % (long, _WORD)) for _, long in tries if long),
        *(
            Needle(rb"%s%s{10}" % (some, _WORD), kind=SHORT_START, length=length + 10)
            for length, some in by_length.items()
        ),
        *(Needle(rb"%s%s*%s%s" % (some, _WORD, _BREAK, _WORD), KEY_BEHIND, DIVIDED) for some, _ in tries),
        *(Needle(one, KEY_BEHIND, DIVIDED) for one in _divided_starts(starts)),
        *_others(),
        Needle(run, kind=BASE64),
    ]


def _token_starts() -> list[bytes]:
    return sorted({start.encode() for token in TOKENS for start in token.starts})


def _by_first_letter(words: Iterable[bytes]) -> Iterator[list[bytes]]:
    return (list(some) for _, some in groupby(words, key=lambda word: word[:1]))


def _divided_starts(starts: Iterable[bytes]) -> list[bytes]:
    """A line break inside the beginning or the mark of a token. Thousands of literals take less time than one choice."""
    return sorted(
        {
            re.escape(start[max(0, at - 6) : at]) + line_break + re.escape(start[at : at + 4])
            for start in (*starts, b"_mmk", b"AZDO")
            for at in range(1, len(start))
            for line_break in (rb"\\n", rb"\\n  ", rb"\\n    ", rb"\\r\\n", rb"\n")
        }
    )


@functools.cache
def _token() -> re.Pattern[bytes]:
    """A beginning of a token and letters behind it. Two or three letters are chance in data: what follows them must fit."""
    long = trie(start for start in _token_starts() if len(start) > _SHORT)
    short = (
        re.escape(start) + token.body for token in TOKENS for start in token.starts if len(start) <= _SHORT
    )
    return re.compile(rb"%s%s{10}|%s" % (long, _WORD, "|".join(short).encode()))


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
    return hashlib.sha256(repr((TOKENS, NAMED, SHAPES, needles())).encode()).hexdigest()[:16]


def _others(has_digit: bytes = b"") -> Iterator[Needle]:
    """Marks inside a token or at its end; values of telling names, schemes and cookies; passwords; keys; escapes."""
    for token in TOKENS:
        if token.inside:
            yield Needle(rb"[0-9]{8}:AA[\w-]{10}" if token.inside == ":AA" else token.body.encode())
    words = {word for one in NAMED for word in one.words} - {"session", "bot"}
    words |= {"key", "token", "secret", "credential", "auth", "cookie", "_session"}
    # A name that contains another is matched by that one.
    shortest = [one.encode() for one in words if not any(less in one for less in words - {one})]
    # Counted repetitions would make these slower, and this several times as slow.
    value = rb"(?:%s{16}|%s+%s%s)" % (_VALUE, _VALUE, _BREAK, _VALUE)
    yield Needle(rb"(?i:%s)[\w.-]*%s%s%s" % (trie(shortest), _GLUE, has_digit, value), kind=NAMED_VALUE)
    yield Needle(
        rb"(?i)(?:bearer|basic)[\s\\\"'nrt]{1,4}(?:%s{10}|%s{1,9}%s%s)" % (_VALUE, _VALUE, _BREAK, _VALUE)
    )
    yield Needle(rb"(?i)(?:(?:sess|sid)[\w.-]*|[?&;]sig)=%s" % value)
    yield Needle(rb"_mmk|AZDO|[0-9a-f]{28}-us")
    given = rb"[\w.-]{0,20}%s{0,6}(?:[:=,]|=>|value\\?=)%s{0,8}(?:[^\s\"'`\\,;]|%s){4}" % (
        _BESIDE,
        _BESIDE,
        _BREAK,
    )
    yield Needle(rb"(?i)(?:passw(?:or)?d|passphrase|pwd)%s" % given)
    yield Needle(rb"(?i)login[^\n]{0,120}password[ \\\n]")
    password = rb"[^\s/?#@\"'`<>\\]"
    yield Needle(
        rb"://[^\s:/?#@\"'`<>\\]{0,100}:(?:%s{3,200}|%s{1,200}%s%s{1,100})@"
        % (password, password, _BREAK, password)
    )
    yield Needle(rb"(?i)//(?:hooks\.slack|[a-z]{0,8}\.?discord|[\w-]{1,60}\.webhook\.office)")
    yield Needle(rb"(?i)curl[^\n]{0,400} (?:-u|--user)")
    yield Needle(rb"\\u00[2-7]")
    yield Needle(rb"%(?:2[4BDFbdf]|3[ADad]|7[Ee])", kind=PERCENT)
    yield Needle(rb"Q~[\w~.-]{31}")
    yield Needle(rb"sig=[0-9A-Za-z+/%]{43}")
    yield Needle(rb"(?i)private key", KEY_BEHIND)
    colour = rb"(?:1[bB]|\x1b|\\e|033|\^\[)\[|\[[0-9]{1,3}(?:[;:][0-9]{1,3}){0,8}m|[bBe3\x1b]\][0-9]{1,4};"
    yield Needle(colour, kind=DIVIDED)


# --- search -------------------------------------------------------------------------------------------------

# Below this ``re`` is done before the engine is compiled.
_WORTH_THE_ENGINE = 1 << 14


def _search(engine: ScanEngine | None, block: bytes) -> Iterator[tuple[Needle, int, int]]:
    """Each needle that matches, from where to where; the engine says only where a match ends."""
    if engine is not None:
        for number, end in engine.scan(block):
            yield needles()[number], end - 1, end
        view, end = memoryview(block), 0
        while (length := engine.first_run(view[end:])) is not None:
            yield needles()[-1], end + length - 1, end + length
            rest = _LETTERS.match(block, end + length)
            end = len(block) if rest is None else rest.end()
        return
    for needle, expression in _expressions():
        for match in expression.finditer(block):
            yield needle, match.start(), match.end()


@functools.cache
def _expressions() -> list[tuple[Needle, re.Pattern[bytes]]]:
    token = (Needle(b""), _token())
    line_break = Needle(rb"(?<=%s)%s(?=%s)" % (_WORD, _BREAK, _WORD), KEY_BEHIND, DIVIDED)
    # Of two matches that overlap ``re`` gives the first: a name must not be taken for the value.
    others = [line_break, *_others(rb"(?=%s{0,400}[0-9])" % _VALUE), needles()[-1]]
    return [token, *((needle, re.compile(needle.expression)) for needle in others)]


class ScanEngine:
    """The needles, compiled; shared by all threads, each of which has working memory of its own.

    Runs of base64 are looked for one by one: an expression that names all of them takes as long as all other needles.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._needles, self._runs = library.Database(), library.Database()
        *expressions, run = [needle.expression for needle in needles()]
        self._needles.compile(expressions=expressions, ids=list(range(len(expressions))))
        self._runs.compile(expressions=[run], ids=[0], flags=[library.HS_FLAG_SINGLEMATCH])
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
