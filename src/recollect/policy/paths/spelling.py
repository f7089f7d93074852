"""Brings every spelling of a path to the form that rules are compared with.

A path has two forms: as written (dots and doubled slashes removed), and with links followed. Deny rules
check both, allow rules need both (R15). Paths are compared by components, never by text prefix (C01).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from recollect.policy.world import World

_OWN_ROOT = re.compile(r"^/proc/(?:self|thread-self)(?:/task/\d+)?/(root|cwd)(?=/|$)")
_OTHER_PROCESS = re.compile(r"^/proc/\d+(?:/task/\d+)?/root(?=/|$)")
_DESCRIPTOR = re.compile(r"^(?:/proc/(?:self|thread-self|\d+)(?:/|$)|/dev/(?!null$))")
_UNCOLLAPSED = re.compile(r"/(?:/|$|\.\.?(?:/|$))")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class PathBase:
    """Where relative paths and ``~`` start."""

    cwd: str
    home: str


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A path as written and where it leads. ``special`` says why no tool may open it as a file."""

    given: str
    forms: tuple[str, ...]
    """The different paths a rule must check; the first is the path as written."""
    special: str | None = None

    @property
    def written(self) -> str:
        """The path without dots and doubled slashes, links not followed."""
        return self.forms[0]


def collapsed(path: str) -> str:
    """An absolute path without empty, ``.`` and ``..`` components."""
    if path[:1] == "/" and not _UNCOLLAPSED.search(path):
        return path
    result: list[str] = []
    for component in path.split("/"):
        if component == "..":
            del result[-1:]
        elif component not in ("", "."):
            result.append(component)
    return "/" + "/".join(result)


def absolute(path: str, place: PathBase) -> str:
    """The path from the root, with its ``..`` kept: only the file system knows where they lead."""
    if path == "~" or path.startswith("~/"):
        path = place.home + path[1:]
    elif path.startswith("~") and path.split("/")[0][1:] == place.home.rsplit("/", 1)[-1]:
        path = place.home + path[len(path.split("/")[0]) :]
    elif path.startswith("~"):
        path = "/" + path  # another user's home: never in the working directory
    return path if path.startswith("/") else f"{place.cwd.rstrip('/')}/{path}"


def named_file(path: str, place: PathBase, world: World) -> NamedFile:
    """The file a tool would open for this argument."""
    full, forms = _forms(path, place, world)
    special = None
    if _UNPRINTABLE.search(full):
        special = "its name holds control characters"
    elif any(_DESCRIPTOR.match(form) for form in forms):
        special = "it is a device or a part of /proc, not a file"
    elif not world.is_regular_or_missing(full):
        special = "it is not a regular file"
    return NamedFile(path, forms, special)


def path_forms(path: str, place: PathBase, world: World) -> tuple[str, ...]:
    """The different paths of the file, for a rule that does not depend on its type."""
    return _forms(path, place, world)[1]


def _forms(path: str, place: PathBase, world: World) -> tuple[str, tuple[str, ...]]:
    """The argument from the root, and every path it may lead to."""
    full = _without_detours(absolute(path, place), place)
    written = collapsed(full)
    if _UNPRINTABLE.search(full):
        return full, (written,)
    # The kernel follows a link before its "..", many programs remove the ".." first: both may happen.
    led = [world.resolved(full)] if full == written else [world.resolved(full), world.resolved(written)]
    return full, tuple(dict.fromkeys((written, *map(collapsed, led))))


def _without_detours(path: str, place: PathBase) -> str:
    """Rewrite ``/proc/self/root/x`` to ``/x``, and ``/proc/self/cwd/x`` to the working directory (C03)."""
    if "proc" not in path:
        return path
    for _ in range(8):
        plain = re.sub(r"/(?:\./)*/+", "/", path)
        detour = _OWN_ROOT.match(plain) or _OTHER_PROCESS.match(plain)
        if not detour:
            return path
        into_cwd = detour.re is _OWN_ROOT and detour.group(1) == "cwd"
        path = (place.cwd if into_cwd else "") + "/" + plain[detour.end() :].lstrip("/")
    return path


def relative_to(path: str, directory: str) -> str | None:
    """The components below the directory, ``""`` for itself, or None when it is elsewhere."""
    if path == directory:
        return ""
    start = directory.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


def inside(path: str, directory: str) -> bool:
    """Whether the path is the directory or inside it, by components."""
    return relative_to(path, directory) is not None


def folded(path: str) -> str:
    """The name as a lenient file system compares it: without case, accents, trailing dots and spaces."""
    if path.isascii() and not _trailing.search(path):
        return path.lower()
    text = unicodedata.normalize("NFC", path).casefold()
    return "/".join(part.rstrip(". ") or part for part in unicodedata.normalize("NFC", text).split("/"))


_trailing = re.compile(r"[. ](?:/|$)")
