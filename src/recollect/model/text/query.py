"""Search queries: three kinds with one interface.

    WordQuery   words, "phrases", prefix*, AND OR NOT, -word, ( )    with the index, or without it
    Substring   any run of characters, also inside a word            by reading the texts
    Pattern     a regular expression                                 by reading the texts

``matches`` decides about the fields of one message, ``places`` locates the matches in a text.
``WordQuery.fts`` is the same query for SQLite; everything in it is quoted, so user input is never syntax there,
and ``matches`` gives the same answer as the index. The other two cannot use the index, but ``required_words``
narrows what must be read: every matching text holds each of them as a whole word.

A bare word is split as the index splits it: parse_http_header, src/app.py and 量子缓存 are phrases of their
parts. AND binds closer than OR, and is implied between two words. Characters that are not words (``=>``,
``()``) are ignored, as in the index. ``--flag`` is a word; ``-flag`` excludes. A query that cannot be parsed
is refused with the position.

Regular expressions have no time limit; Python has none.
"""

from __future__ import annotations

import heapq
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NoReturn

from msgspec import Struct

from recollect.errors import UsageError
from recollect.model.text.terms import Term, folded, whole_words, words

_MOST_CHARACTERS, _MOST_TERMS, _DEEPEST = 1_000, 100, 30
# An expression with empty matches everywhere must not be evaluated a million times.
_MOST_MATCHES = 100_000

WordPlace = tuple[int, int, int]
"""Start, end, and the number of the term."""


class WordQuery:
    """Words and how they are combined: ``root``. ``terms`` has the required ones, not the excluded ones."""

    def __init__(self, text: str, root: QueryNode) -> None:
        self.text = text
        self.terms = tuple(dict.fromkeys(_wanted(root)))
        self.root = root

    @classmethod
    def parse(cls, text: str) -> WordQuery:
        """``UsageError`` says what is wrong and where."""
        _check_length("search", text)
        return cls(text, _QueryParser(text).query())

    @property
    def is_loosenable(self) -> bool:
        """Whether it asks for several things at once."""
        return isinstance(self.root, AllOf) and len(self.root.wanted) > 1

    @property
    def is_plain(self) -> bool:
        """Whether it is a list of words: nothing excluded, no alternatives, no prefix."""
        parts = self.root.wanted if isinstance(self.root, AllOf) and not self.root.excluded else (self.root,)
        return all(isinstance(part, Term) and not part.prefix for part in parts)

    def loosened(self) -> WordQuery:
        """The same query for any of the words instead of all; what is excluded stays excluded."""
        root = self.root
        if not isinstance(root, AllOf):
            return self
        wanted = _alternatives(list(root.wanted))
        return WordQuery(self.text, AllOf((wanted,), root.excluded) if root.excluded else wanted)

    def parts(self) -> list[WordQuery]:
        """Each of its words and phrases as a query of its own."""
        return [WordQuery(" ".join(term.words), term) for term in self.terms]

    def fts(self, columns: Sequence[str] | None = None) -> str:
        """The query for FTS5, over the given columns or all."""
        expression = _expression(self.root)
        if columns is None:
            return expression
        if not columns:
            raise UsageError(
                f"search {_shown(self.text)}: no kind of text is selected",
                hint="name at least one, or leave the option out to search every kind",
            )
        names = " ".join('"' + name.replace('"', '""') + '"' for name in columns)
        return f"{{{names}}} : ({expression})"

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the index would find a message with these fields; a phrase must be within one field."""
        return _holds(self.root, list(fields.values()))

    def places(self, text: str) -> Iterator[WordPlace]:
        """The positions of its terms in ``text``, from left to right; they may overlap."""
        if len(self.terms) == 1:
            return _numbered(0, self.terms[0].places(text))
        return heapq.merge(*(_numbered(which, term.places(text)) for which, term in enumerate(self.terms)))


class Substring:
    """Characters that must follow each other in a field."""

    def __init__(self, text: str, case_sensitive: bool = False) -> None:
        _check_length("substring", text)
        if not text:
            raise UsageError("substring '': it is empty", hint="give at least one character")
        self.text, self.case_sensitive = text, case_sensitive
        self._lower = text.lower() if text.isascii() and not case_sensitive else ""
        forms = (
            re.escape(char) if case_sensitive else f"[{''.join(map(re.escape, sorted(_cases(char))))}]"
            for char in text
        )
        self._pattern = re.compile("".join(forms))

    def matches(self, fields: Mapping[str, str]) -> bool:
        return any(map(self._is_in, fields.values()))

    def _is_in(self, text: str) -> bool:
        if self.case_sensitive:
            return self.text in text
        if self._lower and text.isascii():
            return self._lower in text.lower()
        return self._pattern.search(text) is not None

    def places(self, text: str) -> Iterator[WordPlace]:
        """Its positions in ``text``, from left to right."""
        return _found(self._pattern, text)

    def required_words(self) -> list[str]:
        """Whole words in every text with this substring.

        The first and last may be cut, so they do not count.
        """
        return _required([self.text] if self.case_sensitive else _closed_runs(self.text))


class Pattern:
    """A Python regular expression; ``^`` and ``$`` match at line ends."""

    def __init__(self, regex: str) -> None:
        _check_length("regex", regex)
        self.regex = regex
        self._pattern = _compiled(regex)

    def matches(self, fields: Mapping[str, str]) -> bool:
        return any(map(self._pattern.search, fields.values()))

    def places(self, text: str) -> Iterator[WordPlace]:
        """The positions of its matches in ``text``, from left to right; empty matches are left out."""
        return _found(self._pattern, text)

    def required_words(self) -> list[str]:
        """Whole words in every text with a match; [] if none can be proved."""
        return _required(_literal_runs(self.regex))


# ---- places ----------------------------------------------------------------------------------------------


def _numbered(which: int, places: Iterable[tuple[int, int]]) -> Iterator[WordPlace]:
    return ((start, end, which) for start, end in places)


def _found(pattern: re.Pattern[str], text: str) -> Iterator[WordPlace]:
    spans = (found.span() for found in islice(pattern.finditer(text), _MOST_MATCHES))
    return _numbered(0, (span for span in spans if span[0] < span[1]))


def merged(places: Iterable[WordPlace]) -> list[tuple[int, int]]:
    """Positions that may overlap, merged into spans that do not."""
    merged: list[tuple[int, int]] = []
    for start, end, _ in places:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cases(char: str) -> set[str]:
    """``char`` in upper and lower case, where each is a single character."""
    return {form for form in (char, char.lower(), char.upper()) if len(form) == 1}


def _closed_runs(text: str) -> list[str]:
    """``text`` split at characters whose upper and lower case differ in the index."""
    runs = [""]
    for char in text:
        if len({folded(form) for form in _cases(char)}) == 1:
            runs[-1] += char
        else:
            runs.append("")
    return runs


def _required(runs: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(word for run in runs for word in whole_words(run)))


# ---- the parts of a query --------------------------------------------------------------------------------


class AllOf(Struct, frozen=True):
    """Each of ``wanted``, none of ``excluded``."""

    wanted: tuple[QueryNode, ...]
    excluded: tuple[QueryNode, ...] = ()


class AnyOf(Struct, frozen=True):
    """At least one of ``wanted``."""

    wanted: tuple[QueryNode, ...]


QueryNode = Term | AllOf | AnyOf


def _conjunction(wanted: list[QueryNode], excluded: list[QueryNode]) -> QueryNode:
    """``a (b NOT c) -(d OR e)`` is ``a b`` without c, d and e: no more levels than needed."""
    if len(wanted) == 1 and not excluded:
        return wanted[0]
    inner = [(part.wanted, part.excluded) if isinstance(part, AllOf) else ((part,), ()) for part in wanted]
    outer = [part.wanted if isinstance(part, AnyOf) else (part,) for part in excluded]
    return AllOf(
        tuple(node for parts, _ in inner for node in parts),
        tuple(node for parts in (*(out for _, out in inner), *outer) for node in parts),
    )


def _alternatives(wanted: list[QueryNode]) -> QueryNode:
    parts = [part.wanted if isinstance(part, AnyOf) else (part,) for part in wanted]
    return AnyOf(tuple(node for group in parts for node in group)) if len(wanted) > 1 else wanted[0]


def _wanted(node: QueryNode) -> Iterator[Term]:
    if isinstance(node, Term):
        yield node
    else:
        for part in node.wanted:
            yield from _wanted(part)


def _holds(node: QueryNode, fields: list[str]) -> bool:
    if isinstance(node, Term):
        return any(True for field in fields for _ in node.places(field))
    if isinstance(node, AnyOf):
        return any(_holds(part, fields) for part in node.wanted)
    return all(_holds(part, fields) for part in node.wanted) and not any(
        _holds(part, fields) for part in node.excluded
    )


def _expression(node: QueryNode) -> str:
    """For FTS5, where NOT binds closest and OR least.

    Its parser has a stack of 100 entries. The deepest operand goes first, where it takes one entry per level;
    after an operator it takes three.
    """
    if isinstance(node, Term):
        return f'"{" ".join(node.words)}"{"*" if node.prefix else ""}'
    wanted = sorted(node.wanted, key=_entries, reverse=True)
    if isinstance(node, AnyOf):
        return " OR ".join(map(_expression, wanted))
    together = " AND ".join(map(_operand, wanted))
    if not node.excluded:
        return together
    return " NOT ".join([f"({together})", *map(_operand, node.excluded)])


def _operand(node: QueryNode) -> str:
    return _expression(node) if isinstance(node, Term) else f"({_expression(node)})"


def _entries(node: QueryNode) -> int:
    """Roughly how much of the parser's stack the expression takes."""
    if isinstance(node, Term):
        return 1
    first, *others = sorted(map(_entries, node.wanted), reverse=True)
    behind = [*others, *map(_entries, node.excluded if isinstance(node, AllOf) else ())]
    return 1 + max(first, *(2 + entries for entries in behind)) if behind else 1 + first


# ---- parsing a query -------------------------------------------------------------------------------------

_ITEM = re.compile(
    r"""\s*(?:
      "(?P<phrase>[^"]*)"(?P<star>\*?)
    | (?P<sign> [()"] | -(?=[^\s\->=)]) )      # -> and -- and => are not a NOT
    | (?P<word> [^\s()"]+ )
    )""",
    re.VERBOSE,
)
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_QUOTE_IT = 'put literal text in "quotes", or use --substring'
_AS_A_WORD = "write it in small letters to search for it as a word"
_NO_WORD = "the index holds letters and digits only; use --substring to look for other characters"


class _QueryToken(Struct, frozen=True):
    """A token of a query: an operator, a parenthesis, a word or a phrase."""

    at: int
    sign: str
    text: str = ""
    prefix: bool = False


class _QueryParser:
    """Recursive descent: ``a OR b c`` is an AnyOf of a and an AllOf of b and c."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._items = list(self._cut())
        self._next = 0
        self._terms = 0

    def query(self) -> QueryNode:
        if not self._items:
            self._refuse("the query is empty", None, 'give a word, as in: recollect search "index"')
        root = self._any_of(depth=0)
        if self._next < len(self._items):
            self._refuse("a ) without its (", self._items[self._next].at, _QUOTE_IT)
        if root is None:
            self._refuse("no letter or digit to search for", None, _NO_WORD)
        return root

    # -- cutting it into items

    def _cut(self) -> Iterator[_QueryToken]:
        # Every character except a blank fits one of the alternatives, so nothing is skipped.
        return map(self._item, _ITEM.finditer(self._text))

    def _item(self, found: re.Match[str]) -> _QueryToken:
        if found["phrase"] is not None:
            return _QueryToken(found.start("phrase") - 1, "", found["phrase"], bool(found["star"]))
        if found["sign"] is not None:
            at = found.start("sign")
            if found["sign"] == '"':
                self._refuse('a " without a closing one', at, "close the phrase, or leave the quote out")
            return _QueryToken(at, "NOT" if found["sign"] == "-" else found["sign"])
        return self._word(found["word"], found.start("word"))

    def _word(self, word: str, at: int) -> _QueryToken:
        if word in _OPERATORS:
            return _QueryToken(at, word)
        bare = word.rstrip("*")
        if "*" in bare or not bare:
            self._refuse("a * that does not end a word", at + word.index("*"), f"as in hand*; {_QUOTE_IT}")
        return _QueryToken(at, "", bare, bare != word)

    # -- putting the items together

    def _sign(self) -> str | None:
        """The sign of the next item: "" for a word, None at the end."""
        return self._items[self._next].sign if self._next < len(self._items) else None

    def _any_of(self, depth: int) -> QueryNode | None:
        parts = [self._all_of(depth)]
        while self._sign() == "OR":
            at = self._items[self._next].at
            self._next += 1
            parts.append(self._all_of(depth))
            if None in parts:
                self._refuse("OR beside something without a letter or digit", at, _NO_WORD)
        known = [part for part in parts if part is not None]
        return _alternatives(known) if known else None

    def _all_of(self, depth: int) -> QueryNode | None:
        first, wanted, excluded = self._next, list[QueryNode](), list[QueryNode]()
        while self._sign() not in ("OR", ")", None):
            if self._sign() == "AND" and self._next > first:
                self._next += 1
            negated = self._sign() == "NOT"
            at = self._place()
            self._next += negated
            part = self._operand(depth)
            if negated and part is None:
                self._refuse("NOT before something without a letter or digit", at, _NO_WORD)
            if part is not None:
                (excluded if negated else wanted).append(part)
        if self._next == first:
            self._missing_operand()
        if excluded and not wanted:
            at = self._items[first].at
            self._refuse(
                "only words to exclude", at, "add a word that must be there, as in: index NOT sqlite"
            )
        return _conjunction(wanted, excluded) if wanted else None

    def _operand(self, depth: int) -> QueryNode | None:
        sign = self._sign()
        if sign == "(":
            return self._group(depth + 1)
        if sign != "":
            self._missing_operand()
        item = self._items[self._next]
        self._next += 1
        return self._term(item)

    def _group(self, depth: int) -> QueryNode | None:
        at = self._place()
        if depth > _DEEPEST:
            self._refuse(f"more than {_DEEPEST} nested parentheses", at, "use fewer levels")
        self._next += 1
        # main() is how a function is written, so empty parentheses are ignored.
        inner = None if self._sign() == ")" else self._any_of(depth)
        if self._sign() != ")":
            self._refuse("a ( without its )", at, _QUOTE_IT)
        self._next += 1
        return inner

    def _term(self, item: _QueryToken) -> Term | None:
        found = words(item.text)
        self._terms += 1
        if self._terms > _MOST_TERMS:
            self._refuse(f"more than {_MOST_TERMS} words and phrases", item.at, "search for fewer at a time")
        # foo_* is the word foo followed by something, not a word that begins with foo.
        goes_on = item.prefix and not folded(item.text).endswith(b" ")
        return Term(tuple(found), goes_on) if found else None

    # -- refusing

    def _place(self) -> int:
        return self._items[self._next].at if self._next < len(self._items) else len(self._text)

    def _missing_operand(self) -> NoReturn:
        """The next token is not a word, and the one before needs one."""
        before = self._items[self._next - 1] if self._next else None
        sign, at = self._sign(), self._place()
        if before is not None and before.sign in _OPERATORS:
            self._refuse(f"{before.sign} without a word after it", before.at, _AS_A_WORD)
        if before is not None and sign is None:
            self._refuse("a ( without its )", before.at, _QUOTE_IT)
        if sign == ")":
            self._refuse("a ) without its (", at, _QUOTE_IT)
        self._refuse(f"{sign} without a word before it", at, _AS_A_WORD)

    def _refuse(self, what: str, at: int | None, hint: str) -> NoReturn:
        place = "" if at is None else f" at character {at + 1}"
        raise UsageError(f"search {_shown(self._text)}: {what}{place}", hint=hint)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _check_length(what: str, text: str) -> None:
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(
            f"{what} {_shown(text)}: {len(text)} characters, the limit is {_MOST_CHARACTERS}",
            hint="a few words of the text are enough to find it",
        )


# ---- regular expressions ---------------------------------------------------------------------------------


def _compiled(regex: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "possible nested set": a hint for programmers
            return re.compile(regex, re.MULTILINE)
    except re.error as error:
        place = "" if error.pos is None else f" at character {error.pos + 1}"
        reason = f"{error.msg}{place}"
    except (OverflowError, RecursionError):
        reason = "too large or too deep"
    raise UsageError(f"regex {_shown(regex)}: {reason}", hint="use --substring to search for literal text")


# One element: a character or white space, or anything else that no group, alternative or flag is in; and how often.
_ELEMENT = re.compile(
    r"(?:(?P<text>\\[^\w]|\\[sntrfv]|[^\\.^$*+?{}\[\]()|])|\\[SwWdDbBAZ]|[.^$]|\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"(?P<often>(?:[*+?]|\{\d*(?:,\d*)?\})[?+]?)?"
)


def _literal_runs(regex: str) -> list[str]:
    """Literal texts in every match, a blank for white space; [] where that is not obvious.

    One text too few costs time, one too many would lose a result.
    """
    runs, end = [""], 0
    for element in _ELEMENT.finditer(regex):
        if element.start() != end:
            return []
        end = element.end()
        text, often = element["text"] or "", (element["often"] or "")[:1]
        if text.startswith("\\"):
            text = " " if text[1] in "sntrfv" else text[1]
        runs[-1] += text if often in ("", "+") else ""
        if not text or (often and (often != "+" or text != " ")):
            runs.append("")
    return runs if end == len(regex) else []
