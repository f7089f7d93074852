"""Paths and the patterns of ``Read(...)`` and ``Edit(...)``; names that are protected.

A path has two forms: as written (dots and doubled slashes removed), and with links followed. Deny rules check both,
allow rules need both (R15). Paths are compared by components, never by text prefix (C01), and two globs meet when some
path may match both: yes too often, never too rarely. Names whose content decides what other programs run always need
an answer (C05); the sandbox protects the same list.

A pattern is gitignore-like, with four anchors (R12): ``//etc`` is absolute, ``~/x`` starts at home, ``/x`` at the
directory of the settings file, and anything else at the working directory. Without an inner slash it matches at any
depth. A pattern that matches a directory matches everything in it.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from recollect.guard.policy.command_lines import listed, lists
from recollect.guard.policy.terms import World

_OWN_ROOT = re.compile(r"^/proc/(?:self|thread-self)(?:/task/\d+)?/(root|cwd)(?=/|$)")
_OTHER_PROCESS = re.compile(r"^/proc/\d+(?:/task/\d+)?/root(?=/|$)")
_DESCRIPTOR = re.compile(r"^(?:/proc/(?:self|thread-self|\d+)(?:/|$)|/dev/(?!null$))")
_UNCOLLAPSED = re.compile(r"/(?:/|$|\.\.?(?:/|$))")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where the session works, and relative paths and ``~`` start. ``directories`` are further ones that it may read and edit; git runs what is in
    ``hooks``, the directories that ``core.hooksPath`` names."""

    cwd: str
    directories: tuple[str, ...] = ()
    home: str = "/root"
    trusted: bool = False
    hooks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A path as written and where it leads. ``special`` says why no tool may open it as a file."""

    given: str
    forms: tuple[str, ...]
    """The different paths a rule must check; the first is the path as written."""
    special: str | None = None

    @property
    def written(self) -> str:
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


def absolute(path: str, place: Workspace) -> str:
    """The path from the root, with its ``..`` kept: only the file system knows where they lead."""
    if path == "~" or path.startswith("~/"):
        path = place.home + path[1:]
    elif path.startswith("~") and path.split("/")[0][1:] == place.home.rsplit("/", 1)[-1]:
        path = place.home + path[len(path.split("/")[0]) :]
    elif path.startswith("~"):
        path = "/" + path  # another user's home: never in the working directory
    return path if path.startswith("/") else f"{place.cwd.rstrip('/')}/{path}"


def named_file(path: str, place: Workspace, world: World) -> NamedFile:
    """The file a tool would open for this argument."""
    full = _without_detours(absolute(path, place), place)
    written = collapsed(full)
    if _UNPRINTABLE.search(full):
        return NamedFile(path, (written,), "its name holds control characters")
    # The kernel follows a link before its "..", many programs remove the ".." first: both may happen.
    led = [world.resolved(full)] if full == written else [world.resolved(full), world.resolved(written)]
    forms = tuple(dict.fromkeys((written, *map(collapsed, led))))
    special = None
    if any(_DESCRIPTOR.match(form) for form in forms):
        special = "it is a device or a part of /proc, not a file"
    elif not world.is_regular_or_missing(full):
        special = "it is not a regular file"
    return NamedFile(path, forms, special)


def _without_detours(path: str, place: Workspace) -> str:
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
    return relative_to(path, directory) is not None


def folded(path: str) -> str:
    """The name as a lenient file system compares it: without case, accents, trailing dots and spaces."""
    if path.isascii() and not _trailing.search(path):
        return path.lower()
    text = unicodedata.normalize("NFC", path).casefold()
    return "/".join(part.rstrip(". ") or part for part in unicodedata.normalize("NFC", text).split("/"))


_trailing = re.compile(r"[. ](?:/|$)")


_DEEP = "**"
_STAR, _ONE = "\0star", "\0one"


def globs_meet(left: str, right: str) -> bool:
    return _may_be_equal(left.split("/"), right.split("/"), _DEEP, parts_meet)


def _may_be_equal(first: list[str], second: list[str], star: str, same: Callable[[str, str], bool]) -> bool:
    """Whether two sequences can become the same, where a star stands for any number of elements."""
    waiting = [(0, 0)]
    seen = set(waiting)
    while waiting:
        i, j = waiting.pop()
        a, b = first[i : i + 1], second[j : j + 1]
        if not a and not b:
            return True
        steps = []
        if a == [star] or b == [star]:
            steps += [(i + 1, j)] if a else []
            steps += [(i, j + 1)] if b else []
        elif a and b and same(a[0], b[0]):
            steps.append((i + 1, j + 1))
        waiting += [step for step in steps if step not in seen]
        seen.update(steps)
    return False


def parts_meet(left: str, right: str) -> bool:
    """The same for single components."""
    left_start, left_end, left_plain = ends(left)
    right_start, right_end, right_plain = ends(right)
    if left_plain and right_plain:
        return left_start == right_start
    # A shell's star at the start of a name does not match hidden files.
    if left_start.startswith(".") and not right_start and not right_plain:
        return False
    if not agree(left_start, right_start) or not agree(left_end[::-1], right_end[::-1]):
        return False
    return _wild_parts_meet(left, right)


@lru_cache(maxsize=8192)
def ends(part: str) -> tuple[str, str, bool]:
    """The certain start and end of a component, and whether that is all of it."""
    taken = letters(part)
    wild = [position for position, letter in enumerate(taken) if letter in (_STAR, _ONE)]
    if not wild:
        return "".join(taken), "".join(taken), True
    return "".join(taken[: wild[0]]), "".join(taken[wild[-1] + 1 :]), False


def agree(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


@lru_cache(maxsize=4096)
def _wild_parts_meet(left: str, right: str) -> bool:
    return _may_be_equal(letters(left), letters(right), _STAR, lambda a, b: a == b or _ONE in (a, b))


@lru_cache(maxsize=4096)
def letters(glob: str) -> list[str]:
    """One component as letters, stars, and wildcards for one letter."""
    out: list[str] = []
    position = 0
    while position < len(glob):
        char = glob[position]
        if char == "\\" and position + 1 < len(glob):
            out.append(glob[position + 1])
            position += 2
            continue
        end = glob.find("]", position + 2) if char == "[" else -1
        if end > 0:
            out.append(_ONE)
            position = end + 1
            continue
        out.append({"*": _STAR, "?": _ONE}.get(char, char))
        position += 1
    return out


# Directories with the parts that are executed or trusted; no parts means all of it. The permission engine
# protects whole directories; the sandbox only these parts, because a commit writes to the rest of .git.
DIRECTORIES = lists("protected_directories")
FILES = listed("protected_files")
CONFIGURATION = (".config/fish", ".config/git")


def protected_name(path: str) -> str | None:
    """The component that makes the path protected, or None."""
    components = folded(path).strip("/").split("/")
    for component in components:
        if component in DIRECTORIES:
            return component
    if components[-1] in FILES:
        return components[-1]
    joined = "/" + "/".join(components) + "/"
    return next((name for name in CONFIGURATION if f"/{name}/" in joined), None)


def names_in_tree() -> tuple[str, ...]:
    """The names as relative paths at the top of a tree, for the sandbox."""
    parts = [f"{name}/{part}" for name, parts in DIRECTORIES.items() for part in parts]
    whole = [name for name, parts in DIRECTORIES.items() if not parts]
    return (*parts, *whole, *sorted(FILES), *CONFIGURATION)


def hooks_directory(git_config: str) -> str | None:
    """The directory that ``core.hooksPath`` names in a git configuration, as it is written; files it includes do not count."""
    section, found = "", None
    for line in git_config.replace("\\\n", "").splitlines():
        text = line.strip()
        if text.startswith("["):
            head, _, text = text[1:].partition("]")
            section, text = head.strip().lower(), text.strip()
        name, equals, value = text.partition("=")
        if section == "core" and equals and name.strip().lower() == "hookspath":
            found = _unquoted(value.strip()) or None
    return found


def _unquoted(value: str) -> str:
    """A value without its quotes, escapes and comment."""
    text, quoted, letters = "", False, iter(value)
    for letter in letters:
        if letter == '"':
            quoted = not quoted
        elif letter == "\\":
            text += next(letters, "")
        elif letter in "#;" and not quoted:
            break
        else:
            text += letter
    return text if quoted else text.rstrip()


_CLASS = re.compile(r"([!^]?)(\][^\]/]*|[^\]/]+)\]")


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
            return agree(start, ends(glob)[0]) and globs_meet(f"{escaped(directory.rstrip('/'))}/{own}", glob)
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
        return ".*" if "**" in self.last else component_expression(self.last)

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
            out += component_expression(part) + ("" if last else "/")
    return out + ("" if parts[-1] == "**" and len(parts) > 1 else "(?:/.*)?") if body != "**" else ".*"


def component_expression(part: str, *, strict: bool = False) -> str:
    """One component as a regular expression. Pieces between stars are matched in order without backtracking, so
    no pattern is slow. A ``[`` that is never closed stands for itself, or is an error."""
    first, *rest = list(_pieces(part, strict))
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}[^/]*{rest[-1]}"


def _pieces(part: str, strict: bool) -> Iterator[str]:
    """The pieces between stars; each is an expression of fixed length."""
    piece, position = "", 0
    while position < len(part):
        char = part[position]
        position += 1
        found = _CLASS.match(part, position) if char == "[" else None
        if char == "*":
            yield piece
            piece = ""
        elif char == "?":
            piece += "[^/]"
        elif found is not None:
            members = re.sub(r"([\[\\&~|^])", r"\\\1", found.group(2))
            piece += f"(?!/)[{'^' if found.group(1) else ''}{_valid(members)}]"
            position = found.end()
        elif char == "[" and strict:
            raise ValueError("a [ is never closed")
        elif char == "\\" and position < len(part):
            piece += re.escape(part[position])
            position += 1
        else:
            piece += re.escape(char)
    yield piece


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
