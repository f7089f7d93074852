"""Reads the words of a shell text: quotes, expansions, substitutions, heredocs.

A reader only moves forward over one immutable text. Inside backquotes and heredoc bodies ``end`` is moved in, so
nothing is read twice or copied. What is not understood raises ``Unclear``; what has an unknown value is a doubt.
"""

from __future__ import annotations

import re
from typing import ClassVar

from recollect.guard.policy.shell_quoting import WordBuilder, ansi_value
from recollect.guard.policy.terms import Word

DEEPEST = 30
"""Nesting levels that are read. Each costs about eight Python frames; deeper texts are refused."""


class Unclear(Exception):
    """The text's structure is not understood; the message is the reason."""


_BLANKS = re.compile(r"[ \t]+")
_COMMENT = re.compile(r"#[^\n]*")
_RESERVED = re.compile(
    r"(if|then|elif|else|fi|while|until|for|do|done|case|esac|select|function|coproc|in|\{|\}|!|\[\[)"
    r"(?=[ \t\n;&|()<>]|\Z)"
)
ENDS_WORD = re.compile(r"[ \t\n;&|()<>]|\Z")
META = frozenset(" \t\n;&|()<>")
"""Characters that end an unquoted word."""
_PLAIN = re.compile(r"[^ \t\n;&|()<>\\'\"$`]+")
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BRACED = re.compile(r"\$\{(#?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])\}", re.ASCII)
_SPECIAL = re.compile(r"\$([0-9@*#?$!_-])")
_CONSTANT = re.compile(r"\$\(\s*cat\s+<<(-?)\s*(['\"])(\w+)\2[ \t]*\n.*?\n\t*\3[ \t]*\n\s*\)", re.DOTALL)
"""``$(cat <<'EOF' … EOF)``: its value is a constant text."""
_COMMENT_LINE = re.compile(r"\n[ \t]*#")
_ARITHMETIC = re.compile(r"\$\(\(([0-9 \t+*/%<>=!&|^~?:,-]*)\)\)")
_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_IN_HEREDOC = re.compile(r"[^\\$`]+")
_DELIMITER = re.compile(r"([A-Za-z0-9_.:-]+)|'([A-Za-z0-9_.: -]+)'|\"([A-Za-z0-9_.: -]+)\"|\\([A-Za-z0-9_]+)")


class WordReader:
    """Reads the words of one text once; subclasses define a list of commands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.depth = 0
        self.nested = False
        self.piped = False
        self.doubts: list[str] = []
        self.wary: dict[str, None] = {}
        """What the client asks about although its meaning is clear."""
        self.heredocs: list[tuple[str, bool, bool]] = []
        """Those whose bodies begin after the next newline: delimiter, literal, without leading tabs."""
        self.assigned_names: list[str] = []
        """Variables that loops assign; commands carry their own."""
        self.values: dict[str, list[str]] = {"HOME": ["~"]}
        """Possible values of each variable, from the assignments of known values read so far."""

    def doubt(self, reason: str) -> None:
        """Record that the structure is clear but the meaning is not."""
        if reason not in self.doubts:
            self.doubts.append(reason)

    def beware(self, construct: str) -> None:
        """Record a construct that only a rule for the whole tool covers."""
        self.wary[construct] = None

    def _skip(self) -> None:
        """Skip blanks, continued lines and a comment, but no newline."""
        while self.at < self.end:
            blanks = _BLANKS.match(self.text, self.at, self.end)
            if blanks:
                self.at = blanks.end()
            # bash removes backslash-newline before it looks at anything, so `&\\<newline>&` is one operator.
            elif self.text.startswith("\\\n", self.at) and (
                self.at == 0 or self.text[self.at - 1] in " \t\n"
            ):
                self.at += 2
            elif self.text[self.at] == "#" and (self.at == 0 or self.text[self.at - 1] in " \t\n;&|()"):
                comment = _COMMENT.match(self.text, self.at, self.end)
                self.at = comment.end() if comment else self.at
            else:
                return

    def _reserved(self) -> str | None:
        found = _RESERVED.match(self.text, self.at, self.end)
        return found.group(1) if found else None

    def _keyword(self, word: str) -> None:
        if self._reserved() != word:
            raise Unclear(f"{word} missing")
        self.at += len(word)

    def _expect(self, letter: str) -> None:
        if self.at >= self.end or self.text[self.at] != letter:
            raise Unclear(f"{letter} missing")
        self.at += 1

    def _list(self) -> None:
        raise NotImplementedError

    def _word(self) -> tuple[Word, tuple[int, int]]:
        start = self.at
        word = WordBuilder(start)
        while self.at < self.end:
            run = _PLAIN.match(self.text, self.at, self.end)
            if run:
                word.plain(run.group())
                self.at = run.end()
                continue
            letter = self.text[self.at]
            if letter in META:
                if self._process_ahead():
                    self._process(word)
                    continue
                break
            self._pieces[letter](self, word)
        self._check(word)
        if self.text.startswith("(", self.at):
            raise Unclear("parenthesis after a word: function, array or zsh pattern")
        raw = self.text[start : self.at]
        if self.heredocs and "\n" in raw:
            raise Unclear("newline inside a word after a heredoc operator")
        if raw.startswith("{") and raw.endswith("}") and self.text[self.at : self.at + 1] in {"<", ">"}:
            raise Unclear("redirect that names a variable")
        return word.word(raw), (start, self.at)

    def _check(self, word: WordBuilder) -> None:
        """What stands out in a word just read."""
        if word.empty:
            raise Unclear("word missing")
        if _COMMENT_LINE.search(self.text, word.start, self.at):
            self.beware("a quoted line that looks like a comment")
        for reason in word.doubts():
            self.doubt(reason)

    def _process_ahead(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    def _process(self, word: WordBuilder) -> None:
        if not word.empty:
            raise Unclear("process substitution in the middle of a word")
        self.at += 1
        self._substituted()
        word.unknown()
        if not ENDS_WORD.match(self.text, self.at, self.end):
            raise Unclear("process substitution in the middle of a word")

    def _escape(self, word: WordBuilder) -> None:
        following = self.text[self.at + 1 : min(self.at + 2, self.end)]
        if not following:
            raise Unclear("backslash at the end")
        if following in " \t\n":
            self.beware("an escaped blank")
        if following == "\n":
            self.doubt("line continued inside a word")
            word.plain("")
        else:
            word.quoted(following)
        self.at += 2

    def _single(self, word: WordBuilder) -> None:
        close = self.text.find("'", self.at + 1, self.end)
        if close < 0:
            raise Unclear("quote without its end")
        word.quoted(self.text[self.at + 1 : close])
        self.at = close + 1

    def _double(self, word: WordBuilder) -> None:
        self.at += 1
        word.quoted("")
        while True:
            run = _IN_QUOTES.match(self.text, self.at, self.end)
            if run:
                if "!!" in run.group() or "!$" in run.group():
                    self.doubt("history expansion")
                word.quoted(run.group())
                self.at = run.end()
            if self.at >= self.end:
                raise Unclear("quote without its end")
            letter = self.text[self.at]
            if letter == '"':
                self.at += 1
                return
            if letter == "\\":
                following = self.text[self.at + 1 : min(self.at + 2, self.end)]
                if following and following in '$`"\\':
                    word.quoted(following)
                elif following != "\n":
                    word.quoted("\\" + following)
                self.at += 1 + len(following)
            elif letter == "$":
                self._dollar(word, quoted=True)
            else:
                self._backquotes(word, quoted=True)

    def _dollar(self, word: WordBuilder, *, quoted: bool = False) -> None:
        following = self.text[self.at + 1 : min(self.at + 2, self.end)]
        if following == "(" and quoted and _CONSTANT.match(self.text, self.at, self.end):
            known = dict(self.wary)
            self._substitution(word)
            self.wary = known
        elif following == "(":
            self._substitution(word)
        elif following == "{":
            self._braced(word)
        elif following == "'" and not quoted:
            self._ansi(word)
        elif following in {'"', "["} and not quoted:
            raise Unclear("locale string or old arithmetic")
        elif found := NAME.match(self.text, self.at + 1, self.end):
            self._variable(word, found.group(), found.end())
        elif found := _SPECIAL.match(self.text, self.at, self.end):
            self._variable(word, found.group(1), found.end())
        elif following in {"", " ", "\t", "\n", '"', "'", "/", ".", ",", ")", "|"}:
            (word.quoted if quoted else word.plain)("$")
            self.at += 1
        else:
            raise Unclear("expansion that shells read differently")

    def _variable(self, word: WordBuilder, name: str, end: int) -> None:
        if name == "IFS":
            self.doubt("IFS")
        if self.text.startswith("[", end):
            # bash expands the name and keeps the bracket; zsh evaluates a subscript.
            self.doubt("zsh subscript")
        if name != "HOME":
            self.beware("a variable")
        word.unknown(*self.values.get(name, ()))
        self.at = end

    def _braced(self, word: WordBuilder) -> None:
        self.beware("a variable in braces")
        found = _BRACED.match(self.text, self.at, self.end)
        if found is None:
            raise Unclear("parameter expansion")
        if found.group(1):
            word.unknown()
            self.at = found.end()
        else:
            self._variable(word, found.group(2), found.end())

    def _ansi(self, word: WordBuilder) -> None:
        self.beware("a string with escape codes")
        close = self.at + 2
        while close < self.end and self.text[close] != "'":
            close += 2 if self.text[close] == "\\" else 1
        if close >= self.end:
            raise Unclear("quote without its end")
        value = ansi_value(self.text[self.at + 2 : close])
        if value is None:
            self.doubt("bytes in an ANSI string")
            word.unknown()
        else:
            word.quoted(value)
        self.at = close + 1

    def _substitution(self, word: WordBuilder) -> None:
        if self.text.startswith("$((", self.at):
            found = _ARITHMETIC.match(self.text, self.at, self.end)
            if found is None:
                raise Unclear("arithmetic")
            self.at = found.end()
        else:
            self.at += 1
            self._substituted()
        word.unknown()

    def _substituted(self) -> None:
        """Read ``( list )`` of a substitution; ``at`` is on its parenthesis."""
        self._inner_list()
        self._expect(")")

    def _inner_list(self) -> None:
        """Read the list behind the letter at ``at``, in which heredocs begin and end."""
        self.beware("a command inside a word")
        outer = self.nested, self.piped, self.heredocs
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unclear("nested too deeply")
        self.at += 1
        self.nested, self.piped, self.heredocs = True, False, []
        self._list()
        if self.heredocs:
            raise Unclear("heredoc without a body")
        self.depth -= 1
        self.nested, self.piped, self.heredocs = outer

    def _backquotes(self, word: WordBuilder, *, quoted: bool = False) -> None:
        close = self.text.find("`", self.at + 1, self.end)
        body = self.text[self.at + 1 : close]
        if close < 0 or "\\" in body or (quoted and '"' in body) or "<<" in body or "#" in body:
            raise Unclear("backquotes")
        end, self.end = self.end, close
        self._inner_list()
        if self.at != close:
            raise Unclear("backquotes")
        self.at, self.end = close + 1, end
        word.unknown()

    # -- heredocs ------------------------------------------------------------------------------

    def _gap(self) -> None:
        """Skip blanks, comments and newlines, and read the heredocs that begin after a newline."""
        while True:
            self._skip()
            if self.at < self.end and self.text[self.at] == "\n":
                self.at += 1
                if self.heredocs:
                    self._bodies()
            else:
                return

    def _heredoc_start(self, operator: str) -> None:
        self._skip()
        found = _DELIMITER.match(self.text, self.at, self.end)
        if found is None or not ENDS_WORD.match(self.text, found.end(), self.end):
            raise Unclear("heredoc delimiter")
        self.at = found.end()
        delimiter = next(group for group in found.groups() if group)
        self.heredocs.append((delimiter, found.group(1) is None, operator == "<<-"))
        if found.group(1) is not None:
            self.beware("a heredoc that the shell expands")

    def _bodies(self) -> None:
        """Read the heredocs whose operators were in the line just ended; ``at`` is after its newline."""
        waiting, self.heredocs = self.heredocs, []
        for delimiter, literal, strip_tabs in waiting:
            start = self.at
            while True:
                if self.at >= self.end:
                    raise Unclear("heredoc without its last line")
                stop = self.text.find("\n", self.at, self.end)
                stop = self.end if stop < 0 else stop
                line = self.text[self.at : stop]
                if strip_tabs:
                    line = line.lstrip("\t")
                if line == delimiter:
                    break
                if not literal and line.endswith("\\"):
                    raise Unclear("line continued inside a heredoc")
                self.at = min(stop + 1, self.end)
            if not literal:
                self._expansions(start, self.at)
            self.at = min(stop + 1, self.end)

    def _expansions(self, start: int, stop: int) -> None:
        """Read the commands inside the body of a heredoc that the shell expands."""
        after, end = self.at, self.end
        self.at, self.end = start, stop
        body = WordBuilder(start)
        while self.at < self.end:
            run = _IN_HEREDOC.match(self.text, self.at, self.end)
            if run:
                self.at = run.end()
            elif self.text[self.at] == "\\":
                self.at += 2
            elif self.text[self.at] == "$":
                self._dollar(body, quoted=True)
            else:
                self._backquotes(body, quoted=True)
        if self.at != stop:
            raise Unclear("expansion across the end of a heredoc")
        self.at, self.end = after, end

    _pieces: ClassVar = {
        "\\": _escape,
        "'": _single,
        '"': _double,
        "$": _dollar,
        "`": _backquotes,
    }
