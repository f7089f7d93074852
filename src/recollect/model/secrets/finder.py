"""Find credentials in a text, whatever they are wrapped in.

A text is looked at as it stands, with its escapes read (up to three times over: JSON in JSON in
JSON), with its lines joined, and with its base64 decoded. What a provider marked is believed at
once; a value that only has a telling name must also look drawn by lot, and placeholders of
documentation are nothing.

``find`` is pure and total: any text has an answer. A ``Found`` holds the secret itself, for
its fingerprint; it shows itself without it, so that no log or traceback can carry one out.
"""

from __future__ import annotations

import binascii
import functools
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from recollect.model.secrets.patterns import NAMED, SHAPES, TOKENS, Named, Shape, Token
from recollect.model.secrets.views import Span, View, base64_stretches, joined, unescaped

_LETTER = "[0-9A-Za-z]"
_WORD_LETTER = "[0-9A-Za-z_-]"
_ANY_LETTER = re.compile(r"[0-9A-Za-z_+/-]")
_DEEPEST = 4
_LONGEST_KEY = 20_000
PRIVATE_KEY = "private-key"
PUTTY_KEY = "putty-private-key"
# Which is believed where two overlap: the lower.
_KEY_FILE, _MARKED, _NAMED_VALUE, _SHAPED, _WRAPPED, _GENERIC = range(6)


class Found:
    """A secret and the place it stands in."""

    __slots__ = ("end", "kind", "rank", "secret", "start")

    def __init__(self, kind: str, start: int, end: int, secret: str, rank: int = _MARKED) -> None:
        self.kind, self.start, self.end = kind, start, end
        self.secret, self.rank = secret, rank

    def __repr__(self) -> str:
        return f"Found({self.kind!r}, {self.start}, {self.end})"

    def at(self, place: Span) -> Found:
        """The same at another place."""
        return Found(self.kind, place.start, place.end, self.secret, self.rank)


def find(text: str, *, name: str = "", is_escaped: bool = False) -> list[Found]:
    """Every secret in a text, in order, none inside another.

    ``name`` is what the text is the value of, if anything. With ``is_escaped`` the text is the inside of a
    JSON string, and places are those of the string as it is written.
    """
    found: list[Found] = []
    chain: list[View] = []
    current = text
    view = unescaped(current) if is_escaped else None
    if view is not None:
        chain, current = [view], view.text
    found += (one.at(_source(chain, one)) for one in _in_value(name, current))
    for _ in range(_DEEPEST):
        found += (one.at(_source(chain, one)) for one in _look(current))
        view = unescaped(current)
        if view is None:
            break
        chain, current = [*chain, view], view.text
    return _settled(_not_marked(text, found))


def _source(chain: list[View], found: Found) -> Span:
    place = Span(found.start, found.end)
    for view in reversed(chain):
        place = view.source(place)
    return place


_MARK = re.compile(r"\[redacted:[0-9a-z-]{1,60}:[0-9a-f]{8}\]")


def _not_marked(text: str, found: list[Found]) -> list[Found]:
    """Without what stands inside a mark that a secret left behind: its digits are no password."""
    marks = [Span(*mark.span()) for mark in _MARK.finditer(text)] if "[redacted:" in text else []
    starts = [mark.start for mark in marks]

    def is_inside(one: Found) -> bool:
        at = bisect_right(starts, one.start) - 1
        return at >= 0 and one.end <= marks[at].end

    return [one for one in found if not is_inside(one)]


def _settled(found: list[Found]) -> list[Found]:
    """Without what overlaps something that is believed more, or is longer."""
    kept: list[Found] = []
    starts: list[int] = []
    for one in sorted(found, key=lambda one: (one.rank, one.start - one.end, one.start)):
        at = bisect_right(starts, one.start)
        is_free_before = at == 0 or kept[at - 1].end <= one.start
        is_free_behind = at == len(kept) or one.end <= kept[at].start
        if is_free_before and is_free_behind:
            starts.insert(at, one.start)
            kept.insert(at, one)
    return kept


def _look(text: str) -> Iterator[Found]:
    yield from _directly(text)
    for is_marked in (False, True):
        if not is_marked or re.search(r"\n[ \t]*[>+|\u2502\xe2-]", text):
            view = joined(text, is_marked=is_marked)
            if view is not None:
                yield from _over_lines(view)
    for stretch in base64_stretches(text):
        for inner in _in_base64(stretch.letters):
            yield Found(inner.kind, *stretch.place, inner.secret, _WRAPPED)


def _directly(text: str) -> Iterator[Found]:
    yield from _tokens(text)
    yield from _values(text)
    yield from _private_keys(text)


# --- what providers marked ----------------------------------------------------------------------------------


class _Compiled(NamedTuple):
    token: Token
    strict: re.Pattern[str]
    loose: re.Pattern[str]
    edge: re.Pattern[str]
    has_one_length: bool


@functools.cache
def _compiled(token: Token) -> _Compiled:
    start = "|".join(map(re.escape, token.starts))
    core = f"(?:{start})(?:{token.body})"
    letter = _WORD_LETTER if "_-]" in token.body else _LETTER
    return _Compiled(
        token,
        re.compile(f"(?<!{_LETTER}){core}(?!{letter})", re.ASCII),
        re.compile(core, re.ASCII),
        re.compile(letter, re.ASCII),
        re.search(r"\{\d+,\d*\}", token.body.replace("={0,", "=")) is None,
    )


@functools.cache
def _beginnings() -> tuple[re.Pattern[str], dict[str, list[Token]]]:
    """One expression for every beginning, and the tokens that may follow each."""
    starts = sorted({start for token in TOKENS for start in token.starts}, key=lambda one: (-len(one), one))
    rows = {
        start: [token for token in TOKENS if any(start.startswith(mine) for mine in token.starts)]
        for start in starts
    }
    return re.compile(_trie(starts), re.ASCII), rows


def _trie(words: Iterable[str]) -> str:
    """An expression for any of the words that tries each first letter once; the longest wins."""
    tails: dict[str, list[str]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    has_end = tails.pop("", None) is not None
    branches = [re.escape(letter) + _trie(rest) for letter, rest in sorted(tails.items())]
    if not branches:
        return ""
    inner = f"(?:{'|'.join(branches)})" if len(branches) > 1 else branches[0]
    return f"(?:{inner})?" if has_end else inner


def _tokens(text: str) -> Iterator[Found]:
    beginnings, rows = _beginnings()
    for beginning in beginnings.finditer(text):
        for token in rows[beginning.group()]:
            match = _compiled(token).strict.match(text, beginning.start())
            if match is not None and not _is_invented(match.group()):
                yield Found(token.kind, *match.span(), match.group())
    for token in _marked_inside():
        if token.inside in text:
            for match in _compiled(token).strict.finditer(text):
                if not _is_invented(match.group()):
                    yield Found(token.kind, *match.span(), match.group())


@functools.cache
def _marked_inside() -> tuple[Token, ...]:
    return tuple(token for token in TOKENS if token.inside)


# --- broken over lines --------------------------------------------------------------------------------------


def _over_lines(view: View) -> Iterator[Found]:
    """Tokens that a line break runs through."""
    beginnings, rows = _beginnings()
    for beginning in beginnings.finditer(view.text):
        at = beginning.start()
        if view.is_break(at) or not _is_letter(view.text[at - 1 : at]):
            for token in rows[beginning.group()]:
                yield from _broken(view, _compiled(token), at)
    for token in _marked_inside():
        if token.inside in view.text:
            for match in _compiled(token).loose.finditer(view.text):
                yield from _broken(view, _compiled(token), match.start())
    yield from _broken_values(view)


def _broken(view: View, token: _Compiled, at: int) -> Iterator[Found]:
    match = token.loose.match(view.text, at)
    if match is None:
        return
    for end in _ends(view, at, match.end()):
        is_token = token.loose.fullmatch(view.text, at, end) is not None
        if is_token and _is_whole(view, Span(at, end), token.edge, token.has_one_length):
            if not _is_invented(view.text[at:end]):
                yield Found(token.token.kind, *view.source(Span(at, end)), view.text[at:end])
            return


class _Believed(NamedTuple):
    """What a value must be like, and what it is then."""

    kind: str
    rank: int
    entropy: float
    test: Callable[[str], bool]

    def is_one(self, value: str) -> bool:
        """Whether a value is of this kind."""
        return entropy(value) >= self.entropy and self.test(value)


@functools.cache
def _believed(rule: Named | Shape) -> _Believed:
    if isinstance(rule, Named):
        return _Believed(rule.kind, _NAMED_VALUE, 3.0, _is_not_invented)
    rank = _GENERIC if rule.is_generic else _SHAPED
    return _Believed(rule.kind, rank, rule.entropy, _TESTS.get(rule.kind, _is_believed_value))


def _broken_values(view: View) -> Iterator[Found]:
    """Values of telling names, and of known shapes, that a line break runs through."""
    for rule in _rules_for(view.text.lower()):
        for match in _value_pattern(rule, is_loose=True).finditer(view.text):
            yield from _broken_value(view, Span(*match.span("secret")), _believed(rule))


def _broken_value(view: View, place: Span, believed: _Believed) -> Iterator[Found]:
    for end in _ends(view, place.start, place.end):
        if _is_whole(view, Span(place.start, end), _ANY_LETTER, has_one_length=False):
            secret = view.text[place.start : end]
            if len(secret) >= 8 and believed.is_one(secret):
                yield Found(believed.kind, *view.source(Span(place.start, end)), secret, believed.rank)
            return


def _ends(view: View, start: int, end: int) -> Iterator[int]:
    """Where a secret that runs over lines may end: at its end, or with one of its lines but the first."""
    inner = view.breaks_inside(start, end)
    if inner:
        yield end
        yield from reversed(inner[1:])


def _is_whole(view: View, place: Span, edge: re.Pattern[str], has_one_length: bool) -> bool:
    """Whether a secret ends here. Where its length is not fixed, each line must look like a piece of it."""
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


# --- inside base64 ------------------------------------------------------------------------------------------


def _in_base64(letters: str) -> list[Found]:
    """Secrets in a text that was encoded; what was encoded may also be a picture, which is no text."""
    try:
        start = binascii.a2b_base64(letters[:24])
        if not start.isascii():
            return []
        whole = letters.rstrip("=")
        data = binascii.a2b_base64(whole[: len(whole) - (len(whole) % 4 == 1)] + "==")
    except binascii.Error:
        return []
    text = data.decode("latin-1")
    found = list(_directly(text))
    view = unescaped(text)
    if view is not None:
        found += (one.at(view.source(Span(one.start, one.end))) for one in _directly(view.text))
    return _settled(found)


# --- by name and by shape -----------------------------------------------------------------------------------

_GIVEN = r"""[\w.-]{0,30}["'`]?\s{0,3}(?::=|=>|=|:)\s{0,3}["'`]?"""
_NAME_MATTERS = re.compile(
    r"(?i)key|token|secret|passw|pwd|passphrase|credential|auth|cookie|"
    + "|".join(re.escape(word) for one in NAMED for word in one.words if len(word) > 4)
)


@functools.cache
def _value_pattern(rule: Named | Shape, *, is_loose: bool = False) -> re.Pattern[str]:
    """The expression of a rule; a loose one does not mind what follows the secret."""
    if isinstance(rule, Shape):
        return re.compile(rule.pattern, re.ASCII)
    name = rule.name.replace("_?", "[_. -]?")
    letter = _WORD_LETTER if "_-]" in rule.body else "[0-9A-Za-z+/]"
    edge = "" if is_loose else f"(?!{letter})"
    return re.compile(f"(?i:{name}){_GIVEN}(?P<secret>{rule.body}){edge}", re.ASCII)


def _rules_for(small: str) -> Iterator[Named | Shape]:
    """The rules that a text, in small letters, has a word of."""
    rules: tuple[Named | Shape, ...] = (*NAMED, *SHAPES)
    for rule in rules:
        if any(word in small for word in rule.words):
            yield rule


def _in_value(name: str, text: str) -> Iterator[Found]:
    """Secrets that are what they are because of the name of the whole value."""
    if not name or not _NAME_MATTERS.search(name):
        return
    before = re.sub(r"[^\w.-]", "_", name[-60:]) + '="'
    whole = f'{before}{text}"'
    for one in _values(whole):
        if one.start >= len(before):
            yield one.at(Span(one.start - len(before), one.end - len(before)))


def _values(text: str) -> Iterator[Found]:
    for rule in _rules_for(text.lower()):
        believed = _believed(rule)
        for match in _value_pattern(rule).finditer(text):
            if believed.is_one(match["secret"]):
                yield Found(rule.kind, *match.span("secret"), match["secret"], believed.rank)


# --- private keys -------------------------------------------------------------------------------------------

_BEGIN = re.compile(r"-----BEGIN (?:[0-9A-Z]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END (?:[0-9A-Z]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PUTTY = re.compile(r"PuTTY-User-Key-File-[23]: [\s\S]{40,8000}?\bPrivate-MAC: [0-9a-f]{40,64}")
_KEY_LINE = re.compile(r"[0-9A-Za-z+/=]{16,}\s*|[A-Z][\w-]{2,20}: [^\n]{0,100}|\s*")


def _private_keys(text: str) -> Iterator[Found]:
    """From BEGIN to END, or as far as its lines go where the end was cut off."""
    if "PRIVATE KEY" in text:
        begins = list(_BEGIN.finditer(text))
        nexts = [*(one.start() for one in begins[1:]), len(text)]
        for begin, following in zip(begins, nexts, strict=False):
            limit = min(following, begin.end() + _LONGEST_KEY)
            end = _END.search(text, begin.end(), limit)
            last = _last_line(text, begin.end(), limit) if end is None else end.end()
            inside = text[begin.end() : last if end is None else end.start()]
            letters = _key_letters(inside)
            # With escapes still in it, it is left to the view without them: its letters would not be its own.
            if len(letters) >= 40 and "\\n" not in inside and not _is_invented(letters):
                yield Found(PRIVATE_KEY, begin.start(), last, letters, _KEY_FILE)
    if "PuTTY-User-Key-File" in text:
        for match in _PUTTY.finditer(text):
            yield Found(PUTTY_KEY, *match.span(), _key_letters(match.group()), _KEY_FILE)


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
    """The base64 of a key without margins and headers: the same however it was printed."""
    view = joined(inside, is_marked=True)
    if view is None:
        return re.sub(r"[^0-9A-Za-z+/=]", "", inside)
    lines = (view.text[line.start : line.end] for line in view.lines())
    return "".join(line for line in lines if re.fullmatch(r"[0-9A-Za-z+/=]+", line))


# --- what is no secret --------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(
    r"(?i)your|my[_-]|<|>|\$\{|\{\{|%\(|\*\*\*|\.\.\.|example|placeholder|changeme|change_me|replace|insert|"
    r"dummy|sample|redacted|undefined|process\.env|os\.environ|getenv|xxxx|1234567890|abcdefgh|0123456789|"
    r"lorem|foobar|passw[o0]rd|hunter2|self\."
)
_WORDS = re.compile(
    r"(?i)pass|pwd|password|passwd|secret|user|username|token|test|testing|admin|root|guest|none|null|true|false"
    r"|secret123|string|value|xxx|foo|bar|baz"
)
_SEQUENCES = (
    "1234567890",
    "0123456789",
    "abcdefgh",
    "ABCDEFGH",
    "EXAMPLE",
    "xxxxxx",
    "XXXXXX",
    "000000000000",
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]*\(|[\w.]+\[|(?:self|this|options|config|settings|args|env|req|request|process)\."
)


def _is_invented(secret: str) -> bool:
    """Whether a value was made up for people to read: few letters, or letters in a row."""
    return len(set(secret)) < min(9, len(secret) // 3) or any(row in secret for row in _SEQUENCES)


def _is_not_invented(secret: str) -> bool:
    return not _is_invented(secret)


def entropy(text: str) -> float:
    """Bits a character, by how often each occurs in it."""
    length = len(text)
    return (
        -sum(count / length * math.log2(count / length) for count in Counter(text).values())
        if length
        else 0.0
    )


def _is_believed_value(value: str) -> bool:
    is_word = _WORDS.fullmatch(value) is not None or value.startswith(("$", "%", "{", "[", "@", "#"))
    return not is_word and not _PLACEHOLDER.search(value)


def _is_believed_password(value: str) -> bool:
    """A word of a dictionary, a name in a program and a path are no passwords we could tell from others."""
    is_code = _CODE.match(value) or re.match(r"[A-Za-z_]\w*=", value)
    if not _is_believed_value(value) or is_code or value.startswith(("/", "~/", "./", "--", "http")):
        return False
    kinds = (
        any(map(str.isdigit, value)),
        any(map(str.isupper, value)),
        any(map(str.islower, value)),
        not value.isalnum(),
    )
    is_list = re.fullmatch(r"[\d.,:_-]+|[0-9a-z_.-]+(?:[/|][0-9a-z_.-]+)+", value) is not None
    return any(map(str.isdigit, value)) and sum(kinds) >= 2 and not is_list


def _is_believed_secret(value: str) -> bool:
    if not _is_believed_value(value) or _CODE.match(value) or _is_invented(value):
        return False
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    return digits >= 2 and letters >= 4 and "/" not in value[:1] and value.count(".") <= 2


def _is_login(value: str) -> bool:
    """Whether base64 holds a name and a password."""
    try:
        login = binascii.a2b_base64(value + "=" * (-len(value) % 4))
    except binascii.Error:
        return False
    name, colon, password = login.partition(b":")
    return bool(
        colon
        and name.isascii()
        and password.isascii()
        and len(password) >= 3
        and login.decode("ascii").isprintable()
    )


_TESTS: dict[str, Callable[[str], bool]] = {
    "password": _is_believed_password,
    "curl-password": _is_believed_value,
    "secret": _is_believed_secret,
    "bearer-token": _is_believed_secret,
    "http-cookie": _is_believed_secret,
    "basic-auth": _is_login,
    "docker-auth": _is_login,
}
