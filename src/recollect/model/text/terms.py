"""The definition of a word, shared by the index, queries and texts in memory.

SQLite's ``unicode61 remove_diacritics 2`` splits and folds what the index holds, and what a query asks for once more. It does
not split Chinese, which has no spaces, nor parseHttpHeader, which has three words. So a text is prepared first: every
CJK character becomes a word of its own, and the parts of every such name are added once at the end, each name
after a mark that no query can contain. The original text stays.

Here a word is folded by Python's Unicode tables, in ways that the tokenizer folds, too. They are newer than its own: a
symbol that came after Unicode 6.1 is a letter to the tokenizer and none here.

Not done: stemming, synonyms, Greek accents (unicode61 keeps them), humps of letters beyond ASCII (größeÄndern
stays one word), names of over 100 characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

# Precedes the parts of a name. A private-use character is a word to the tokenizer; it is removed from every
# text and query, so that no phrase can span two names.
_MARK = "\ue9c3"
_LONGEST_NAME = 100
_LONGEST_TOKEN = 32_768  # bytes; FTS5 truncates longer ones, in the text and in the query
_LONGEST_KEPT = 256
_CJK = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u33ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\uff66-\uffdc\U0001aff0-\U0001b16f\U00020000-\U0003fffd"
)
# Compiled by the first text that needs them: most are plain, and to compile these takes as long as to read megabytes.
_CJK_CHARACTER = f"[{_CJK}]"
_TOKEN = f"[{_CJK}]|[^ {_CJK}]+"  # in a text that was folded in place
_NO_ACCENT = "\u01e0\u01e1"  # letters from which the tokenizer takes none
# Stands for any mark that is dropped from the letter before it.
_ACCENT = "\u0301"


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
    """``text`` folded, UTF-8, with blanks for everything that is no word and around each CJK character."""
    return text.translate(_WORDS).encode()


class _FoldedWords(dict[int, str]):
    """For ``str.translate``: how a character is folded."""

    def __missing__(self, code: int) -> str:
        meaning = self[code] = _words_of(code)
        return meaning


class _FoldedInPlace(dict[int, str]):
    """The same with one character for each: positions stay what they are."""

    def __missing__(self, code: int) -> str:
        meaning = self[code] = (
            chr(code) if re.match(_CJK_CHARACTER, chr(code)) else _folded(chr(code)) or _ACCENT
        )
        return meaning


_WORDS, _IN_PLACE = _FoldedWords(), _FoldedInPlace()


def _words_of(code: int) -> str:
    character = chr(code)
    if re.match(_CJK_CHARACTER, character) is None:
        return _folded(character)
    # Symbols such as the square metre are not words to the tokenizer, so they get a name that is.
    return f" {_MARK}{code:x} " if _folded(character) == " " else f" {character} "


def _folded(character: str) -> str:
    """A letter or digit in its plain form; a blank for what is none; nothing for an accent."""
    if character in (_MARK, "\ufffe", "\uffff"):
        return " "
    if "\u0300" <= character <= "\u0331":
        return ""
    kind = unicodedata.category(character)
    if kind[0] not in "LN" and kind not in ("Co", "Cn"):
        return " "
    base = unicodedata.normalize("NFD", character)[0]
    if base.isascii() and character not in _NO_ACCENT:
        return base.lower()
    small = character.lower().replace("\u03c2", "\u03c3")  # a sigma is one letter wherever it stands
    # Of pairs that came later the tokenizer knows nothing.
    is_pair = all(unicodedata.ucd_3_2_0.category(one) != "Cn" for one in character + small)
    return small if len(small) == 1 and is_pair else character


def _tokens(text: str) -> list[str]:
    return [text[token.start() : token.end()] for token in re.finditer(_TOKEN, text.translate(_IN_PLACE))]


def whole_words(run: str) -> Iterator[str]:
    """The words that every text containing ``run`` has as whole words.

    Only those with plain letters, and ASCII on both sides, where no table of Unicode says another thing.
    """
    for token in re.finditer(_TOKEN, run.translate(_IN_PLACE)):
        start, end = token.span()
        if re.match(_CJK_CHARACTER, run[start]):
            yield words(run[start])[0]
        elif start and end < len(run) and (run[start - 1] + run[end]).isascii() and _ACCENT not in token[0]:
            yield token[0]


# ---- preparing -------------------------------------------------------------------------------------------

_LOWER, _UPPER, _DIGITS = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789"
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


def _prepared(text: str) -> tuple[bytes, bytes]:
    """The text with its CJK characters separated, and the class of each byte."""
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which SQLite refuses
        data = text.encode(errors="replace")
        text = data.decode()
    classes = data.translate(_CLASSES)
    if len(data) > len(text) and b"y" in classes:
        data = re.sub(
            _CJK_CHARACTER, lambda found: _words_of(ord(found[0])), text.replace(_MARK, " ")
        ).encode()
        classes = data.translate(_CLASSES)
    return data, classes


def _name_parts(data: bytes, classes: bytes) -> bytes:
    """The text added for camelCase names: ``mark parse Http Header mark fetch …``, each once."""
    before = classes.rfind
    spans = map(re.Match.span, _HUMP_IN_CLASSES.finditer(classes))
    runs = [data[before(b" ", 0, start) + 1 : end] for start, end in spans]
    # Long runs rarely repeat, and the cache must stay at a few megabytes.
    parts = [(_parts_of if len(run) <= _LONGEST_KEPT else _parts_of.__wrapped__)(run) for run in runs]
    return b"".join(dict.fromkeys(parts)) if parts else b""


@lru_cache(maxsize=20_000)
def _parts_of(run: bytes) -> bytes:
    """The parts of the names in a run of bytes with a hump."""
    text = run.decode()
    names = [text] if text.isascii() else _tokens(text)
    named = (f" {_MARK} {' '.join(pieces)}" for pieces in map(name_pieces, names) if len(pieces) > 1)
    return "".join(named).encode()


def name_pieces(name: str) -> list[str]:
    """The parts of a camelCase name; the name itself if it has none."""
    return re.sub(_HUMP, r" \g<0>", name).split(" ") if len(name) <= _LONGEST_NAME else [name]


# ---- searching one text ----------------------------------------------------------------------------------

_MOST_FAILURES = 200_000


class Term(Struct, frozen=True):
    """A word, or words that must follow one another; with ``prefix`` the last may continue."""

    words: tuple[str, ...]
    prefix: bool = False

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Its positions in an original text, from left to right; they may overlap.

        In a text of many megabytes with very many near matches the search stops at a limit.
        """
        plain = text.translate(_IN_PLACE)
        first, whole = _patterns(self)
        place = failed = 0
        while failed < _MOST_FAILURES and (found := first.search(plain, place)):
            place = found.start()
            phrase = whole.match(plain, place)
            end = self._end_in_name(text, plain, place) if phrase is None else phrase.end()
            if end:
                yield place, end
            failed += not end
            place += 1

    def _end_in_name(self, text: str, plain: str, start: int) -> int:
        """The end of the phrase in parts of one name; 0 if they are not."""
        # Limited to the longest name: a token of megabytes must not be read again from each of its letters.
        before = re.match(_TOKEN, plain[max(0, start - _LONGEST_NAME - 1) : start][::-1])
        begin = start - (before.end() if before and not re.match(_CJK_CHARACTER, before[0]) else 0)
        name = re.match(_TOKEN, plain[begin : begin + _LONGEST_NAME + 1])
        pieces = [] if name is None else name_pieces(text[begin : begin + name.end()])
        borders = list(accumulate(map(len, pieces), initial=begin))
        if len(pieces) < 2 or start not in borders:
            return 0
        at = borders.index(start)
        wanted = pieces[at : at + len(self.words)]
        fits = len(wanted) == len(self.words) and all(map(self._fits, range(len(wanted)), wanted))
        return borders[at + len(wanted)] if fits else 0

    def _fits(self, at: int, token: str) -> bool:
        word = folded(token).strip().decode()
        if self.prefix and at == len(self.words) - 1:
            return word.startswith(self.words[at])
        return word == self.words[at]


@lru_cache(maxsize=256)
def _patterns(term: Term) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """In a text folded in place: where the first word of a term may begin, and the whole of it as words."""
    signs = [chr(int(word[1:], 16)) if word[0] == _MARK else word for word in term.words]
    forms = [f"{_ACCENT}*".join(map(re.escape, sign)) for sign in signs]
    is_cjk = [re.match(_CJK_CHARACTER, sign) is not None for sign in signs]
    whole = "" if is_cjk[0] else f"(?<![^ {_CJK}])"
    for at, form in enumerate(forms):
        is_last = at == len(forms) - 1
        whole += form + ("" if is_cjk[at] else f"{_ACCENT}*")
        if is_last and term.prefix and not is_cjk[at]:
            whole += f"[^ {_CJK}]*"
        elif is_last:
            whole += "" if is_cjk[at] else f"(?![^ {_CJK}])"
        else:
            whole += "[ ]*" if is_cjk[at] or is_cjk[at + 1] else "[ ]+"
    return re.compile(forms[0]), re.compile(whole)
