"""The definition of a word, shared by the index, queries and texts in memory.

The index splits and folds text with SQLite's ``unicode61 remove_diacritics 2``. That tokenizer does not split
Chinese, which has no spaces, nor parseHttpHeader, which has three words. So a text is prepared first: every
CJK character becomes a word of its own, and the parts of every such name are added once at the end, each name
after a mark that no query can contain. The original text stays.

A search without the index must give the same answer, so the tokenizer's own tables are copied below and
compared with it by a test, code point by code point. They do not depend on Python's Unicode version.

Preparing is the only Python code that touches every indexed byte. Hence the optimisations: bytes are
translated into a few classes, so that the search for a capital is a search for one byte, and a name is split
only once.

Not done: stemming, synonyms, Greek accents (unicode61 keeps them), humps of letters beyond ASCII (größeÄndern
stays one word), names of over 100 characters, separately written jamo and dakuten (NFD).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from itertools import accumulate

from msgspec import Struct

# Precedes the parts of a name. A private-use character is a word to the tokenizer; it is removed from every
# text and query, so that no phrase can span two names.
_MARK = "\ue9c3"
_LONGEST_NAME = 100
_LONGEST_TOKEN = 32_768  # bytes; FTS5 truncates longer ones, in the text and in the query
# Runs longer than this rarely repeat, and the cache must stay at a few megabytes.
_LONGEST_KEPT, _MOST_KEPT = 256, 20_000


def indexed_text(text: str) -> str:
    """``text`` as it goes into the index: CJK characters separated, parts of camelCase names at the end."""
    return indexed_bytes(text).decode()


def indexed_bytes(text: str) -> bytes:
    """The same as UTF-8: what is sent to another process and to SQLite is not encoded again there."""
    data, classes = _prepared(text)
    parts = _name_parts(data, classes)
    return data + parts if parts else data


def words(text: str) -> list[str]:
    """The words of ``text`` as the index has them, in order; without parts of names."""
    return [word[:_LONGEST_TOKEN].decode(errors="surrogateescape") for word in folded(text).split()]


def folded(text: str) -> bytes:
    """``text`` as folded by the tokenizer, UTF-8, with blanks for everything it drops."""
    if not text.isascii():
        parts = re.split(f"({_BEYOND_ASCII})", text)  # every second one is beyond ASCII
        parts[1::2] = map(_folded_runs().__getitem__, parts[1::2])
        text = "".join(parts)
    return text.encode().translate(_PLAIN)


# ---- preparing -------------------------------------------------------------------------------------------

# Here and below a class is repeated where one and a plus would do: only a pattern that begins with a plain
# class is searched fast (three times as fast, in Python 3.11).
_BEYOND = r"[^\x00-\x7f]"
_BEYOND_ASCII = f"{_BEYOND}{_BEYOND}*"
_LOWER, _UPPER, _DIGITS = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789"
_PLAIN = bytes(
    byte + 32 if byte in _UPPER else byte if byte in _LOWER + _DIGITS or byte > 127 else 32
    for byte in range(256)
)
# a: small letter, A: capital, 0: digit, blank: between words; beyond ASCII y: may begin a CJK character or
# the mark, x: does not. So both questions below are searches for one byte, which is what makes them cheap.
_CLASSES = bytes(
    ord("a" if byte in _LOWER else "A" if byte in _UPPER else "0" if byte in _DIGITS else " ")
    if byte < 128
    else ord("y" if 0xE3 <= byte <= 0xF0 else "x")
    for byte in range(256)
)
# Where a part begins: fooBar, v2Api (but not 15T10), HTTPServer (but not URLs); then on to the run's end.
_HUMP_IN_CLASSES = re.compile(rb"A(?<=[aA0]A)(?:(?<=aA)|(?<=0A)(?=[aA])|(?=aa))[^ ]*")
_HUMP = r"[A-Z](?<=[a-zA-Z0-9].)(?:(?<=[a-z].)|(?<=[0-9].)(?=[A-Za-z])|(?=[a-z][a-z]))"
# One range is searched faster than the exact class, which then examines the matches.


@cache
def _perhaps_cjk() -> re.Pattern[str]:
    """Compiled on first use: compiling takes longer than a search."""
    return re.compile("[\u3005-\U0003fffd][\u3005-\U0003fffd]*")


def _prepared(text: str) -> tuple[bytes, bytes]:
    """The text with its CJK characters separated, and the class of each byte."""
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which SQLite refuses
        data = text.encode(errors="replace")
        text = data.decode()
    classes = data.translate(_CLASSES)
    if len(data) > len(text) and b"y" in classes:
        data = _perhaps_cjk().sub(_apart, text.replace(_MARK, " ")).encode()
        classes = data.translate(_CLASSES)
    return data, classes


def _apart(run: re.Match[str]) -> str:
    return _cjk_run().sub(lambda cjk: cjk[0].translate(_folding()), run[0])


def _name_parts(data: bytes, classes: bytes) -> bytes:
    """The text added for camelCase names: ``mark parse Http Header mark fetch …``, each once."""
    before = classes.rfind
    parts = [
        _PARTS[data[before(b" ", 0, start) + 1 : end]]
        for start, end in map(re.Match.span, _HUMP_IN_CLASSES.finditer(classes))
    ]
    return b"".join(dict.fromkeys(parts)) if parts else b""


class _CamelCaseParts(dict[bytes, bytes]):
    """Cache: the parts of a run of bytes with a hump."""

    def __missing__(self, run: bytes) -> bytes:
        text = run.decode()
        names = [text] if text.isascii() else token_pattern(ascii_only=False).findall(text)
        parts = "".join(
            f" {_MARK} {' '.join(pieces)}" for pieces in map(name_pieces, names) if len(pieces) > 1
        ).encode()
        if len(run) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[run] = parts
        return parts


_PARTS = _CamelCaseParts()


def name_pieces(name: str) -> list[str]:
    """The parts of a camelCase name; the name itself if it has none."""
    return re.sub(_HUMP, r" \g<0>", name).split(" ") if len(name) <= _LONGEST_NAME else [name]


# ---- searching one text ----------------------------------------------------------------------------------

_MOST_FAILURES = 200_000
_ASCII_BETWEEN = r"[\x00-/:-@\[-`{-\x7f]"
_NO_MORE = "(?![0-9a-z])"


class Term(Struct, frozen=True):
    """A word, or words that must follow one another; with ``prefix`` the last may continue."""

    words: tuple[str, ...]
    prefix: bool = False

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Its positions in an original text, from left to right; they may overlap.

        In a text of many megabytes with very many near matches the search stops at a limit.
        """
        ascii_only = text.isascii()
        if ascii_only and not all(word.isascii() for word in self.words):
            return
        candidate, place, failed = _loosely(self, ascii_only), 0, 0
        while failed < _MOST_FAILURES and (found := candidate.search(text, place)):
            place = found.start()
            if end := self._end(text, place):
                yield place, end
            else:
                failed += 1
            place += 1

    def _end(self, text: str, start: int) -> int:
        """The end of the phrase that begins at ``start``, in tokens or in parts of one name; 0 if none does."""
        before = _token_before(text, start)
        if before:
            # Limited to the longest name: a token of megabytes must not be read again from each of its
            # letters.
            name = _token_at(text, start - before, start - before + _LONGEST_NAME + 1)
            return self._end_in_name(name, start) if name else 0
        token = _token_at(text, start, len(text))
        if token is None:
            return 0
        end = self._end_in_tokens(text, token.end()) if self._fits(0, token[0]) else 0
        return end or self._end_in_name(token, start)

    def _end_in_tokens(self, text: str, end: int) -> int:
        for at in range(1, len(self.words)):
            token = token_pattern(text.isascii()).search(text, end)
            if token is None or not self._fits(at, token[0]):
                return 0
            end = token.end()
        return end

    def _end_in_name(self, name: re.Match[str], start: int) -> int:
        pieces = name_pieces(name[0])
        borders = list(accumulate(map(len, pieces), initial=name.start()))
        if len(pieces) < 2 or start not in borders:
            return 0
        first = borders.index(start)
        wanted = pieces[first : first + len(self.words)]
        fits = len(wanted) == len(self.words) and all(map(self._fits, range(len(wanted)), wanted))
        return borders[first + len(wanted)] if fits else 0

    def _fits(self, at: int, token: str) -> bool:
        word = token.lower() if token.isascii() else folded(token).strip().decode()
        if self.prefix and at == len(self.words) - 1:
            return word.startswith(self.words[at])
        return word == self.words[at]


class FieldText:
    """One field of a message, searched with the index's rules; intermediate results are cached."""

    def __init__(self, text: str) -> None:
        self._text = text
        # A blank on either side: a whole word is its bytes between two blanks.
        self._spread = b" %b " % folded(text)

    def holds(self, term: Term) -> bool:
        """Whether the index would find ``term`` in this field."""
        needle = f" {' '.join(term.words)}{'' if term.prefix else ' '}".encode()
        if not all(word.encode() in self._spread for word in term.words):
            return False
        return needle in (self._spread if len(term.words) == 1 else self._close) or needle in self._names

    @cached_property
    def _close(self) -> bytes:
        return b" %b " % b" ".join(self._spread.split())

    @cached_property
    def _names(self) -> bytes:
        # The mark becomes a third blank between two names, which no search string contains.
        return folded(_name_parts(*_prepared(self._text)).decode()) + b" "


def whole_words(run: str) -> Iterator[str]:
    """The words that every text containing ``run`` has as whole words."""
    for token in token_pattern(run.isascii()).finditer(run):
        begun = run[: token.start()].strip(_diacritics())  # a word before the run may continue with those
        if (begun and token.end() < len(run)) or _is_cjk(token[0]):
            yield folded(token[0]).strip().decode()


def _token_at(text: str, start: int, stop: int) -> re.Match[str] | None:
    """The token that begins at ``start``. Most have ASCII on both sides: then the pattern for all others, which takes
    milliseconds to compile, would say the same.
    """
    token = token_pattern(ascii_only=True).match(text, start, stop)
    if token is not None and (token.end() == min(stop, len(text)) or text[token.end()].isascii()):
        return token
    return token_pattern(text.isascii()).match(text, start, stop)


def _token_before(text: str, place: int) -> int:
    """How many characters of the token at ``place`` come before it; 101 stands for more than 100."""
    previous = text[place - 1] if place else " "
    if previous.isascii() and not previous.isalnum():
        return 0
    before = text[max(0, place - _LONGEST_NAME - 1) : place][::-1]
    letters = before.lstrip(_diacritics())
    token = _token_at(letters, 0, len(letters))
    if token is None or _is_cjk(token[0]) or _is_cjk(text[place]):
        return 0
    return len(before) - len(letters) + len(token[0].rstrip(_diacritics()))


@lru_cache(maxsize=256)
def _loosely(term: Term, ascii_only: bool) -> re.Pattern[str]:
    """Finds every place where ``term`` may begin, as a token or a part of a name, and some where it does not."""
    word, *more = term.words
    if word[0] == _MARK:
        return re.compile(chr(int(word[1:], 16)))
    if _is_cjk(word):
        return re.compile(word + _cjk_onwards(more[:3]), re.DOTALL)
    begins = r"(?:(?<![0-9A-Za-z].)|(?<=[A-Z]))"  # after the letter: a class at the front is searched fast
    # Beyond ASCII a class takes half a millisecond to compile, so only three letters get one. The rest is as
    # it is in ASCII, or there is a character beyond it before the word can have ended.
    known, rest = (word, "") if ascii_only else (word[:3], word[3:])
    marks = "" if ascii_only else f"[{_diacritics()}]*"
    first, *others = (_any_form(letter, ascii_only) for letter in known)
    plainly = _in_ascii(rest) + (_NO_MORE if more or not term.prefix else "")
    if more:
        plainly += f"(?={_ASCII_BETWEEN}*(?:{_in_ascii(more[0])}|{_beyond_within(more[0])}))"
    otherwise = f"|{_beyond_within(rest)}" if rest else ""
    return re.compile(
        f"{first}{begins}{''.join(marks + other for other in others)}(?:{plainly}{otherwise})", re.DOTALL
    )


def _beyond_within(word: str) -> str:
    return f"[0-9A-Za-z]{{0,{len(word)}}}{_BEYOND}"


def _cjk_onwards(words: list[str]) -> str:
    """Only these may follow, unless a character that is surely not CJK comes in between."""
    if not words or not all(_is_cjk(word) for word in words):
        return ""
    return f"(?={''.join(words)}|.{{0,{len(words) - 1}}}[^\u4e00-\u9fff\uac00-\ud7a3])"


def _in_ascii(word: str) -> str:
    return "".join(_any_form(letter, ascii_only=True) for letter in word)


def _any_form(letter: str, ascii_only: bool) -> str:
    """A class of all characters that fold to ``letter``."""
    forms = letter + letter.upper() if letter.isascii() else letter
    if not ascii_only:
        forms += _forms().get(letter, "")
    return f"[{forms}]"


# ---- folding and cutting beyond ASCII --------------------------------------------------------------------


class _FoldingTable(dict[int, str]):
    """For ``str.translate``: how the tokenizer folds one character."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if _is_cjk(char):
            # Symbols such as the square metre are not words to the tokenizer, so they get a name that is.
            meaning = f" {_MARK}{code:x} " if _separates(code) else f" {char} "
        else:
            meaning = " " if _separates(code) else char
        if len(self) < _MOST_KEPT:
            self[code] = meaning
        return meaning


class _FoldedRuns(dict[str, str]):
    """Cache: a run of characters beyond ASCII, folded."""

    def __missing__(self, run: str) -> str:
        meaning = run.translate(_folding())
        if len(run) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[run] = meaning
        return meaning


_folded_runs = cache(_FoldedRuns)


@cache
def _folding() -> _FoldingTable:
    table = _FoldingTable({ord(other): same for same, others in _forms().items() for other in others})
    table.update(dict.fromkeys(map(ord, _diacritics()), ""))
    table[ord(_MARK)] = " "
    return table


@cache
def _forms() -> dict[str, str]:
    return {same[0]: same[1:] for same in _SAME.split()}


@cache
def _diacritics() -> str:
    return "".join(chr(code) for first, last in _spans(_DIACRITICS) for code in range(first, last + 1))


@cache
def _spans(ranges: str) -> list[tuple[int, int]]:
    ends = [part.partition("-") for part in ranges.split()]
    return [(int(first, 16), int(last or first, 16)) for first, _, last in ends]


def _is_cjk(text: str) -> bool:
    """Whether ``text`` begins with a CJK character."""
    return _lies_in(_CJK, ord(text[0]))


def _separates(code: int) -> bool:
    return _lies_in(_SEPARATORS, code)


def _lies_in(ranges: str, code: int) -> bool:
    spans = _spans(ranges)
    place = bisect_right(spans, (code, 0x110000)) - 1
    return place >= 0 and code <= spans[place][1]


def _in_a_class(ranges: str) -> str:
    # Beyond ASCII nothing needs escaping, and escapes take longer to parse than everything else takes to
    # compile.
    ends = ((first, last, first < 128) for first, last in _spans(ranges))
    return "".join(
        f"\\x{first:02x}-\\x{last:02x}" if plain else f"{chr(first)}-{chr(last)}"
        for first, last, plain in ends
    )


@cache
def _cjk_run() -> re.Pattern[str]:
    one = f"[{_in_a_class(_CJK)}]"
    return re.compile(f"{one}{one}*")


@cache
def token_pattern(ascii_only: bool) -> re.Pattern[str]:
    """Finds the tokens of an original text; CJK characters one by one, without parts of names."""
    if ascii_only:
        return re.compile("[0-9A-Za-z]+")
    cjk = _in_a_class(_CJK)
    between = _in_a_class("0-2f 3a-40 5b-60 7b-7f") + _in_a_class(_SEPARATORS) + _MARK
    return re.compile(f"[{cjk}]|(?![{_diacritics()}])[^{between}{cjk}]+")


# ---- the tokenizer's tables ------------------------------------------------------------------------------
# tests/model/search/test_terms.py asks the tokenizer about every code point and compares.

_CJK = """
3005-3007 3021-3029 3031-3035 3038-303c 3041-3096 309d-309f 30a1-30fa 30fc-30ff 3105-312f 3131-318e 31a0-31bf
31f0-33ff 3400-4dbf 4e00-9fff ac00-d7a3 f900-faff ff66-ffdc 1aff0-1b16f 20000-3fffd
"""
_DIACRITICS = "300-304 306-30c 30f 311 31b 323-328 32d-32e 330-331"
# Separators beyond ASCII. Code points that Unicode had not assigned when the tokenizer was made are letters.
_SEPARATORS = """
80-a9 ab-b1 b4 b6-b8 bb bf d7 f7 2c2-2c5 2d2-2df 2e5-2eb 2ed 2ef-2ff 305 30d-30e 310 312-31a 31c-322
329-32c 32f 332-36f 375 37e 384-385 387 3f6 482-489 55a-55f 589-58a 58f 591-5c7 5f3-5f4 600-604 606-61b
61e-61f 64b-65f 66a-66d 670 6d4 6d6-6e4 6e7-6ed 6fd-6fe 700-70d 70f 711 730-74a 7a6-7b0 7eb-7f3 7f6-7f9
816-819 81b-823 825-827 829-82d 830-83e 859-85b 85e 8e4-8fe 900-903 93a-93c 93e-94f 951-957 962-965 970
981-983 9bc 9be-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3 9f2-9f3 9fa-9fb a01-a03 a3c a3e-a42 a47-a48 a4b-a4d a51
a70-a71 a75 a81-a83 abc abe-ac5 ac7-ac9 acb-acd ae2-ae3 af0-af1 b01-b03 b3c b3e-b44 b47-b48 b4b-b4d
b56-b57 b62-b63 b70 b82 bbe-bc2 bc6-bc8 bca-bcd bd7 bf3-bfa c01-c03 c3e-c44 c46-c48 c4a-c4d c55-c56
c62-c63 c7f c82-c83 cbc cbe-cc4 cc6-cc8 cca-ccd cd5-cd6 ce2-ce3 d02-d03 d3e-d44 d46-d48 d4a-d4d d57
d62-d63 d79 d82-d83 dca dcf-dd4 dd6 dd8-ddf df2-df4 e31 e34-e3a e3f e47-e4f e5a-e5b eb1 eb4-eb9 ebb-ebc
ec8-ecd f01-f1f f34-f3f f71-f87 f8d-f97 f99-fbc fbe-fcc fce-fda 102b-103e 104a-104f 1056-1059 105e-1060
1062-1064 1067-106d 1071-1074 1082-108d 108f 109a-109f 10fb 135d-1368 1390-1399 1400 166d-166e 1680
169b-169c 16eb-16ed 1712-1714 1732-1736 1752-1753 1772-1773 17b4-17d6 17d8-17db 17dd 1800-180e 18a9
1920-192b 1930-193b 1940 1944-1945 19b0-19c0 19c8-19c9 19de-19ff 1a17-1a1b 1a1e-1a1f 1a55-1a5e 1a60-1a7c
1a7f 1aa0-1aa6 1aa8-1aad 1b00-1b04 1b34-1b44 1b5a-1b7c 1b80-1b82 1ba1-1bad 1be6-1bf3 1bfc-1bff 1c24-1c37
1c3b-1c3f 1c7e-1c7f 1cc0-1cc7 1cd0-1ce8 1ced 1cf2-1cf4 1dc0-1de6 1dfc-1dff 1fbd 1fbf-1fc1 1fcd-1fcf
1fdd-1fdf 1fed-1fef 1ffd-1ffe 2000-2064 206a-206f 207a-207e 208a-208e 20a0-20b9 20d0-20f0 2100-2101
2103-2106 2108-2109 2114 2116-2118 211e-2123 2125 2127 2129 212e 213a-213b 2140-2144 214a-214d 214f
2190-23f3 2400-2426 2440-244a 249c-24e9 2500-26ff 2701-2775 2794-2b4c 2b50-2b59 2ce5-2cea 2cef-2cf1
2cf9-2cfc 2cfe-2cff 2d70 2d7f 2de0-2e2e 2e30-2e3b 2e80-2e99 2e9b-2ef3 2f00-2fd5 2ff0-2ffb 3000-3004
3008-3020 302a-3030 3036-3037 303d-303f 3099-309c 30a0 30fb 3190-3191 3196-319f 31c0-31e3 3200-321e
322a-3247 3250 3260-327f 328a-32b0 32c0-32fe 3300-33ff 4dc0-4dff a490-a4c6 a4fe-a4ff a60d-a60f a66f-a67e
a69f a6f0-a6f7 a700-a716 a720-a721 a789-a78a a802 a806 a80b a823-a82b a836-a839 a874-a877 a880-a881
a8b4-a8c4 a8ce-a8cf a8e0-a8f1 a8f8-a8fa a926-a92f a947-a953 a95f a980-a983 a9b3-a9cd a9de-a9df aa29-aa36
aa43 aa4c-aa4d aa5c-aa5f aa77-aa79 aa7b aab0 aab2-aab4 aab7-aab8 aabe-aabf aac1 aade-aadf aaeb-aaf1
aaf5-aaf6 abe3-abed d800-dfff fb1e fb29 fbb2-fbc1 fd3e-fd3f fdfc-fdfd fe00-fe19 fe20-fe26 fe30-fe52
fe54-fe66 fe68-fe6b feff ff01-ff0f ff1a-ff20 ff3b-ff40 ff5b-ff65 ffe0-ffe6 ffe8-ffee fff9-ffff
10100-10102 10137-1013f 10179-10189 10190-1019b 101d0-101fd 1039f 103d0 10857 1091f 1093f 10a01-10a03
10a05-10a06 10a0c-10a0f 10a38-10a3a 10a3f 10a50-10a58 10a7f 10b39-10b3f 11000-11002 11038-1104d
11080-11082 110b0-110c1 11100-11102 11127-11134 11140-11143 11180-11182 111b3-111c0 111c5-111c8
116ab-116b7 12470-12473 16f51-16f7e 16f8f-16f92 1d000-1d0f5 1d100-1d126 1d129-1d1dd 1d200-1d245
1d300-1d356 1d6c1 1d6db 1d6fb 1d715 1d735 1d74f 1d76f 1d789 1d7a9 1d7c3 1eef0-1eef1 1f000-1f02b
1f030-1f093 1f0a0-1f0ae 1f0b1-1f0be 1f0c1-1f0cf 1f0d1-1f0df 1f110-1f12e 1f130-1f16b 1f170-1f19a
1f1e6-1f202 1f210-1f23a 1f240-1f248 1f250-1f251 1f300-1f320 1f330-1f335 1f337-1f37c 1f380-1f393
1f3a0-1f3c4 1f3c6-1f3ca 1f3e0-1f3f0 1f400-1f43e 1f440 1f442-1f4f7 1f4f9-1f4fc 1f500-1f53d 1f540-1f543
1f550-1f567 1f5fb-1f640 1f645-1f64f 1f680-1f6c5 1f700-1f773 e0001 e0020-e007f e0100-e01ef
"""
# Beyond ASCII: a letter, and all that fold to it.
_SAME = """
aÀÁÂÃÄÅàáâãäåĀāĂăĄąǍǎǞǟǺǻȀȁȂȃȦȧḀḁẠạẢảẤấẦầẨẩẪẫẬậẮắẰằẲẳẴẵẶặÅ bḂḃḄḅḆḇ cÇçĆćĈĉĊċČčḈḉ dĎďḊḋḌḍḎḏḐḑḒḓ
eÈÉÊËèéêëĒēĔĕĖėĘęĚěȄȅȆȇȨȩḔḕḖḗḘḙḚḛḜḝẸẹẺẻẼẽẾếỀềỂểỄễỆệ fḞḟ gĜĝĞğĠġĢģǦǧǴǵḠḡ hĤĥȞȟḢḣḤḥḦḧḨḩḪḫẖ
iÌÍÎÏìíîïĨĩĪīĬĭĮįİǏǐȈȉȊȋḬḭḮḯỈỉỊị jĴĵǰ kĶķǨǩḰḱḲḳḴḵK lĹĺĻļĽľḶḷḸḹḺḻḼḽ mḾḿṀṁṂṃ nÑñŃńŅņŇňǸǹṄṅṆṇṈṉṊṋ
oÒÓÔÕÖòóôõöŌōŎŏŐőƠơǑǒǪǫǬǭȌȍȎȏȪȫȬȭȮȯȰȱṌṍṎṏṐṑṒṓỌọỎỏỐốỒồỔổỖỗỘộỚớỜờỞởỠỡỢợ pṔṕṖṗ rŔŕŖŗŘřȐȑȒȓṘṙṚṛṜṝṞṟ
sŚśŜŝŞşŠšſȘșṠṡṢṣṤṥṦṧṨṩẛ tŢţŤťȚțṪṫṬṭṮṯṰṱẗ uÙÚÛÜùúûüŨũŪūŬŭŮůŰűŲųƯưǓǔǕǖǗǘǙǚǛǜȔȕȖȗṲṳṴṵṶṷṸṹṺṻỤụỦủỨứỪừỬửỮữỰự
vṼṽṾṿ wŴŵẀẁẂẃẄẅẆẇẈẉẘ xẊẋẌẍ yÝýÿŶŷŸȲȳẎẏẙỲỳỴỵỶỷỸỹ zŹźŻżŽžẐẑẒẓẔẕ ßẞ æÆ ðÐ øØ þÞ đĐ ħĦ ĳĲ ŀĿ łŁ ŋŊ œŒ ŧŦ ƀɃ
ƃƂ ƅƄ ƈƇ ƌƋ ƒƑ ƕǶ ƙƘ ƚȽ ƞȠ ƣƢ ƥƤ ƨƧ ƭƬ ƴƳ ƶƵ ƹƸ ƽƼ ƿǷ ǆǄǅ ǉǇǈ ǌǊǋ ǝƎ ǡǠ ǣǢ ǥǤ ǯǮ ǳǱǲ ǽǼ ǿǾ ȝȜ ȣȢ ȥȤ ȼȻ ȿⱾ
ɀⱿ ɂɁ ɇɆ ɉɈ ɋɊ ɍɌ ɏɎ ɐⱯ ɑⱭ ɒⱰ ɓƁ ɔƆ ɖƉ ɗƊ əƏ ɛƐ ɠƓ ɣƔ ɥꞍ ɦꞪ ɨƗ ɩƖ ɫⱢ ɯƜ ɱⱮ ɲƝ ɵƟ ɽⱤ ʀƦ ʃƩ ʈƮ ʉɄ ʊƱ ʋƲ ʌɅ
ʒƷ ͱͰ ͳͲ ͷͶ ͻϽ ͼϾ ͽϿ άΆ έΈ ήΉ ίΊ αΑ βΒϐ γΓ δΔ εΕϵ ζΖ ηΗ θΘϑϴ ιΙι κΚϰ λΛ μµΜ νΝ ξΞ οΟ πΠϖ ρΡϱ σΣς τΤ υΥ
φΦϕ χΧ ψΨ ωΩΩ ϊΪ ϋΫ όΌ ύΎ ώΏ ϗϏ ϙϘ ϛϚ ϝϜ ϟϞ ϡϠ ϣϢ ϥϤ ϧϦ ϩϨ ϫϪ ϭϬ ϯϮ ϲϹ ϸϷ ϻϺ аА бБ вВ гГ дД еЕ жЖ зЗ иИ
йЙ кК лЛ мМ нН оО пП рР сС тТ уУ фФ хХ цЦ чЧ шШ щЩ ъЪ ыЫ ьЬ эЭ юЮ яЯ ѐЀ ёЁ ђЂ ѓЃ єЄ ѕЅ іІ їЇ јЈ љЉ њЊ ћЋ
ќЌ ѝЍ ўЎ џЏ ѡѠ ѣѢ ѥѤ ѧѦ ѩѨ ѫѪ ѭѬ ѯѮ ѱѰ ѳѲ ѵѴ ѷѶ ѹѸ ѻѺ ѽѼ ѿѾ ҁҀ ҋҊ ҍҌ ҏҎ ґҐ ғҒ ҕҔ җҖ ҙҘ қҚ ҝҜ ҟҞ ҡҠ ңҢ ҥҤ
ҧҦ ҩҨ ҫҪ ҭҬ үҮ ұҰ ҳҲ ҵҴ ҷҶ ҹҸ һҺ ҽҼ ҿҾ ӂӁ ӄӃ ӆӅ ӈӇ ӊӉ ӌӋ ӎӍ ӏӀ ӑӐ ӓӒ ӕӔ ӗӖ әӘ ӛӚ ӝӜ ӟӞ ӡӠ ӣӢ ӥӤ ӧӦ өӨ ӫӪ
ӭӬ ӯӮ ӱӰ ӳӲ ӵӴ ӷӶ ӹӸ ӻӺ ӽӼ ӿӾ ԁԀ ԃԂ ԅԄ ԇԆ ԉԈ ԋԊ ԍԌ ԏԎ ԑԐ ԓԒ ԕԔ ԗԖ ԙԘ ԛԚ ԝԜ ԟԞ ԡԠ ԣԢ ԥԤ ԧԦ աԱ բԲ գԳ դԴ եԵ
զԶ էԷ ըԸ թԹ ժԺ իԻ լԼ խԽ ծԾ կԿ հՀ ձՁ ղՂ ճՃ մՄ յՅ նՆ շՇ ոՈ չՉ պՊ ջՋ ռՌ սՍ վՎ տՏ րՐ ցՑ ւՒ փՓ քՔ օՕ ֆՖ ᵹꝽ ᵽⱣ
ỻỺ ỽỼ ỿỾ ἀἈ ἁἉ ἂἊ ἃἋ ἄἌ ἅἍ ἆἎ ἇἏ ἐἘ ἑἙ ἒἚ ἓἛ ἔἜ ἕἝ ἠἨ ἡἩ ἢἪ ἣἫ ἤἬ ἥἭ ἦἮ ἧἯ ἰἸ ἱἹ ἲἺ ἳἻ ἴἼ ἵἽ ἶἾ ἷἿ ὀὈ ὁὉ
ὂὊ ὃὋ ὄὌ ὅὍ ὑὙ ὓὛ ὕὝ ὗὟ ὠὨ ὡὩ ὢὪ ὣὫ ὤὬ ὥὭ ὦὮ ὧὯ ὰᾺ άΆ ὲῈ έΈ ὴῊ ήΉ ὶῚ ίΊ ὸῸ όΌ ὺῪ ύΎ ὼῺ ώΏ ᾀᾈ ᾁᾉ ᾂᾊ ᾃᾋ ᾄᾌ
ᾅᾍ ᾆᾎ ᾇᾏ ᾐᾘ ᾑᾙ ᾒᾚ ᾓᾛ ᾔᾜ ᾕᾝ ᾖᾞ ᾗᾟ ᾠᾨ ᾡᾩ ᾢᾪ ᾣᾫ ᾤᾬ ᾥᾭ ᾦᾮ ᾧᾯ ᾰᾸ ᾱᾹ ᾳᾼ ῃῌ ῐῘ ῑῙ ῠῨ ῡῩ ῥῬ ῳῼ ⅎℲ ⅰⅠ ⅱⅡ ⅲⅢ ⅳⅣ ⅴⅤ
ⅵⅥ ⅶⅦ ⅷⅧ ⅸⅨ ⅹⅩ ⅺⅪ ⅻⅫ ⅼⅬ ⅽⅭ ⅾⅮ ⅿⅯ ↄↃ ⰰⰀ ⰱⰁ ⰲⰂ ⰳⰃ ⰴⰄ ⰵⰅ ⰶⰆ ⰷⰇ ⰸⰈ ⰹⰉ ⰺⰊ ⰻⰋ ⰼⰌ ⰽⰍ ⰾⰎ ⰿⰏ ⱀⰐ ⱁⰑ ⱂⰒ ⱃⰓ ⱄⰔ ⱅⰕ ⱆⰖ
ⱇⰗ ⱈⰘ ⱉⰙ ⱊⰚ ⱋⰛ ⱌⰜ ⱍⰝ ⱎⰞ ⱏⰟ ⱐⰠ ⱑⰡ ⱒⰢ ⱓⰣ ⱔⰤ ⱕⰥ ⱖⰦ ⱗⰧ ⱘⰨ ⱙⰩ ⱚⰪ ⱛⰫ ⱜⰬ ⱝⰭ ⱞⰮ ⱡⱠ ⱥȺ ⱦȾ ⱨⱧ ⱪⱩ ⱬⱫ ⱳⱲ ⱶⱵ ⲁⲀ ⲃⲂ ⲅⲄ
ⲇⲆ ⲉⲈ ⲋⲊ ⲍⲌ ⲏⲎ ⲑⲐ ⲓⲒ ⲕⲔ ⲗⲖ ⲙⲘ ⲛⲚ ⲝⲜ ⲟⲞ ⲡⲠ ⲣⲢ ⲥⲤ ⲧⲦ ⲩⲨ ⲫⲪ ⲭⲬ ⲯⲮ ⲱⲰ ⲳⲲ ⲵⲴ ⲷⲶ ⲹⲸ ⲻⲺ ⲽⲼ ⲿⲾ ⳁⳀ ⳃⳂ ⳅⳄ ⳇⳆ ⳉⳈ ⳋⳊ
ⳍⳌ ⳏⳎ ⳑⳐ ⳓⳒ ⳕⳔ ⳗⳖ ⳙⳘ ⳛⳚ ⳝⳜ ⳟⳞ ⳡⳠ ⳣⳢ ⳬⳫ ⳮⳭ ⳳⳲ ⴀႠ ⴁႡ ⴂႢ ⴃႣ ⴄႤ ⴅႥ ⴆႦ ⴇႧ ⴈႨ ⴉႩ ⴊႪ ⴋႫ ⴌႬ ⴍႭ ⴎႮ ⴏႯ ⴐႰ ⴑႱ ⴒႲ ⴓႳ
ⴔႴ ⴕႵ ⴖႶ ⴗႷ ⴘႸ ⴙႹ ⴚႺ ⴛႻ ⴜႼ ⴝႽ ⴞႾ ⴟႿ ⴠჀ ⴡჁ ⴢჂ ⴣჃ ⴤჄ ⴥჅ ⴧჇ ⴭჍ ꙁꙀ ꙃꙂ ꙅꙄ ꙇꙆ ꙉꙈ ꙋꙊ ꙍꙌ ꙏꙎ ꙑꙐ ꙓꙒ ꙕꙔ ꙗꙖ ꙙꙘ ꙛꙚ ꙝꙜ
ꙟꙞ ꙡꙠ ꙣꙢ ꙥꙤ ꙧꙦ ꙩꙨ ꙫꙪ ꙭꙬ ꚁꚀ ꚃꚂ ꚅꚄ ꚇꚆ ꚉꚈ ꚋꚊ ꚍꚌ ꚏꚎ ꚑꚐ ꚓꚒ ꚕꚔ ꚗꚖ ꜣꜢ ꜥꜤ ꜧꜦ ꜩꜨ ꜫꜪ ꜭꜬ ꜯꜮ ꜳꜲ ꜵꜴ ꜷꜶ ꜹꜸ ꜻꜺ ꜽꜼ ꜿꜾ ꝁꝀ
ꝃꝂ ꝅꝄ ꝇꝆ ꝉꝈ ꝋꝊ ꝍꝌ ꝏꝎ ꝑꝐ ꝓꝒ ꝕꝔ ꝗꝖ ꝙꝘ ꝛꝚ ꝝꝜ ꝟꝞ ꝡꝠ ꝣꝢ ꝥꝤ ꝧꝦ ꝩꝨ ꝫꝪ ꝭꝬ ꝯꝮ ꝺꝹ ꝼꝻ ꝿꝾ ꞁꞀ ꞃꞂ ꞅꞄ ꞇꞆ ꞌꞋ ꞑꞐ ꞓꞒ ꞡꞠ ꞣꞢ
ꞥꞤ ꞧꞦ ꞩꞨ ａＡ ｂＢ ｃＣ ｄＤ ｅＥ ｆＦ ｇＧ ｈＨ ｉＩ ｊＪ ｋＫ ｌＬ ｍＭ ｎＮ ｏＯ ｐＰ ｑＱ ｒＲ ｓＳ ｔＴ ｕＵ ｖＶ ｗＷ ｘＸ ｙＹ ｚＺ 𐐨𐐀 𐐩𐐁 𐐪𐐂 𐐫𐐃 𐐬𐐄 𐐭𐐅
𐐮𐐆 𐐯𐐇 𐐰𐐈 𐐱𐐉 𐐲𐐊 𐐳𐐋 𐐴𐐌 𐐵𐐍 𐐶𐐎 𐐷𐐏 𐐸𐐐 𐐹𐐑 𐐺𐐒 𐐻𐐓 𐐼𐐔 𐐽𐐕 𐐾𐐖 𐐿𐐗 𐑀𐐘 𐑁𐐙 𐑂𐐚 𐑃𐐛 𐑄𐐜 𐑅𐐝 𐑆𐐞 𐑇𐐟 𐑈𐐠 𐑉𐐡 𐑊𐐢 𐑋𐐣 𐑌𐐤 𐑍𐐥 𐑎𐐦 𐑏𐐧
"""
