"""Whether a command is read-only (R10): it changes no file, starts no program, reaches no host.

True only for a listed program with listed options (``harmless.py``, ``git.py``). An assignment before
it, a write, a glob that could become an option, or anything not listed makes it false. Wrappers are not
unwrapped: pass ``looking_view(command)``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.policy.analysis import Command, Redirect, Word
from recollect.policy.commands import git
from recollect.policy.commands.harmless import (
    ALONE,
    EXACT,
    FIND_CHANGES,
    FREE,
    GLOBS_PASS,
    LOOKERS,
    OPERANDS,
    TABLES,
)
from recollect.policy.commands.options import table, take_apart

_SED = table("-n --quiet --silent -E -r -z")
_SED_PRINTS = re.compile(r"[0-9]+(?:,[0-9]+)?p(?:;[0-9]+(?:,[0-9]+)?p)*", re.ASCII)
_SED_REPLACES = re.compile(r"s/[^/\\$`!;\n]+/[^/\\$`!;&\n]*/g?")
_JQ_REACHES = re.compile(r"env|include|import|system|input_line|modulemeta", re.IGNORECASE)
_NO_TARGETS = frozenset({"/dev/null"})
_NETWORK = re.compile(r"/+dev/+(?:tcp|udp)(?:/|$)")


def read_only(command: Command) -> bool:
    if not command.words or command.assignments or not all(map(_harmless_redirect, command.redirects)):
        return False
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
    special = _SPECIAL.get(name)
    if special is not None:
        return special(rest)
    return name in TABLES and _listed(name, rest)


def _harmless_redirect(redirect: Redirect) -> bool:
    if redirect.target is None:
        return True
    text = redirect.target.text
    if text is None or redirect.target.globs or _NETWORK.match(text):
        return False
    return not redirect.writes or text in _NO_TARGETS


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


def _grep(rest: Sequence[Word]) -> bool:
    """No option of grep writes or runs, so a word that becomes one does no harm."""
    return take_apart(rest, TABLES["grep"], unknown_words=True) is not None


def _find(rest: Sequence[Word]) -> bool:
    return not any(word.globs or (word.text or "-exec").startswith(FIND_CHANGES) for word in rest)


def prints_lines(rest: Sequence[Word]) -> bool:
    """Whether the words after ``sed`` only print lines by their numbers: other commands write, run and read."""
    line = take_apart(rest, _SED)
    if line is None or not line.operands or not line.has("-n", "--quiet", "--silent"):
        return False
    return _SED_PRINTS.fullmatch(line.operands[0].text or "") is not None


def _sed(rest: Sequence[Word]) -> bool:
    line = take_apart(rest, table("-E"))
    replaces = line is not None and len(line.operands) == 1
    return prints_lines(rest) or (
        replaces and line is not None and _SED_REPLACES.fullmatch(line.operands[0].text or "") is not None
    )


_SPECIAL = {"git": git.looks_only, "find": _find, "sed": _sed, "grep": _grep, "egrep": _grep, "fgrep": _grep}
