"""What is known about programs and builtins (``programs.json``): which only look, which run a text that they are given,
which change the meaning of the rest of a text.

``read_only`` (R10) is true only for a listed program with listed options: every row is one that client 2.1.325 runs
without asking. A program in ``lookers`` has no option that writes or reaches the network, so unquoted globs and unknown
words cannot make it dangerous; for one in ``tables`` such a word could become one of the options left out on purpose.
Wrappers are not unwrapped: pass ``looking_view(command)``.

``texts_run_by`` (B15) over-approximates and serves denies: each word of such a program, and each value attached to an
option, may be a command. For git only the options that name a program count, because its operands are often names.

An external program cannot change how the shell reads the next line; a builtin or a special variable can. Those make
the whole text unanalysable, except in the harmless uses listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from recollect.guard.policy.command_lines import (
    CommandLine,
    in_order,
    lines,
    listed,
    lists,
    options_by_program,
    table,
    take_apart,
)
from recollect.guard.policy.terms import Command, Word, names

_FORMATS = ("--format", "--pretty")
_FORMAT = re.compile(r"[A-Za-z%].*", re.DOTALL)

_ANY_OPERANDS = options_by_program("git_any_operands")

_LISTING = options_by_program("git_listing")
_LIST_WORDS = in_order("git_list_words")
_NO_OPERANDS = options_by_program("git_no_operands")


def looks_only(words: Sequence[Word]) -> bool:
    """Whether the words after ``git`` are a read-only sub-command that starts no other program."""
    texts = [word.text for word in words]
    if not texts or any(word.globs for word in words):
        return False
    two = f"{texts[0]} {texts[1]}" if len(texts) > 1 else ""
    if texts[0] == "config":
        line = take_apart(words[1:], table("", "--get --default"))
        return line is not None and line.has("--get") and not line.operands
    for name, rest in ((two, words[2:]), (texts[0] or "", words[1:])):
        if name in _ANY_OPERANDS:
            return _formats_known(take_apart(rest, _ANY_OPERANDS[name]))
        if name in _LISTING:
            line = take_apart(rest, _LISTING[name])
            return _formats_known(line) and line is not None and (not line.operands or line.has(*_LIST_WORDS))
        if name in _NO_OPERANDS:
            line = take_apart(rest, _NO_OPERANDS[name])
            return line is not None and not line.operands
    return False


def _formats_known(line: CommandLine | None) -> bool:
    return line is not None and all(_FORMAT.fullmatch(value) for value in line.values(*_FORMATS))


FREE = listed("free")
"""They print or compare their words, whatever these are."""

LOOKERS = options_by_program("lookers")

ALONE = listed("alone")
"""Read-only without any word behind them."""
EXACT = lines("exact")
"""Whole command lines."""

TABLES = options_by_program("tables")

GLOBS_PASS = listed("globs_pass")
"""The programs to which the client lets the shell hand the names that a pattern stands for."""

OPERANDS: dict[str, int] = {"hostname": 0, "uniq": 0}
"""The most operands these take before one of them is written to or set."""

FIND_CHANGES = in_order("find_changes")
"""Beginnings of the words that make find run, write or remove."""


_SED = table("-n --quiet --silent -E -r -z")
_SED_PRINTS = re.compile(r"[0-9]+(?:,[0-9]+)?p(?:;[0-9]+(?:,[0-9]+)?p)*", re.ASCII)
_SED_REPLACES = re.compile(r"s/[^/\\$`!;\n]+/[^/\\$`!;&\n]*/g?")
_JQ_REACHES = re.compile(r"env|include|import|system|input_line|modulemeta", re.IGNORECASE)


def read_only(command: Command) -> bool:
    """Whether the words of a command only look; what it is redirected to and what it assigns is judged elsewhere."""
    name, rest = command.words[0].text, command.words[1:]
    if name is None or (name not in GLOBS_PASS and any(word.globs for word in command.words)):
        return False
    if name in FREE:
        return name != "test" or not any(word.text in ("-a", "-o", "-v", "-R") for word in rest)
    if name in LOOKERS:
        return take_apart(rest, LOOKERS[name], unknown_words=True) is not None
    if name in ("[", "[["):
        return bool(rest) and rest[-1].text == "]" * len(name) and all(word.text is not None for word in rest)
    if name in ALONE:
        return not rest
    if command.argv in EXACT:
        return True
    if name in ("grep", "egrep", "fgrep"):
        # No option of grep writes or runs, so a word that becomes one does no harm.
        return take_apart(rest, TABLES["grep"], unknown_words=True) is not None
    if name == "find":
        return not any(word.globs or (word.text or "-exec").startswith(FIND_CHANGES) for word in rest)
    special = {"git": looks_only, "sed": _replaces_or_prints}.get(name)
    return special(rest) if special else name in TABLES and _listed(name, rest)


def _listed(name: str, rest: Sequence[Word]) -> bool:
    line = take_apart(rest, TABLES[name])
    if line is None or any(word.globs or word.text is None for word in line.operands):
        return False
    texts = [word.text or "" for word in line.operands]
    if name == "jq":
        return bool(texts) and not _JQ_REACHES.search(texts[0])
    if name == "date":
        return all(text.startswith("+") for text in texts)
    if name == "ps":
        return all(text.isalpha() and "e" not in text.lower() for text in texts)
    return len(texts) <= OPERANDS.get(name, len(texts))


def prints_lines(rest: Sequence[Word]) -> bool:
    """Whether the words after ``sed`` only print lines by their numbers: other commands write, run and read."""
    line = take_apart(rest, _SED)
    if line is None or not line.operands or not line.has("-n", "--quiet", "--silent"):
        return False
    return _SED_PRINTS.fullmatch(line.operands[0].text or "") is not None


def _replaces_or_prints(rest: Sequence[Word]) -> bool:
    line = take_apart(rest, table("-E"))
    if prints_lines(rest) or line is None or len(line.operands) != 1:
        return prints_lines(rest)
    return _SED_REPLACES.fullmatch(line.operands[0].text or "") is not None


_NAMES = listed("harmless_variables")
_LOCALES = frozenset({"C", "C.UTF-8", "POSIX", "en_US.UTF-8"})
_PLAIN = re.compile(r"[A-Za-z0-9_./:-]+", re.ASCII)


def harmless_environment(assignments: Iterable[tuple[str, Word]]) -> bool:
    return all(
        name in _NAMES
        and _PLAIN.fullmatch(word.raw)
        and (word.raw in _LOCALES or not (name == "LANG" or name.startswith("LC_")))
        for name, word in assignments
    )


_EVERY_WORD = listed("every_word")
_SCRIPTS = names("sed gsed awk gawk mawk nawk")
_RUNNERS = names("npm pnpm yarn bun")
_RUNNER_VERBS = frozenset({"exec", "x", "dlx", "explore"})
_EXECUTES = lists("executes")
"""The options whose value is a program or a command."""
_GIT_RUNS = frozenset({("bisect", "run"), ("submodule", "foreach")})
_SAID = frozenset({"-m", "--message", "-F", "--author", "--grep", "--date", "-S", "-G"})
"""Options of git whose value is only text."""
_EXECUTED_NAME = re.compile(
    r"GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|LESS(?:OPEN|CLOSE)|BROWSER|SHELL|\w*_COMMAND|\w*ASKPASS|\w+_RSH|RSYNC_\w+"
    r"|TAR_OPTIONS|MAKEFLAGS|GNUMAKEFLAGS|BASH_ENV|ENV|PERL5OPT|NODE_OPTIONS|PYTHON(?:STARTUP|INSPECT)|RUBYOPT"
)
_SED_RUNS = re.compile(
    r"(?:^|[;{}\n!0-9$,/ ])e(?![a-zA-Z])|(?:^|[;{}\n!0-9$,/ ])e[a-z./]|[/,|#@:;][gpiIm0-9]*e"
)
_AWK_RUNS = re.compile(r"system|\||getline")
_INPUTS = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_PIECES = re.compile(r"[/,|;{}\n\"]")


def texts_run_by(command: Command, name: str) -> Iterator[str]:
    """Texts that the program, or one that the environment names, may run."""
    words = [word.seen for word in command.words[1:]]
    yield from _of_environment(command, words)
    if name in _EVERY_WORD or (name in _RUNNERS and _RUNNER_VERBS.intersection(words)):
        yield from (text for word in words for text in _values(word))
    elif name == "git":
        yield from _of_git(words)
    elif name in _SCRIPTS:
        runs = _SED_RUNS if name.endswith("sed") else _AWK_RUNS
        for word in (re.sub(r"^(?:-[a-zA-Z]*e|--e\w*=)", "", word) for word in words):
            if runs.search(word):
                pieces = (re.sub(r"^[\s0-9!$]*e\s*", "", piece) for piece in _PIECES.split(word))
                yield from (
                    *pieces,
                    *_PIECES.split(word),
                    re.sub(r"^.*?e ?", "", word, count=1, flags=re.DOTALL),
                )
    elif name in _EXECUTES:
        yield from _behind_options(words, _EXECUTES[name])


def _values(word: str) -> Iterator[str]:
    """The word, and what stands behind each ``=``, the letter of an option, a blank, or a function's name."""
    yield word
    rest = word
    while "=" in rest:
        rest = rest.partition("=")[2]
        yield rest
    if word.startswith("-") and not word.startswith("--"):
        yield word[2:]
    if " " in word:
        yield from word.split(None, 1)[-1:]
    yield from re.findall(r"\$[({](?:shell\s+)?(.*?)[)}]", word, re.DOTALL)
    if "\n" in word:
        yield from (line.strip("\t @-+") for line in word.splitlines())


def _of_git(words: Sequence[str]) -> Iterator[str]:
    yield from _behind_options(words, _EXECUTES["git"])
    for position, (before, word) in enumerate(pairwise(("", *words))):
        if word.startswith("!") and before not in _SAID:
            yield word[1:]
        if "ext::" in word:
            yield word.partition("ext::")[2]
        if (before, word) in _GIT_RUNS:
            yield from (" ".join(words[position + 1 :]), *words[position + 1 :])


def _behind_options(words: Sequence[str], known: tuple[str, ...]) -> Iterator[str]:
    for before, word in pairwise(("", *words)):
        if _is_one_of(before, known) and "=" not in before:
            yield from (value.lstrip("!") for value in _values(word))
        if _is_one_of(word, known):
            yield from (value.lstrip("!") for value in _values(word))


def _is_one_of(word: str, known: tuple[str, ...]) -> bool:
    """Whether the word is one of the options, abbreviated or with its value attached."""
    name = word.partition("=")[0]
    if word.startswith("--"):
        return len(name) > 3 and any(option.startswith(name) for option in known)
    return any(word.startswith(option) for option in known if not option.startswith("--"))


def _of_environment(command: Command, words: Sequence[str]) -> Iterator[str]:
    """Values of variables that programs run: before the command, or in the words of ``env`` and ``export``."""
    for name, value in command.assignments:
        if _EXECUTED_NAME.fullmatch(name) or value.seen.startswith("!"):
            yield from (text.lstrip("!") for text in _values(value.seen))
    if command.words and command.words[0].text in ("env", "export", "declare", "typeset", "sudo"):
        for word in words:
            name, equals, text = word.partition("=")
            if equals and _EXECUTED_NAME.fullmatch(name):
                yield from (text.lstrip("!") for text in _values(text))


def reads_its_program(command: Command, name: str) -> bool:
    """Whether the file that ``make -f``, ``awk -f`` or ``sed -f`` reads its rules from is the command's input."""
    if name not in _SCRIPTS and name not in ("make", "gmake"):
        return False
    texts = [word.text or "" for word in command.words[1:]]
    return any(
        text.startswith(("-f", "--file", "--makefile")) and (value or after) in _INPUTS
        for text, after in pairwise((*texts, ""))
        for value in (text.partition("=")[2] or (text[2:] if not text.startswith("--") else ""),)
    )


def runs_unknown_text(command: Command, name: str) -> bool:
    """Whether a text that the program would run is known only to the shell."""
    if any(value.text is None and _EXECUTED_NAME.fullmatch(key) for key, value in command.assignments):
        return True
    known = _EXECUTES.get(name, ())
    unknown = [word for word in command.words[1:] if word.text is None]
    if not unknown:
        return False
    if name in _SCRIPTS or name in ("tmux", "screen", "npx") or (name == "ssh" and len(command.words) > 2):
        first = next((word for word in command.words[1:] if not (word.text or "").startswith("-")), None)
        return name not in _SCRIPTS or (first is not None and first.text is None)
    return any(
        after.text is None and (_is_one_of(_plain(after), known) or _is_one_of(_plain(before), known))
        for before, after in pairwise(command.words)
    )


def _plain(word: Word) -> str:
    return word.raw.strip("\"'") if word.text is None else word.text


_RUNS_TEXT = frozenset({"eval", "source", ".", "trap", "alias", "unalias", "coproc", "function", "fc"})
_REDEFINES = frozenset({"enable", "hash", "complete", "compgen", "compopt", "bind", "let", "shopt", "exec"})
_ZSH = listed("zsh")
_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly", "unset"})
_ASSIGNS_BY_NAME = frozenset({"read", "mapfile", "readarray", "getopts", "wait"})
_SET_HARMLESS = re.compile(r"[-+](?:[euxvfC]+|[eux]*o)")
_SET_OPTIONS = frozenset({"pipefail", "errexit", "nounset", "xtrace", "noclobber"})
_BEHIND_OPERAND = listed("behind_operand")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SPECIAL_NAME = re.compile(
    r"IFS|PATH|CDPATH|ENV|PS[0-4]|PROMPT\w*|SHELLOPTS|HOME|PWD|OLDPWD|TMPDIR|SHELL|EXECIGNORE|GLOBIGNORE|FIGNORE"
    r"|POSIXLY_CORRECT|FUNCNEST|INPUTRC|HIST\w*|BASH\w*|DYLD_\w*|LD_\w*|_|REPLY|path|fpath|cdpath|argv"
    r"|NULLCMD|READNULLCMD|ZDOTDIR|precmd\w*|preexec\w*|chpwd\w*|TRAP\w*|SECONDS|RANDOM|LINENO|OPT\w*"
    r"|MAILPATH|MAIL|MAILCHECK|EXECUTE|COMP\w*|READLINE\w*|TIMEFORMAT|status|signals|options|aliases|functions",
    re.ASCII,
)


def doubtful_names(names: Iterable[str]) -> list[str]:
    """Why these variables may not be assigned: the shell or the loader acts on them."""
    return [f"assignment to {name}" for name in names if _SPECIAL_NAME.fullmatch(name)]


def builtin_doubts(command: Command) -> list[str]:
    """Why the text around this command may have another meaning than it seems."""
    found = doubtful_names(name for name, _ in command.assignments)
    if not command.words:
        return found
    first = command.words[0]
    if first.text is None:
        found.append("variable or substitution in command position")
        return found
    if first.globs:
        found.append("glob in command position")
    if first.text.startswith("%") or first.text == "":
        found.append("job or empty name in command position")
    if first.raw.startswith("~"):
        found.append("tilde in command position")
    inner = _behind(command)
    reason = _of_builtin(inner.words[0].text or "", inner)
    return [*found, reason] if reason else found


def _behind(command: Command) -> Command:
    """The command behind ``command`` and ``builtin``, which only choose where it is looked up."""
    words = command.words
    while len(words) > 1 and words[0].text in {"command", "builtin"}:
        words = words[2:] if words[1].text == "-p" and len(words) > 2 else words[1:]
    return replace(command, words=words)


def _of_builtin(name: str, command: Command) -> str | None:
    if name in _RUNS_TEXT or name in _REDEFINES:
        return f"{name} changes what the text means"
    if name in _ZSH:
        return f"{name} means something to zsh"
    arguments = command.words[1:]
    if name in _DECLARES:
        harmless = all(_harmless_declaration(word.raw) for word in arguments)
        return None if harmless else f"{name} with options, subscripts or special names"
    texts = [word.text for word in arguments]
    if name == "set":
        harmless = all(text and (_SET_HARMLESS.fullmatch(text) or text in _SET_OPTIONS) for text in texts)
        return None if harmless and texts else "set changes how the text is read"
    if name in _ASSIGNS_BY_NAME:
        return None if _harmless_names(name, texts) else f"{name} with subscripts or special names"
    if (
        name == "printf"
        and (not texts or texts[0] is None or texts[0].startswith("-"))
        and texts[:1] != ["--"]
    ):
        return "printf that may assign"
    if name in {"test", "["} and any(text is None or text in {"-v", "-R"} for text in texts[:-1]):
        return _of_test(command)
    return None


def _of_test(command: Command) -> str | None:
    """``-v 'a[$(…)]'`` evaluates its operand, and an unknown word could be that ``-v``."""
    words = command.words[1:]
    for word, after in pairwise((*words, Word("]", "]"))):
        following = after.text
        unquoted = word.text is None and not word.raw.startswith('"')
        if word.text in {"-v", "-R"} or unquoted or (word.text is None and following not in _BEHIND_OPERAND):
            return "test that may evaluate a name"
    return None


def _harmless_declaration(raw: str) -> bool:
    name = _PLAIN_NAME.match(raw)
    if name is None or _SPECIAL_NAME.fullmatch(name.group()):
        return False
    return raw[name.end() : name.end() + 1] in {"", "="}


def _harmless_names(name: str, texts: list[str | None]) -> bool:
    if name == "wait":
        return all(text is not None and not text.startswith("-") for text in texts) or not texts
    if name != "read":
        return False
    return all(
        text is not None
        and (
            text in {"-r", "-s", "-e"} or (_PLAIN_NAME.fullmatch(text) and not _SPECIAL_NAME.fullmatch(text))
        )
        for text in texts
    )
