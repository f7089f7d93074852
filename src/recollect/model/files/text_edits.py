"""The text of a file after an edit, computed from the text before it.

A client records an edit twice: as "replace this text by that" and as a patch for display. Neither is exact.
The patch shows each leading tab as two spaces; the replacement may have straight quotes where the client
wrote curly ones, or omit that a newline was removed too. So a replacement is accepted if the patch shows the
same result, a patch if it fits the text exactly, and otherwise the answer is None: not known.

Lines end in a newline here, as the client reports them for any file. This module handles only text: no files,
no entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

_LEADING_TABS = re.compile(r"^\t+")
# The client refuses to replace a text that occurs several times, so few guesses are ever needed; a crafted
# line must not cause many.
_MOST_GUESSES = 20


class Hunk(Struct, frozen=True, rename="camel"):
    """One piece of a ``structuredPatch``. Lines begin with a blank, ``-``, ``+`` or a backslash."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: list[str]

    def before(self) -> list[str]:
        """The lines it expects."""
        return [line[1:] for line in self.lines if line[:1] in (" ", "-")]

    def after(self) -> list[str]:
        """The lines it produces."""
        return [line[1:] for line in self.lines if line[:1] in (" ", "+")]

    def reversed(self) -> Hunk:
        """The piece that takes it back."""
        signs = {"+": "-", "-": "+"}
        lines = [signs.get(line[:1], line[:1]) + line[1:] for line in self.lines]
        return Hunk(self.new_start, self.new_lines, self.old_start, self.old_lines, lines)


class Replacement(Struct, frozen=True):
    """Replace ``old`` by ``new``, once or at every occurrence."""

    old: str
    new: str
    everywhere: bool = False


def edited(text: str, replacements: Sequence[Replacement], hunks: Sequence[Hunk]) -> str | None:
    """``text`` after the replacements, one after the other; None where that cannot be known."""
    for result in islice(_results(text, replacements), _MOST_GUESSES):
        if hunks and _shows(text, result, hunks):
            return result
        if not hunks and _is_plain(text, replacements):
            return result
    invented_tabs = any(line.startswith("\t") for part in replacements for line in part.new.split("\n"))
    return None if invented_tabs or not hunks else patched(text, hunks)


def patched(text: str, hunks: Sequence[Hunk]) -> str | None:
    """``text`` with the patch applied; None unless every expected line matches exactly."""
    lines, result, position = text.split("\n"), list[str](), 0
    for hunk in hunks:
        before = hunk.before()
        start = hunk.old_start - 1 if before else hunk.old_start
        if start < position or lines[start : start + len(before)] != before:
            return None
        result += lines[position:start] + hunk.after()
        position = start + len(before)
    return "\n".join(result + lines[position:])


def undone(text: str, replacements: Sequence[Replacement], hunks: Sequence[Hunk]) -> str | None:
    """The text before the change that led to ``text``; None where that cannot be known."""
    if len(replacements) == 1 and replacements[0].new and text.count(replacements[0].new) == 1:
        step = replacements[0]
        before = text.replace(step.new, step.old)
        if not hunks or _shows(before, text, hunks):
            return before
    return patched(text, [hunk.reversed() for hunk in hunks]) if hunks else None


def unified(hunks: Sequence[Hunk]) -> str:
    """A patch as text, without the two lines that name the files."""
    parts = []
    for hunk in hunks:
        parts.append(f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@")
        parts += hunk.lines
    return "".join(f"{part}\n" for part in parts)


# ---- replacements ----------------------------------------------------------------------------------------


def _results(text: str, replacements: Sequence[Replacement]) -> Iterator[str]:
    """The possible results of the replacements, the most likely first."""
    if not replacements:
        return
    first, rest = replacements[0], replacements[1:]
    for result in _single_results(text, first):
        if rest:
            yield from _results(result, rest)
        else:
            yield result


def _single_results(text: str, step: Replacement) -> Iterator[str]:
    if not step.old:
        if not text:
            yield step.new
        return
    if step.everywhere:
        yield text.replace(step.old, step.new)
    else:
        yield from (_at(text, place, step.old, step.new) for place in _places(text, step.old))
    if not step.new and not step.old.endswith("\n"):
        # When the client deletes whole lines, it removes their newline too.
        yield text.replace(step.old + "\n", "", -1 if step.everywhere else 1)


def _places(text: str, wanted: str) -> Iterator[int]:
    def found() -> Iterator[int]:
        place = text.find(wanted)
        while place >= 0:
            yield place
            place = text.find(wanted, place + 1)

    return islice(found(), _MOST_GUESSES)


def _at(text: str, place: int, old: str, new: str) -> str:
    return text[:place] + new + text[place + len(old) :]


def _is_plain(text: str, replacements: Sequence[Replacement]) -> bool:
    """Without a patch to compare with, only a single unambiguous replacement is accepted."""
    if len(replacements) != 1:
        return False
    step = replacements[0]
    return (not step.old and not text) or step.everywhere or text.count(step.old) == 1


# ---- patches ---------------------------------------------------------------------------------------------


def _shows(before: str, after: str, hunks: Sequence[Hunk]) -> bool:
    """Whether the patch is what the client would show for this change."""
    old, new = before.split("\n"), after.split("\n")
    unchanged = len(old) - len(new)
    for hunk in hunks:
        if not _stands(hunk.before(), old, hunk.old_start) or not _stands(hunk.after(), new, hunk.new_start):
            return False
        unchanged -= len(hunk.before()) - len(hunk.after())
    return unchanged == 0


def _stands(shown: list[str], lines: list[str], start: int) -> bool:
    at = start - 1
    return (
        not shown
        or [
            _LEADING_TABS.sub(lambda tabs: "  " * len(tabs.group()), line)
            for line in lines[at : at + len(shown)]
        ]
        == shown
    )
