"""Whether a command is read-only (R10): it changes no file, starts no program, reaches no host.

True only for a listed program with listed options (``harmless.py``, ``git.py``). An assignment before
it, a write, a glob that could become an option, or anything not listed makes it false. Wrappers are not
unwrapped: pass ``allow_view(command)``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.policy.analysis import Command, Redirect, Word
from recollect.policy.commands import git
from recollect.policy.commands.harmless import CAREFUL, FIND_TESTS, LOOKERS, OPERANDS, VERSION_ONLY
from recollect.policy.commands.options import options, take_apart

_SED = options("-n --quiet --silent -E -r -s -u -z", "-e --expression")
_SED_PRINTS = re.compile(r"\s*(?:[0-9]+|\$)(?:\s*,\s*(?:[0-9]+|\$|\+[0-9]+))?\s*p\s*", re.ASCII)
_NO_TARGETS = frozenset({"/dev/null"})
_NETWORK = re.compile(r"/+dev/+(?:tcp|udp)(?:/|$)")


def read_only(command: Command) -> bool:
    if not command.words or command.assignments or not all(map(_harmless_redirect, command.redirects)):
        return False
    name, rest = command.words[0].text, command.words[1:]
    if name is None or command.words[0].globs:
        return False
    if name in LOOKERS:
        return _only_looks(name, rest)
    if name == "[":
        return bool(rest) and rest[-1].text == "]"
    if name in CAREFUL:
        return _carefully(name, rest)
    if name in VERSION_ONLY:
        return [word.text for word in rest] == ["--version"]
    special = _SPECIAL.get(name)
    return special is not None and special(rest)


def _harmless_redirect(redirect: Redirect) -> bool:
    if redirect.target is None:
        return True
    text = redirect.target.text
    if text is None or redirect.target.globs or _NETWORK.match(text):
        return False
    return not redirect.writes or text in _NO_TARGETS


def _only_looks(name: str, rest: Sequence[Word]) -> bool:
    # echo, test and expr only print or compare their arguments.
    if name in {"echo", "test", "expr", ":", "true", "false"}:
        return True
    return take_apart(rest, LOOKERS[name], unknown_words=True) is not None


def _carefully(name: str, rest: Sequence[Word]) -> bool:
    if name == "printf":
        return bool(rest) and rest[0].text is not None and not rest[0].text.startswith("-")
    line = take_apart(rest, CAREFUL[name])
    if line is None or any(word.globs for word in line.operands if name in OPERANDS):
        return False
    if name in OPERANDS and len(line.operands) > OPERANDS[name]:
        return False
    if any(word.text is None for word in line.operands if name in OPERANDS):
        return False
    if name == "jq" and any("env" in (word.text or "env").lower() for word in line.operands[:1]):
        return False
    if name == "date":
        return all((word.text or "").startswith("+") for word in line.operands)
    return name != "command" or line.has("-v", "-V")


def _find(rest: Sequence[Word]) -> bool:
    position = 0
    while position < len(rest):
        word = rest[position]
        if word.text is None or (word.globs and word.text[:1] in "*?[-(!"):
            return False
        if word.text[:1] not in {"-", "!", "(", ")"}:
            position += 1
        elif word.text in FIND_TESTS:
            position += 1 + FIND_TESTS[word.text]
        else:
            return False
    return all(word.text is not None and not _risky_glob(word) for word in rest)


def _risky_glob(word: Word) -> bool:
    return word.globs and (word.text or "")[:1] in "*?["


def _sed(rest: Sequence[Word]) -> bool:
    """Only ``sed -n '5,10p' file``: sed's other commands write, run and read."""
    line = take_apart(rest, _SED)
    if line is None or not line.has("-n", "--quiet", "--silent"):
        return False
    scripts = line.values("-e", "--expression")
    operands = [word.text for word in line.operands]
    if not scripts:
        if not operands or operands[0] is None or line.operands[0].globs:
            return False
        scripts = [operands[0]]
    return all(_SED_PRINTS.fullmatch(part) for script in scripts for part in script.split(";"))


def _grep(rest: Sequence[Word]) -> bool:
    return _only_looks("grep", rest)


_SPECIAL = {"git": git.looks_only, "find": _find, "sed": _sed, "egrep": _grep, "fgrep": _grep}
