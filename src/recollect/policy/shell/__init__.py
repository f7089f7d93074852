"""Parses a shell text into the simple commands it would run, without running it.

``analyse`` uses two independent parsers: our strict reader and tree-sitter-bash. A text is understood
only where both agree. Otherwise ``unanalysable`` lists the reasons and ``suspects`` every word the text
might start. It never raises, and knows nothing about rules.
"""

from __future__ import annotations

from itertools import accumulate

from recollect.policy.analysis import Analysis, Command
from recollect.policy.shell import builtins, characters, scraps, tree
from recollect.policy.shell.cursor import Unclear
from recollect.policy.shell.reader import LocatedCommand, ShellReader

__all__ = ["analyse", "commands_in"]


def analyse(text: str) -> Analysis:
    commands, reasons, wary = _read(text)
    suspects = _started(commands)
    if reasons:
        suspects |= scraps.tokens(text)
    return Analysis(text, commands, reasons, wary, suspects)


def commands_in(text: str) -> tuple[tuple[Command, ...], tuple[str, ...]]:
    """The commands and the doubts, without the search for suspects."""
    return _read(text)[:2]


def _read(text: str) -> tuple[tuple[Command, ...], tuple[str, ...], tuple[str, ...]]:
    doubts = characters.doubts(text)
    if doubts:
        return scraps.commands(text), tuple(doubts), ()
    reader = ShellReader(text)
    try:
        reader.read()
    except Unclear as unclear:
        return (*_commands(reader), *scraps.commands(text)), (str(unclear), *reader.doubts), ()
    from recollect.policy.commands.wrappers import hidden

    commands = _commands(reader)
    for reason in builtins.doubtful_names(reader.assigned_names):
        reader.doubt(reason)
    for command in commands:
        for reason in builtins.doubts(command):
            reader.doubt(reason)
        if inside := hidden(command):
            reader.doubt(inside)
    if reader.doubts:
        return commands, tuple(reader.doubts), ()
    if tree.borders(text) != _borders(text, reader.seen):
        return (*commands, *scraps.commands(text)), ("two parsers read it differently",), ()
    return commands, (), tuple(reader.wary)


def _commands(reader: ShellReader) -> tuple[Command, ...]:
    return tuple(seen.command for seen in reader.seen)


def _borders(text: str, seen: list[LocatedCommand]) -> tree.Borders:
    """Our commands and arguments in tree-sitter's terms: byte offsets."""
    starts: list[int] = []
    spans: list[tree.TreeSpan] = []
    for one in seen:
        if one.spans:
            starts.append(one.spans[0][0])
            if one.command.words[0].raw not in tree.NOT_SHOWN:
                spans.extend(one.spans[1:])
    if not text.isascii():
        place = [0, *accumulate(len(letter.encode()) for letter in text)]
        starts = [place[start] for start in starts]
        spans = [(place[start], place[end]) for start, end in spans]
    return tree.Borders(frozenset(starts), frozenset(spans))


def _started(commands: tuple[Command, ...]) -> frozenset[str]:
    """The names of all commands and of those inside their wrappers, with and without directory."""
    # Wrappers such as `sh -c` hold shell text themselves, so the two packages need each other.
    from recollect.policy.commands import deny_views

    names = {
        view.words[0].text or view.words[0].raw
        for command in commands
        for view in deny_views(command)
        if view.words
    }
    return frozenset(names | {name.rsplit("/", 1)[-1] for name in names})
