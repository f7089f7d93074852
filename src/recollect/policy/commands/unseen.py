"""What a deny rule cannot see in a command: names made at run time, and words behind a program that is not known (B14).

Asked only where something broad allows the command and some commands are denied. Text that is decoded or assembled at
run time, or read from a script, is the sandbox's to hold; the answers say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from recollect.policy.analysis import Analysis, Command
from recollect.policy.commands.executing import runs_unknown_text
from recollect.policy.commands.options import names
from recollect.policy.rules.any_program import INTERPRETERS
from recollect.policy.rules.command_pattern import CommandPattern
from recollect.policy.shell.scraps import plain

SANDBOX = "what is decoded or assembled at run time only the sandbox can hold"
_KNOWN_TEXT = re.compile(
    r"(?:set|shopt|trap|exec|let|enable|complete|bind|source|\.) changes |assignment to |printf that|test that"
    r"|(?:export|declare|typeset|local|readonly|unset|read|mapfile|readarray|getopts|wait) with "
)
"""Doubts that leave every command name readable."""
_STRUCTURE = re.compile(
    r"parenthesis after|two parsers|time before|word after|quote without|redirect|\S+ missing|unexpected"
)
_MAKES_NAMES = re.compile(
    r"\$(?!HOME\b)|[`*?\[\\]|\{[^\s{}]*(?:,|\.\.)|(?:^|[\s;|&(])(?:\.|eval|source|alias|hash|trap|exec|enable|xargs|parallel|\S*sh|fish|su"
    r"|sudo|busybox)(?=[\s;|&)]|$)"
)
"""Without any of these in it, a text names every command in plain letters."""
_DESCRIPTOR = re.compile(r"/dev/(?:stdin|fd/)|/proc/")
_DATA = names(
    "echo printf grep egrep fgrep rg ag ack git gh glab npm pnpm yarn bun pip pip3 cargo go brew apt apt-get docker podman"
    " kubectl helm aws gcloud az terraform test [ [[ cat head tail less ls cp mv ln mkdir touch chmod chown export declare"
    " local read cd sed awk jq find xargs which type command man tee sort wc diff curl wget rm rmdir tar zip unzip"
)
"""Programs whose words are data, sub-commands of their own, or were compared with the denies already."""
_WORDS = re.compile(r"[^\w./=+-]+")


def unreadable_name(analysis: Analysis) -> str | None:
    """Why a command's name in a text that is not understood cannot be read from it; None when all can."""
    for reason in analysis.unanalysable:
        plain_text = _STRUCTURE.match(reason) and not _MAKES_NAMES.search(analysis.text)
        if not plain_text and not _KNOWN_TEXT.match(reason):
            return reason
    for command in analysis.commands:
        name = command.words[0].text if command.words else None
        if name not in ("source", ".", "trap", "exec"):
            continue
        if any(word.text is None or _DESCRIPTOR.match(word.text) for word in command.words[1:]):
            return f"{name} with a text that is not known"
    return None


def unseen(
    views: Iterable[Command], denied: Callable[[Iterable[str]], Iterable[CommandPattern]]
) -> str | None:
    """Why a denied command may run inside one that is understood; ``denied`` gives the denies about some names."""
    for view in views:
        name = (view.words[0].text or "").rsplit("/", 1)[-1] if view.words else ""
        if view.words and runs_unknown_text(view, name):
            return f"{name} would run a text that is not known"
        if not name or name in _DATA or len(view.words) < 2:
            continue
        rest = " ".join(_WORDS.split(plain(" ".join(word.text or word.raw for word in view.words[1:]))))
        programs = {word.rsplit("/", 1)[-1] for word in rest.split()}
        if any(pattern.literal_start and pattern.occurs_in(rest) for pattern in denied(programs)):
            return f"{name} may run the words behind it"
    return None


def assembles(command: Command) -> bool:
    """Whether the program is an interpreter: what it runs is not in the text."""
    return bool(command.words) and (command.words[0].text or "").rsplit("/", 1)[-1] in INTERPRETERS
