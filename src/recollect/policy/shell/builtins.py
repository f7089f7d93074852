"""Builtins and variables that can change the meaning of the rest of a text.

An external program cannot change how the shell reads the next line; a builtin or a special variable
can. Those that run a string, redefine a name, evaluate arithmetic (which expands ``a[$(…)]``) or change
word splitting make the whole text unanalysable, except in the harmless uses listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from recollect.policy.analysis import Command

_RUNS_TEXT = frozenset({"eval", "source", ".", "trap", "alias", "unalias", "coproc", "function", "fc"})
_REDEFINES = frozenset({"enable", "hash", "complete", "compgen", "compopt", "bind", "let", "shopt", "exec"})
_ZSH = frozenset(
    {
        *("noglob", "nocorrect", "repeat", "foreach", "end", "-", "zmodload", "autoload", "sched", "zle"),
        *(
            "emulate",
            "functions",
            "setopt",
            "unsetopt",
            "zcompile",
            "zformat",
            "zparseopts",
            "zstyle",
            "bindkey",
        ),
        *(
            "disable",
            "rehash",
            "unhash",
            "unfunction",
            "limit",
            "print",
            "vared",
            "integer",
            "float",
            "private",
        ),
        *("always", "add-zsh-hook", "aliases", "dirs", "r"),
    }
)
_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly", "unset"})
_ASSIGNS_BY_NAME = frozenset({"read", "mapfile", "readarray", "getopts", "wait"})
_SET_HARMLESS = re.compile(r"[-+](?:[euxvfC]+|[eux]*o)")
_SET_OPTIONS = frozenset({"pipefail", "errexit", "nounset", "xtrace", "noclobber"})
_BEHIND_OPERAND = frozenset(
    {
        "]",
        "=",
        "==",
        "!=",
        "<",
        ">",
        "-eq",
        "-ne",
        "-lt",
        "-le",
        "-gt",
        "-ge",
        "-nt",
        "-ot",
        "-ef",
        "-a",
        "-o",
    }
)
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


def doubts(command: Command) -> list[str]:
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
    if name == "set":
        return None if _harmless_set(command) else "set changes how the text is read"
    texts = [word.text for word in arguments]
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
    for position, word in enumerate(words):
        following = words[position + 1].text if position + 1 < len(words) else "]"
        unquoted = word.text is None and not word.raw.startswith('"')
        if word.text in {"-v", "-R"} or unquoted or (word.text is None and following not in _BEHIND_OPERAND):
            return "test that may evaluate a name"
    return None


def _harmless_declaration(raw: str) -> bool:
    name = _PLAIN_NAME.match(raw)
    if name is None or _SPECIAL_NAME.fullmatch(name.group()):
        return False
    return raw[name.end() : name.end() + 1] in {"", "="}


def _harmless_set(command: Command) -> bool:
    texts = [word.text for word in command.words[1:]]
    return bool(texts) and all(
        text is not None and (_SET_HARMLESS.fullmatch(text) or text in _SET_OPTIONS) for text in texts
    )


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
