"""A strict reader of the part of the shell language that is analysed.

It accepts little and knows exactly what that means. Every construct is read to its last character or
refused: ``Unclear`` when the boundaries of commands would be a guess, a reason in ``doubts`` when they
are certain but the meaning is not (``$X`` as a command's name). The rules are those of bash; a text
that zsh reads differently is refused.

Accepted: simple commands, pipelines, lists, ``!``, subshells, groups, if, while, until, for-in, case,
redirects, heredocs, quotes, ``$name``, ``$(…)``, backquotes, process substitution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from recollect.guard.policy.shell_words import DEEPEST, ENDS_WORD, META, NAME, Unclear, WordReader
from recollect.guard.policy.terms import Command, Redirect, Word

if TYPE_CHECKING:
    from tree_sitter import Language, Query


Span = tuple[int, int]


@dataclass(slots=True)
class _CommandBuilder:
    """A simple command under construction."""

    words: list[Word] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


_ASKED_ABOUT = {"{": "a group", "case": "a case statement"}
_TIME = re.compile(r"time(?=[ \t\n;&|()<>]|\Z)")
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_REDIRECT = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|<|>>|>&|>\||>|&>>|&>)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)


class ShellReader(WordReader):
    """Reads one text once; afterwards ``seen`` and ``doubts`` hold the result."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.seen: list[Command] = []
        self.spans: list[tuple[Span, ...]] = []
        """Where the words of each command stand, for comparison with the second parser."""

    def read(self) -> None:
        self._list()
        if self.at < self.end:
            raise Unclear("unexpected " + repr(self.text[self.at]))
        if self.heredocs:
            raise Unclear("heredoc without a body")

    # -- lists and pipelines -------------------------------------------------------------------

    def _list(self) -> None:
        """Read commands up to the end, an unmatched ``)``, ``;;`` or a closing reserved word."""
        while True:
            self._gap()
            if self._closed():
                return
            self._and_or()
            self._skip()
            following = self.text[self.at : min(self.at + 2, self.end)]
            if following in {"&|", "&!"}:
                raise Unclear("zsh separator")
            if following[:1] == "&":
                self.beware("a command in the background")
            if following[:1] == "&" or (following[:1] == ";" and following not in {";;", ";&", ";|"}):
                self.at += 1
                self._after_heredoc()
            elif following[:1] != "\n":
                return

    def _closed(self) -> bool:
        if self.at >= self.end or self.text[self.at] == ")" or self.text.startswith(";;", self.at):
            return True
        return self._reserved() in _CLOSERS

    def _and_or(self) -> None:
        while True:
            self._pipeline()
            self._skip()
            if self.text.startswith(("&&", "||"), self.at):
                self.at += 2
                self._after_heredoc()
                self._gap()
            else:
                return

    def _after_heredoc(self) -> None:
        if self.heredocs:
            self.beware("a command behind a heredoc's first line")

    def _pipeline(self) -> None:
        outer = self.piped
        while self._reserved() == "!":
            self.at += 1
            if self.text[self.at : self.at + 1] not in {" ", "\t"}:
                raise Unclear("! without a blank")
            self._skip()
        first, several = len(self.seen), False
        while True:
            self._command()
            self._skip()
            if self.text.startswith("||", self.at) or not self.text.startswith("|", self.at):
                break
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self._after_heredoc()
            several = self.piped = True
            self._gap()
        self.piped = outer
        if several and self.depth:
            self.beware("a pipe inside a loop or a condition")
        if several and any(not command.words for command in self.seen[first:]):
            self.beware("an assignment in a pipe")

    # -- commands ------------------------------------------------------------------------------

    def _command(self) -> None:
        if self.at >= self.end:
            raise Unclear("command missing")
        word = self._reserved()
        if (word is None and self.text[self.at] != "(") or word == "[[":
            self._simple()
            return
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unclear("nested too deeply")
        nested = self.nested
        if word is None:
            self.beware("a subshell")
            self._subshell()
        else:
            if word in _ASKED_ABOUT:
                self.beware(_ASKED_ABOUT[word])
            reading = self._compound.get(word)
            if reading is None:
                raise Unclear(f"{word} is not analysed")
            reading(self)
        self.nested = nested
        self._redirects_of_compound()
        self.depth -= 1

    def _subshell(self) -> None:
        if self.text.startswith("((", self.at):
            raise Unclear("arithmetic command")
        self.at += 1
        self.nested = True
        self._list()
        self._expect(")")

    def _group(self) -> None:
        self.at += 1
        self._list()
        self._keyword("}")

    def _if(self) -> None:
        self._keyword("if")
        self._list()
        self._keyword("then")
        self._list()
        while self._reserved() == "elif":
            self._keyword("elif")
            self._list()
            self._keyword("then")
            self._list()
        if self._reserved() == "else":
            self._keyword("else")
            self._list()
        self._keyword("fi")

    def _while(self) -> None:
        self.at += 5
        self._list()
        self._do()

    def _do(self) -> None:
        self._keyword("do")
        self._list()
        self._keyword("done")

    def _for(self) -> None:
        self._keyword("for")
        self._skip()
        name = NAME.match(self.text, self.at, self.end)
        if name is None:
            raise Unclear("for without a plain name")
        self.at = name.end()
        if not ENDS_WORD.match(self.text, self.at, self.end):
            raise Unclear("unexpected character after a name")
        self._gap()
        values: list[Word] = []
        if self._reserved() == "in":
            self.at += 2
            values = self._words_to_separator()
        elif self.text.startswith(";", self.at):
            self.at += 1
        self.assigned_names.append(name.group())
        for value in values:
            self._assigned(name.group(), value)
        self._gap()
        self._do()

    def _words_to_separator(self) -> list[Word]:
        words: list[Word] = []
        while True:
            self._skip()
            if self.at >= self.end:
                raise Unclear("for without do")
            if self.text[self.at] in ";\n":
                self.at += self.text[self.at] == ";"
                return words
            if self.text[self.at] in "&|()<>":
                raise Unclear("for with an operator among its words")
            words.append(self._word()[0])

    def _case(self) -> None:
        self._keyword("case")
        self._skip()
        self._word()
        self._gap()
        if self._reserved() != "in":
            raise Unclear("case without in")
        self.at += 2
        self._gap()
        while self._reserved() != "esac":
            self._patterns()
            self._list()
            if self.text.startswith((";;&", ";&"), self.at):
                raise Unclear("case that falls through")
            if not self.text.startswith(";;", self.at):
                self._gap()
                break
            self.at += 2
            self._gap()
        self._keyword("esac")

    def _patterns(self) -> None:
        if self.text.startswith("(", self.at):
            self.at += 1
        while True:
            self._skip()
            self._word()
            self._skip()
            if self.text.startswith("|", self.at):
                self.at += 1
                continue
            self._expect(")")
            return

    def _redirects_of_compound(self) -> None:
        start, parts = self.at, _CommandBuilder()
        while True:
            self._skip()
            if not self._redirect(parts):
                break
        if parts.redirects:
            raw = self.text[start : self.at].strip()
            self._add(raw, parts)
        if not ENDS_WORD.match(self.text, self.at, self.end) or self.text.startswith("(", self.at):
            raise Unclear("word after a compound command")

    def _simple(self) -> None:
        start = last = self.at
        parts = _CommandBuilder()
        # Inner commands come before the outer one, as they run before it.
        while self.at < self.end:
            self._skip()
            if self.at >= self.end:
                break
            if self._redirect(parts):
                last = self.at
                continue
            letter = self.text[self.at]
            if letter == "(":
                raise Unclear("parenthesis after a word: function, array or zsh pattern")
            if letter in ";&|\n)":
                break
            self._element(parts)
            last = self.at
        if not (parts.words or parts.assignments or parts.redirects):
            raise Unclear("command missing")
        self._finish(self.text[start:last], parts)

    def _element(self, parts: _CommandBuilder) -> None:
        if not parts.words:
            found = _ASSIGNMENT.match(self.text, self.at, self.end)
            if found:
                self._assignment(parts, found)
                return
            if _SUBSCRIPT.match(self.text, self.at, self.end):
                raise Unclear("array subscript")
        elif len(parts.words) == 1 and parts.words[0].raw == "time":
            self._behind_time()
        word, span = self._word()
        parts.words.append(word)
        parts.spans.append(span)

    def _behind_time(self) -> None:
        """``time`` is a reserved word: a whole pipeline may follow it, not only a simple command."""
        if (
            self._reserved()
            or self.text[self.at] == "-"
            or _ASSIGNMENT.match(self.text, self.at, self.end)
            or _TIME.match(self.text, self.at, self.end)
        ):
            raise Unclear("time before something other than a simple command")

    def _assignment(self, parts: _CommandBuilder, found: re.Match[str]) -> None:
        self.at = found.end()
        if self.text.startswith("(", self.at):
            raise Unclear("array")
        value = Word("", "")
        if not ENDS_WORD.match(self.text, self.at, self.end):
            if self.text.startswith("~", self.at):
                # The value begins a new word here, but its tilde is expanded by other rules.
                self.doubt("tilde in an assignment")
            value, _ = self._word()
        elif self.text[self.at : self.at + 1] in {"<", ">"} and self.text.startswith("(", self.at + 1):
            raise Unclear("process substitution in an assignment")
        parts.assignments.append((found.group(1), value))
        if found.group(2):
            self._assigned(found.group(1), None)
            before = self.values.get(found.group(1), [""])
            self.values[found.group(1)] = [*before, *(old + (value.text or "") for old in before)][:64]
        else:
            self._assigned(found.group(1), value)

    def _assigned(self, name: str, value: Word | None) -> None:
        values = self.values.setdefault(name, [])
        for one in () if value is None else (value.likely if value.text is None else (value.text,)):
            if one not in values and len(values) < 64 and len(one) <= 1_000:
                values.append(one)

    def _finish(self, raw: str, parts: _CommandBuilder) -> None:
        if parts.words and parts.words[0].raw == "[[" and (parts.words[-1].raw != "]]" or parts.redirects):
            raise Unclear("[[ with operators")
        if len(parts.redirects) > 1 and any(one.operator in {"<<", "<<-"} for one in parts.redirects):
            self.beware("a heredoc beside another redirect")
        self._add(raw, parts)

    def _add(self, raw: str, parts: _CommandBuilder) -> None:
        read = (tuple(parts.words), tuple(parts.assignments), tuple(parts.redirects))
        self.seen.append(Command(raw, *read, self.piped, self.nested))
        self.spans.append(tuple(parts.spans))

    # -- redirects -----------------------------------------------------------------------------

    def _redirect(self, parts: _CommandBuilder) -> bool:
        found = _REDIRECT.match(self.text, self.at, self.end)
        if found is None or (self.text.startswith("(", found.end()) and found.group(2) in {"<", ">"}):
            if found is not None and found.group(1):
                raise Unclear("process substitution in the middle of a word")
            return False
        digits, operator = found.groups()
        if digits and (operator.startswith("&") or len(digits) > 3):
            raise Unclear("descriptor number")
        descriptor = int(digits) if digits else None
        self.at = found.end()
        if operator in {"<<", "<<-"}:
            self._heredoc_start(operator)
            parts.redirects.append(Redirect(operator, None, descriptor))
            return True
        self._skip()
        if self.at >= self.end or (self.text[self.at] in META and not self._process_ahead()):
            raise Unclear("redirect without a target")
        if self.text[self.at] == "#":
            raise Unclear("redirect without a target")
        closes = operator in {"<&", ">&"} and self.text[self.at] == "-"
        if closes and not ENDS_WORD.match(self.text, self.at + 1, self.end):
            # bash ends the redirect after the dash: `>&-rm x` closes a descriptor and runs rm.
            raise Unclear("word attached to a closed descriptor")
        word, _ = self._word()
        if operator in {"<&", ">&"}:
            parts.redirects.append(self._copy(operator, word, descriptor))
        else:
            # A here-string is input, not a file.
            parts.redirects.append(Redirect(operator, None if operator == "<<<" else word, descriptor))
        return True

    def _copy(self, operator: str, word: Word, descriptor: int | None) -> Redirect:
        if word.text is not None and re.fullmatch(r"[0-9]+-?|-", word.text, re.ASCII):
            if word.text.endswith("-"):
                self.beware("a closed descriptor")
            return Redirect(operator, None, descriptor)
        if operator == ">&" and descriptor is None:
            return Redirect(operator, word, None)
        raise Unclear("copy of a descriptor that is not a number")

    _compound: ClassVar = {
        "{": _group,
        "if": _if,
        "while": _while,
        "until": _while,
        "for": _for,
        "case": _case,
    }


Borders = tuple[frozenset[int], frozenset[Span]]
"""Where commands begin, and the arguments of those that are read word by word."""

NOT_SHOWN = frozenset({"[", "[[", "export", "declare", "typeset", "local", "readonly", "unset", "unsetenv"})
"""Commands whose words are not arguments in the tree; only their beginning is compared."""


_QUERY = """
(command name: (command_name) @start)
(command argument: (_) @argument)
(declaration_command) @start
(unset_command) @start
(test_command) @start
(file_redirect) @redirect
(heredoc_redirect argument: (_) @argument)
"""


def borders(text: str) -> Borders | None:
    """The boundaries by tree-sitter; None when it finds an error. ``text`` must be encodable."""
    from tree_sitter import Parser, QueryCursor

    language, query = _grammar()
    root = Parser(language).parse(text.encode()).root_node
    if root.has_error:
        return None
    seen = QueryCursor(query).captures(root)
    arguments = {(node.start_byte, node.end_byte) for node in seen.get("argument", ())}
    for redirect in seen.get("redirect", ()):
        # The grammar assigns every word after `>file` to the redirect; the shell gives them to the command.
        targets = redirect.children_by_field_name("destination")
        arguments.update((node.start_byte, node.end_byte) for node in targets[1:])
    return frozenset(node.start_byte for node in seen.get("start", ())), frozenset(arguments)


@cache
def _grammar() -> tuple[Language, Query]:
    import tree_sitter_bash
    from tree_sitter import Language, Query

    language = Language(tree_sitter_bash.language())
    return language, Query(language, _QUERY)
