"""A fast scan of bytes: which lines may hold a secret, and which cannot.

Gigabytes of logs hold a handful of secrets, so nearly every line must be skipped without parsing. Whole
blocks are turned into masks by one table look-up per byte, and long words are found in the mask by substring
search; only a long word is examined: how it begins, and what it is assigned to. Everything else has a rare
word of its own.

The promise is one-sided: a skipped line has nothing the finder would find (except for the rare cases that
``tests/model/secrets`` counts); other lines may have nothing either. Lines are raw: a secret may be escaped
in JSON, broken by an escaped newline, or encoded in base64.
"""

from __future__ import annotations

import binascii
import functools
import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote_to_bytes

from recollect.model.secrets.base64_runs import LONG_BASE64
from recollect.model.secrets.patterns import NAMED, TOKENS
from recollect.model.secrets.scan_engine import WORTH_A_SCAN, ScanWindow, engine
from recollect.model.secrets.views import TERMINAL_CODE

_LETTER, _OTHER = b"A", b" "
_QUOTE, _BACKSLASH, _NEWLINE = 0x22, 0x5C, 0x0A


def _mask(more: bytes) -> bytes:
    """A table that maps letters, digits and ``more`` to one letter, and all else to another."""
    letters = bytes(code for code in range(128) if chr(code).isalnum()) + more
    return b"".join(_LETTER if code in letters else _OTHER for code in range(256))


_WORDS = _mask(b"_-")
_BASE64 = _mask(b"+/")
_WORDS_AND_BASE64 = _mask(b"_-+/")
_NAME = _mask(b"_.-")
_LONG_WORD = 16
_A_LONG_WORD, _A_LONG_BASE64 = _LETTER * _LONG_WORD, _LETTER * LONG_BASE64


# Called with the span of a possible secret; returns where to continue.
_Note = Callable[[int, int], int]
_Look = Callable[[bytes, _Note], None]
_BEFORE, _BEHIND, _FARTHEST = 512, 2048, 20_000
_LONGEST_WORD = 400
# Whatever is noted in a text has one of these: letters in a row, an escape or a break, or a part of a rare word.
# Most strings of a log are short and have none.
_ANYTHING = re.compile(rb"[0-9A-Za-z_+/-]{16}|[\\\n%\[\]]|[pP](?i:ass|wd|rivate)|//|Q~")
_SHORT_TEXT = 128


def suspects(block: bytes) -> list[tuple[int, int]]:
    """The lines of a block that need a closer look: start and end of each, without the newline."""
    found: dict[int, int] = {}

    def note(start: int, _end: int) -> int:
        end = block.find(b"\n", start)
        end = len(block) if end < 0 else end
        found[block.rfind(b"\n", 0, start) + 1] = end
        return end

    _look_everywhere(block, note)
    return sorted(found.items())


def regions(text: bytes) -> list[tuple[int, int]]:
    """The parts of a text that need a closer look, with their surroundings; they do not overlap."""
    if len(text) <= _SHORT_TEXT and _ANYTHING.search(text) is None:
        return []
    found: list[tuple[int, int]] = []

    def note(start: int, end: int) -> int:
        found.append((start, end))
        return end

    _look_everywhere(text, note)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(
        (_word_before(text, start - _BEFORE), _word_behind(text, end + _BEHIND)) for start, end in found
    ):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _look_everywhere(block: bytes, note: _Note) -> None:
    used = engine() if len(block) >= WORTH_A_SCAN else None
    if used is None:
        for look in _LOOKS:
            look(block, note)
        return
    windows, base64, has_colours = used.matches(block)
    _look_in_windows(block, windows, note)
    done = 0
    for end in base64:
        if end > done:
            done = _look_in_base64(block, end, note)
    if has_colours:
        _coloured(block, note)


def _look_in_windows(block: bytes, windows: Sequence[ScanWindow], note: _Note) -> None:
    done = 0
    for window in windows:
        if window.end > done:
            done = _look_in_window(block, window, note)


def _look_in_window(block: bytes, window: ScanWindow, note: _Note) -> int:
    """Examine a part of a block; returns where to continue."""
    least, most = max(window.start - _LONGEST_WORD, 0), min(window.end + _LONGEST_WORD, len(block))
    first = least + block[least : max(window.start, 0)].translate(_WORDS_AND_BASE64).rfind(_OTHER) + 1
    rest = block[window.end : most].translate(_WORDS_AND_BASE64).find(_OTHER)
    last = most if rest < 0 else window.end + rest
    part, done = block[first:last], 0

    def note_part(start: int, end: int) -> int:
        nonlocal done
        behind = note(first + start, first + end)
        done = max(done, behind)
        return behind - first

    # Each kind of word has needles of its own, so what no needle of a kind matched is not there.
    if window.has_long:
        for look in _LONG_LOOKS:
            look(part, note_part)
    if window.has_rare:
        _rare_words(part, note_part)
    return done


def _look_in_base64(block: bytes, end: int, note: _Note) -> int:
    """Examine the run of base64 whose first letters end here; returns where to continue."""
    start = max(end - LONG_BASE64 - 1, 0)
    start += block[start:end].translate(_BASE64).rfind(_OTHER) + 1
    start += block[start - 1 : start] == b"\\" and block[start : start + 1] in (b"n", b"r", b"t")
    run = _WRAPPED.match(block, start)
    is_secret, behind = _end_of_hidden_text(block, start, end if run is None else run.end())
    return note(start, behind) if is_secret else behind


def _word_before(text: bytes, place: int) -> int:
    """The start of the word at a position, so that no word is cut."""
    least = max(place - _FARTHEST, 0)
    return max(text.rfind(b" ", least, max(place, 0)) + 1, text.rfind(b"\n", least, max(place, 0)) + 1, least)


def _word_behind(text: bytes, place: int) -> int:
    ends = (text.find(mark, place, place + _FARTHEST) for mark in (b" ", b"\n"))
    return min((end for end in ends if end >= 0), default=min(place + _FARTHEST, len(text)))


def _has(look: _Look, data: bytes) -> bool:
    found: list[int] = []

    def note(start: int, _end: int) -> int:
        found.append(start)
        return len(data)

    look(data, note)
    return bool(found)


# --- long words ---------------------------------------------------------------------------------------------

_QUOTES = frozenset(b"\"'`\\ ")
_GIVES = frozenset(b":=>")
_GIVES_OR_COMMA = _GIVES | frozenset(b",")  # of define("NAME", "value")
_QUOTES_AND_GIVES = _QUOTES | _GIVES
_BEHIND_NAME = _QUOTES | _GIVES_OR_COMMA | frozenset(b"]")  # of environ["NAME"] = "value"
_BEFORE_REST = frozenset(b".:/$~")
_BEFORE_PART = frozenset(b"+/")
_BEFORE_SKIPPED = frozenset(b"%\\\n")
_VALUE, _SKIP = 1, 2
# What a byte means for the word after it.
_SAYS = bytes(_VALUE * (code in _QUOTES_AND_GIVES) | _SKIP * (code in _BEFORE_SKIPPED) for code in range(256))
# An escape, or an escape of an address, that the first letters of a word belong to.
_SKIPPED = re.compile(rb"(?<=\\)[bfnrtv]|(?<=%)[0-9A-Fa-f]{2}")
_DIGIT = re.compile(rb"[0-9]")
_WITHOUT_DIGIT = re.compile(rb"[A-Za-z_-]++(?![0-9])")
# Words of logs themselves are left out: every line has a session.
_NAMES = re.compile(
    rb"(?:"
    + "|".join(
        sorted(
            {word for one in NAMED for word in one.words} - {"session", "bot"}
            | {"key", "token", "secret", "credential", "auth", "cookie", "_session"}
        )
    ).encode()
    + rb")[\w.-]{0,30}\Z"
)
_COOKIE = re.compile(rb"(?:sess|sid)[\w.-]{0,30}\Z|[?&;]sig\Z")
_SCHEMES = (b"bearer", b" basic", b'"basic', b"'basic")


_HEAD = 3
# Usage of a response: names and numbers in a row.
_USAGE_NAMES = (b"cache_creation_input_tokens", b"cache_read_input_tokens")
_USAGE = re.compile(
    rb"(?:(?:(?:cache_creation_|cache_read_|ephemeral_[15][hm]_)?input_tokens|output_tokens|cache_creation"
    rb'|server_tool_use|web_(?:search|fetch)_requests)":(?:[0-9]{1,15}(?=[,}])|\{)[,}]*"?)*'
)


class _SecretStarts:
    """How secrets begin, by the first byte: for certain, perhaps, or after a byte that is not part of a word.

    ``heads`` are the first bytes of the certain ones.
    """

    def __init__(self) -> None:
        certain = {start.encode() for token in TOKENS if not token.hint for start in token.starts}
        perhaps = {start.encode() for token in TOKENS if token.hint for start in token.starts}
        hints = [token.hint for token in TOKENS if token.hint]
        self.heads = frozenset(one[:_HEAD] for one in certain)
        self.certain = [tuple(one for one in certain if one[0] == code) for code in range(256)]
        self.perhaps = [tuple(one for one in perhaps if one[0] == code) for code in range(256)]
        self.any = [
            tuple(one for one in certain | perhaps if one[0] == code and len(one) > 2) for code in range(256)
        ]
        self.short = tuple(one for one in certain | perhaps if len(one) <= 2)
        self.hint = re.compile("|".join(hints).encode())
        self.rest = re.compile("|".join(hint for hint in hints if "(?<=" in hint).encode())


@functools.cache
def _starts() -> _SecretStarts:
    return _SecretStarts()


def _long_words(block: bytes, note: _Note) -> None:
    """Words long enough to be a secret."""
    mask, starts = block.translate(_WORDS), _starts()
    find, without_digit, heads, certain = mask.find, _WITHOUT_DIGIT.match, starts.heads, starts.certain
    place = find(_A_LONG_WORD)
    while place >= 0:
        before = block[place - 1]
        if block[place : place + _HEAD] in heads and block.startswith(certain[block[place]], place):
            end = note(place, _end_of_word(mask, place))
        # Ids are by far the most frequent: every line of a log has half a dozen, none of them much longer
        # than this.
        elif before == _QUOTE and block[place - 4 : place] == b'd":"':
            end = place + 24
        # Next come parts of paths and of base64, names of usage fields, and long names in programs.
        elif before in _BEFORE_PART and block[place - 3 : place] != b"1//":
            end = _end_of_word(mask, place)
        elif before == _QUOTE and block.startswith(_USAGE_NAMES, place):
            end = max(_end_of_usage(block, place), place + _LONG_WORD)
        # A random value has a digit.
        elif not _SAYS[before] & _SKIP and (word := without_digit(block, place)):
            end = word.end()
        else:
            end = _end_of_word(mask, place)
            if _is_secret(block, place, end):
                end = note(place, end)
        place = find(_A_LONG_WORD, end)


def _end_of_word(mask: bytes, place: int) -> int:
    end = mask.find(_OTHER, place + _LONG_WORD)
    return len(mask) if end < 0 else end


def _end_of_usage(block: bytes, place: int) -> int:
    """The end of a row of usage names and numbers."""
    row = _USAGE.match(block, place)
    return place if row is None else row.end()


def _is_secret(block: bytes, place: int, end: int) -> bool:
    """Whether a word may be a secret for another reason than its beginning."""
    before = block[place - 1] if place else 0
    says = _SAYS[before]
    return (
        bool(says & _VALUE and _is_given(block, place))
        or _begins_perhaps(block, place, before)
        or bool(says & _SKIP and _is_secret_later(block, place, before))
        or (end - place > 34 and _ends(block, end))
    )


def _is_secret_later(block: bytes, place: int, before: int) -> bool:
    """Whether a secret begins after the letters of an escape, or continues one before a line break."""
    skipped = _SKIPPED.match(block, place)
    if skipped is not None and _begins(block, skipped.end(), before):
        return True
    is_line = before == _NEWLINE or (before == _BACKSLASH and block[place] in b"nr")
    return is_line and _is_broken(block, place - 1)


def _begins(block: bytes, place: int, before: int) -> bool:
    """Whether a word begins like a secret, or continues one after a byte that is not part of a word."""
    return place < len(block) and (
        block.startswith(_starts().certain[block[place]], place) or _begins_perhaps(block, place, before)
    )


def _begins_perhaps(block: bytes, place: int, before: int) -> bool:
    starts = _starts()
    return (before in _BEFORE_REST and starts.rest.match(block, place) is not None) or (
        block.startswith(starts.perhaps[block[place]], place) and starts.hint.match(block, place) is not None
    )


def _ends(block: bytes, end: int) -> bool:
    """The kinds that have their mark after the letters."""
    return (
        b"-us" in block[end - 5 : end]
        or block[end - 4 : end] == b"_mmk"
        or block[end - 8 : end - 4] == b"AZDO"
    )


def _is_given(block: bytes, place: int) -> bool:
    """Whether a word is the value of a telling name or of an authorization header."""
    if block[place - 3 : place] == b'":"':
        # In JSON the same few names repeat, so the result is cached.
        return _is_telling(block[block.rfind(b'"', max(0, place - 43), place - 3) + 1 : place - 3])
    if block[place - 1] == 0x20 and block[place - 2] not in _QUOTES_AND_GIVES:
        return block[place - 2] in b"rRcC" and block[place - 7 : place - 1].lower() in _SCHEMES
    at = _skip_back(block, place - 1, _QUOTES) if block[place - 1] in _QUOTES else place - 1
    if block[at] not in _GIVES_OR_COMMA:
        return False
    name = _name_before(block, _skip_back(block, at - 1, _BEHIND_NAME))
    return (
        _is_telling(name)
        or (block[place - 1] == 0x3D and _is_cookie(name))
        or (name[1:] == b"value" and _is_telling(_name_before(block, _skip_back(block, at - 6, _QUOTES))))
    )


def _name_before(block: bytes, at: int) -> bytes:
    """The name that ends at a position, with the byte before it: names repeat, what comes before them does not."""
    name = block[max(0, at - 40) : at + 1]
    return name[max(name.translate(_NAME).rfind(_OTHER), 0) :]


@functools.lru_cache(4096)
def _is_telling(name: bytes) -> bool:
    return _NAMES.search(name.lower()) is not None


@functools.lru_cache(4096)
def _is_cookie(name: bytes) -> bool:
    return _COOKIE.search(name.lower()) is not None


def _skip_back(block: bytes, at: int, skipped: frozenset[int]) -> int:
    least = max(at - 8, 0)
    while at > least and block[at] in skipped:
        at -= 1
    return at


# --- words that a line break runs through -------------------------------------------------------------------

_BEHIND_BREAK = re.compile(rb"(?:(?:\\r)?\\n|\r?\n)[ ]{0,8}([0-9A-Za-z_.~$:+/=-]{1,120})")
# Six letters and more on both sides. That of an escaped line break is one of them.
_BROKEN = (
    re.compile(rb"\\n[\w-]{4}(?<=[\w-]{6}\\n[\w-]{4})"),
    re.compile(rb"\n[\w-]{5}(?<=[\w-]{6}\n[\w-]{5})"),
)


def _broken_words(block: bytes, note: _Note) -> None:
    """Words on both sides of a line break, neither of them long."""
    for line_break in _BROKEN:
        end = 0
        for match in line_break.finditer(block):
            place = match.start()
            if place >= end and _is_broken(block, place):
                end = note(place, place + 1)


def _is_broken(block: bytes, line_break: int) -> bool:
    """Whether the words before and after a line break form a secret together."""
    behind = _BEHIND_BREAK.match(block, line_break)
    if behind is None:
        return False
    start = _word_start(block, line_break)
    whole = block[start:line_break] + behind[1]
    # Most are two ordinary words, and too short together.
    if len(whole) < _LONG_WORD or start == line_break:
        return False
    starts, before = _starts(), block[start - 1] if start else 0
    if whole.startswith(starts.any[whole[0]]):
        return True
    if before in _BEFORE_REST or whole.startswith(starts.short):
        head = block[max(0, start - 64) : start]
        if _begins(head + whole, len(head), before):
            return True
    return (len(whole) > 34 and _ends(whole, len(whole))) or bool(
        _SAYS[before] & _VALUE and _DIGIT.search(whole) and _is_given(block, start)
    )


def _word_start(block: bytes, end: int) -> int:
    least = max(end - 120, 0)
    start = least + block[least:end].translate(_WORDS_AND_BASE64).rfind(_OTHER) + 1
    # The first letter may be that of an escape.
    return start + (start < end and block[start - 1 : start] == b"\\" and block[start] in b"bfnrtv")


# --- base64 -------------------------------------------------------------------------------------------------

_WRAPPED = re.compile(rb"[0-9A-Za-z+/]+(?:(?:\\r)?(?:\\n|\r?\n)[ +]{0,8}[0-9A-Za-z+/]+)*")
_BETWEEN = re.compile(rb"(?:\\r)?(?:\\n|\r?\n)[ +]{0,8}")
_LONGEST_TEXT, _LONGEST_KEY = 1 << 20, 12_000


def _encoded(block: bytes, note: _Note) -> None:
    """Base64: some secrets are written in its alphabet, and some are in the text that it encodes."""
    _each_base64(block, note, _end_of_hidden_text)


def _base64_words(block: bytes, note: _Note) -> None:
    """Secrets in the base64 alphabet, which is larger than that of a word."""
    _each_base64(block, note, lambda _block, _start, end: (False, end))


def _each_base64(block: bytes, note: _Note, look: Callable[[bytes, int, int], tuple[bool, int]]) -> None:
    mask = block.translate(_BASE64)
    place = mask.find(_A_LONG_BASE64)
    while place >= 0:
        end = mask.find(_OTHER, place + LONG_BASE64)
        end = len(block) if end < 0 else end
        # The first letter may be that of an escape.
        place += block[place - 1 : place] == b"\\" and block[place] in b"nrt"
        is_secret, end = (True, end) if _is_base64_secret(block, place) else look(block, place, end)
        if is_secret:
            end = note(place, end)
        place = mask.find(_A_LONG_BASE64, end)


def _is_base64_secret(block: bytes, start: int) -> bool:
    before = block[start - 4 : start]
    return (
        block.startswith(_starts().certain[block[start]], start)
        or before == b"glc_"
        or (before != b'd":"' and bool(_SAYS[block[start - 1]] & _VALUE) and _is_given(block, start))
    )


def _end_of_hidden_text(block: bytes, start: int, end: int) -> tuple[bool, int]:
    """Whether base64 decodes to suspicious text, and where it ends. Mostly it is not text."""
    # A plus may be a letter, or the mark of a line in a patch.
    for first in (start, start + 1) if block[start] == 0x2B else (start,):
        if binascii.a2b_base64(block[first : first + 24]).isascii():
            whole = _WRAPPED.match(block, first, min(first + _LONGEST_TEXT, len(block)))
            # Examined once as a whole: its lines are not examined again one by one.
            end = max(end, end if whole is None else whole.end())
            text = binascii.a2b_base64(_letters(block[first:end]) + b"==")
            if any(_has(look, text) for look in _PLAIN_LOOKS):
                return True, end
    return False, end


def _letters(stretch: bytes) -> bytes:
    """Base64 without what separates its lines, cut to a decodable length."""
    letters = _BETWEEN.sub(b"", stretch)
    return letters[: len(letters) - (len(letters) % 4 == 1)]


# --- rare words ---------------------------------------------------------------------------------------------

_BESIDE = rb"""[\\"'` \]]"""
_GIVES_PASSWORD = rb"""[\w.-]{0,20}%s{0,6}(?:[:=,]|=>|value\\?=)%s{0,8}[^\s"'`\\,;]{4}""" % (_BESIDE, _BESIDE)
_PASSWORD = (
    rb"[aA](?i:ss(?:w(?:or)?d|phrase)%s|(?P<netrc>ssword(?=[ \\\n])))|[wW][dD]%s|[rR](?P<key>(?i:ivate key))"
    % (_GIVES_PASSWORD, _GIVES_PASSWORD)
)
# The first letter is literal, once small and once large: text without it is skipped fastest.
_PASSWORDS = tuple(re.compile(b"%s(?:%s)" % (letter, _PASSWORD)) for letter in (b"p", b"P"))
_ADDRESS = re.compile(rb"//(?<=://)")
_IN_ADDRESS = re.compile(
    rb"""(?i)//(?:[^\s:/?#@"'`<>\\]{0,100}:[^\s/?#@"'`<>\\]{3,200}(?:\\n[^\s/?#@"'`<>\\]{1,100})?@|hooks\.slack|[a-z]{0,8}\.?discord"""
    rb"""|[\w-]{1,60}\.webhook\.office)"""
)
_ESCAPED_LETTER = re.compile(rb"\\u00[2-7]")
_MARKED = (re.compile(rb"Q~[\w~.-]{31}"), re.compile(rb"sig=[0-9A-Za-z+/%]{43}"))
# An escape of an address in a run of letters that is long enough.
_PERCENT = re.compile(rb"%(?:2[4BDFbdf]|3[ADad]|7[Ee])")
_ADDRESS_LETTER = _mask(b"_-.~%+=&?")


def _rare_words(block: bytes, note: _Note) -> None:
    for expression in _PASSWORDS:
        _each(expression, block, note, lambda match: not match["netrc"] or _is_netrc(block, match.start()))
    _each(_ADDRESS, block, note, lambda match: _is_address(block, match.start()))
    _each(_ESCAPED_LETTER, block, note, lambda _: True)
    for expression in _MARKED:
        _each(expression, block, note, lambda _: True)
    _each(_PERCENT, block, note, lambda match: _is_percent_encoded(block, match.start()))


def _is_address(block: bytes, place: int) -> bool:
    """Whether an address contains a password, is a secret, or gets one from a command line."""
    if _IN_ADDRESS.match(block, place):
        return True
    around = block[max(0, place - 300) : place + 300].lower()
    return b"curl" in around and (b" -u" in around or b"--user" in around)


def _is_percent_encoded(block: bytes, place: int) -> bool:
    """Whether the words around an escape of an address hold a secret once they are decoded."""
    least = max(0, place - 300)
    mask = block[least : place + 300].translate(_ADDRESS_LETTER)
    start = mask.rfind(_OTHER, 0, place - least) + 1
    end = mask.find(_OTHER, place - least)
    text = block[least + start : least + (len(mask) if end < 0 else end)]
    decoded = unquote_to_bytes(text)
    return len(decoded) >= _LONG_WORD and any(_has(look, decoded) for look in (_long_words, _base64_words))


def _is_netrc(block: bytes, place: int) -> bool:
    return b"login" in block[max(0, place - 120) : place].lower()


def _each(
    expression: re.Pattern[bytes], block: bytes, note: _Note, is_secret: Callable[[re.Match[bytes]], bool]
) -> None:
    end = 0
    for match in expression.finditer(block):
        if match.start() >= end and is_secret(match):
            # A key continues far after its name; another one may begin in there.
            length = _LONGEST_KEY if match.lastgroup == "key" else 0
            end = note(match.start(), min(match.end() + length, len(block))) - length


_LONG_LOOKS: tuple[_Look, ...] = (_long_words, _broken_words, _base64_words)
_UNCOLOURED: tuple[_Look, ...] = (*_LONG_LOOKS, _rare_words)


# --- colours ------------------------------------------------------------------------------------------------

_COLOUR = re.compile(rb"(?=[\\\x1b^\[])(?:%s)" % TERMINAL_CODE.encode())  # what it begins with is tried first
# A bracket of one. It is literal, so that text without it is skipped fastest.
_BRACKETS = (
    re.compile(
        rb"\[(?:(?<=1[bB]\[)|(?<=\x1b\[)|(?<=\\e\[)|(?<=033\[)|(?<=\^\[\[)|[0-9]{1,3}(?:[;:][0-9]{1,3}){0,8}m)"
    ),
    re.compile(rb"\](?<=[bBe3\x1b]\])[0-9]{1,4};"),
)
_BEFORE_BRACKET, _BEHIND_BRACKET = 16, 2100
_BESIDE_COLOUR, _MOST_COLOURED = 300, 4000


def _coloured(block: bytes, note: _Note) -> None:
    """Secrets with colours inside or beside them, or between a name and its value: as if there were no colours."""
    stretches = list(_without_colours(block))
    if not stretches:
        return
    # Examined together, a stretch a line: there may be thousands.
    plain = b"\n".join([text for _, _, text in stretches])
    behind = list(itertools.accumulate(len(text) + 1 for _, _, text in stretches))

    def note_stretch(place: int, _end: int) -> int:
        number = bisect_right(behind, place)
        note(*stretches[number][:2])
        return behind[number]

    used = engine() if len(plain) >= WORTH_A_SCAN else None
    if used is not None:
        _look_in_windows(plain, used.matches(plain).windows, note_stretch)
        return
    for look in _UNCOLOURED:
        look(plain, note_stretch)


def _without_colours(block: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Stretches with colours near each other, each in one line, with their text without the colours."""
    parts: list[bytes] = []
    first = last = 0

    def stretch() -> tuple[int, int, bytes]:
        behind = block[last : last + _BESIDE_COLOUR].partition(b"\n")[0]
        return first, last + len(behind), b"".join([*parts, behind])

    for start, end in _codes(block):
        is_far = start > last + _BESIDE_COLOUR or last > first + _MOST_COLOURED
        if parts and (is_far or block.find(b"\n", last, start) >= 0):
            yield stretch()
            parts = []
        if not parts:
            least = max(start - _BESIDE_COLOUR, 0)
            first = last = max(least, block.rfind(b"\n", least, start) + 1)
        parts.append(block[last:start])
        last = end
    if parts:
        yield stretch()


def _codes(block: bytes) -> Iterator[tuple[int, int]]:
    end = 0
    for place in sorted(found.start() for bracket in _BRACKETS for found in bracket.finditer(block)):
        if place >= end:
            least = max(place - _BEFORE_BRACKET, end)
            code = _COLOUR.search(block, least, place + _BEHIND_BRACKET)
            if code is not None:
                end = code.end()
                yield code.start(), end


_PLAIN_LOOKS: tuple[_Look, ...] = (*_UNCOLOURED, _coloured)
_LOOKS: tuple[_Look, ...] = (_long_words, _broken_words, _rare_words, _encoded, _coloured)
