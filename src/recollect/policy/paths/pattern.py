"""The specifier of ``Read(...)`` and ``Edit(...)``: gitignore-like, with four anchors (R12).

``//etc`` is absolute, ``~/x`` starts at home, ``/x`` at the directory of the settings file, and
anything else at the working directory. A pattern without an inner slash matches at any depth. A pattern that matches a directory matches everything in it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property

from recollect.policy.paths.glob_meeting import agree, ends, globs_meet, parts_meet
from recollect.policy.paths.spelling import folded


class Anchor(enum.StrEnum):
    """Where a pattern starts."""

    ROOT = "//"
    HOME = "~/"
    SOURCE = "/"
    CWD = "./"


@dataclass(frozen=True)
class PathPattern:
    """One pattern: its anchor, and the part below it."""

    text: str
    anchor: Anchor
    body: str
    floating: bool
    """It has no inner slash, so it matches at any depth below the anchor."""
    anchored: bool = False
    """It is written ``./x`` or ``x/**``: a deny matches at any depth, as in the client, an allow at the anchor."""
    climbs: int = 0
    """Directories above the anchor at which it starts (1 for ``../x``)."""

    def matches(self, relative: str) -> bool:
        """Whether the path below the anchor matches, case included."""
        return self._exact.fullmatch(relative) is not None

    def may_mean(self, relative: str) -> bool:
        """The same for deny: ``relative`` is case-folded, and a tree's own directory counts as part of it."""
        return self._generous.fullmatch(relative) is not None

    def meets(self, directory: str, glob: str, *, trees: bool) -> bool:
        """Whether, anchored at the directory, it shares a path with an absolute glob (both case-folded).

        Without ``trees`` only the named path itself counts, not what is below it: a file in an unknown
        directory might be below anything.
        """
        own = self._own + ("/**" if trees else "")
        if not trees and not parts_meet(own.rsplit("/", 1)[-1], glob.rsplit("/", 1)[-1]):
            return False
        if not self.floating:
            start = directory.rstrip("/") + "/" + ends(self._own)[0]
            return agree(start, ends(glob)[0]) and globs_meet(f"{_escaped_slashes(directory)}/{own}", glob)
        named = glob.split("/") if trees else glob.split("/")[-1:]
        return any(parts_meet(self._own, part) for part in named if part not in ("", "**"))

    @cached_property
    def last(self) -> str:
        """The last component, case-folded; that of the directory for a pattern that covers a tree."""
        return self._own.rsplit("/", 1)[-1]

    @cached_property
    def tail(self) -> str | None:
        """The last literal component if no wildcard follows: every matching path has it."""
        return None if re.search(r"[*?\[\\]", self.last) else self.last

    @cached_property
    def tail_expression(self) -> str:
        """The last component as a regular expression; one that matches anything for a pattern ending in
        ``**``."""
        return ".*" if "**" in self.last else _component(self.last)

    @cached_property
    def _own(self) -> str:
        return folded(self.body[:-3] if self.body.endswith("/**") else self.body)

    @cached_property
    def plain(self) -> str | None:
        """The path below the anchor, if the pattern names one file or one tree."""
        body = self.body[:-3] if self.body.endswith("/**") else self.body
        return None if re.search(r"[*?\[\\]", body) else body

    @cached_property
    def _exact(self) -> re.Pattern[str]:
        return re.compile(_expression(self.body, self.floating and not self.anchored), re.DOTALL)

    @cached_property
    def _generous(self) -> re.Pattern[str]:
        return re.compile(_expression(self._own, self.floating), re.DOTALL)


def path_pattern(text: str) -> PathPattern | str:
    """The pattern, or why the text is not one."""
    body = text.strip()
    if not body or "\0" in body:
        return "it names no path"
    if body[0] in "!#":
        return "a path rule cannot be a comment or an exception"
    anchor, anchored = Anchor.CWD, body.startswith("./") or body.endswith("/**")
    if body.startswith("//"):
        anchor, body = Anchor.ROOT, body[2:]
    elif body == "~" or body.startswith("~/"):
        anchor, body = Anchor.HOME, body[2:]
    elif body.startswith("/"):
        anchor, body = Anchor.SOURCE, body[1:]
    elif body in (".", "./"):
        return "it matches no file; write ./** for the working directory"
    elif body.startswith("./"):
        body = body[2:]
    floating = anchor is Anchor.CWD and "/" not in body.removesuffix("/**").rstrip("/") and body != "**"
    body = re.sub(r"/+", "/", body).strip("/")
    body = "/".join(part for part in body.split("/") if part != ".")
    body, climbs = _climbed(body)
    return PathPattern(text, anchor, body or "**", floating and bool(body) and not climbs, anchored, climbs)


def _climbed(body: str) -> tuple[str, int]:
    """Resolve ``a/../b`` to ``b``; count the steps above the anchor."""
    resolved: list[str] = []
    climbs = 0
    for part in body.split("/"):
        if part != "..":
            resolved.append(part)
        elif resolved:
            resolved.pop()
        else:
            climbs += 1
    return "/".join(resolved), climbs


def _expression(body: str, floating: bool) -> str:
    parts = body.split("/")
    out = "(?:.*/)?" if floating else ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            out += ".+" if last else "(?:.*/)?"
        else:
            out += _component(part) + ("" if last else "/")
    return out + ("" if parts[-1] == "**" and len(parts) > 1 else "(?:/.*)?") if body != "**" else ".*"


def _component(part: str) -> str:
    out, position = "", 0
    while position < len(part):
        char = part[position]
        position += 1
        if char == "\\" and position < len(part):
            out += re.escape(part[position])
            position += 1
        elif char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "[":
            found = re.compile(r"([!^]?)(\]?[^\]/]*)\]").match(part, position)
            if not found:
                out += re.escape(char)
                continue
            members = re.sub(r"([\[\\&~|^])", r"\\\1", found.group(2))
            out += f"(?!/)[{'^' if found.group(1) else ''}{_valid(members)}]"
            position = found.end()
        else:
            out += re.escape(char)
    return out


def _valid(members: str) -> str:
    """The members of a character class; an invalid range stands for its letters only."""
    members = members.replace("]", r"\]")
    try:
        re.compile(f"[{members}]")
    except re.error:
        return members.replace("-", r"\-")
    return members


def escaped(path: str) -> str:
    """The path as a pattern that matches only itself (R21)."""
    return re.sub(r"([\\*?\[\]!#])", r"\\\1", path)


def _escaped_slashes(directory: str) -> str:
    return "" if directory == "/" else escaped(directory)
