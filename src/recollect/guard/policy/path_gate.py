"""The places that file commands name, checked although a rule allows the command (R24), and protected names (C11).

A rule such as ``Bash(cat:*)`` allows a program, not a place. For a fixed list of programs the client asks when a path
leads out of the working directories, climbs with ``..`` behind a directory, or is a pattern that a writing command would
fill in. Only a rule for the whole tool lifts that; a Read or Edit rule lifts it for its own paths. A copy writes the
names of its sources; what an archive, a patch or a commit holds is asked about unless all of Bash is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from recollect.guard.policy.command_lines import listed, lists
from recollect.guard.policy.doubts import Directories
from recollect.guard.policy.operands import Copy, copy_of, possible_values, restored, unpacks
from recollect.guard.policy.path_judge import PathJudge
from recollect.guard.policy.paths import protected_name
from recollect.guard.policy.programs import prints_lines
from recollect.guard.policy.rules import PolicyFinding, by_nature
from recollect.guard.policy.shell_quoting import tokens
from recollect.guard.policy.terms import Command, Redirect, Word, names
from recollect.model.settings.decision import Verdict

_READING = listed("checked_reading")
_WRITING = names("touch mkdir rm rmdir cp mv tee sed")
CHECKED_PROGRAMS = _READING | _WRITING
_NO_FLAGS = frozenset({"cp", "mv"})
_PATTERN_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "sed", "awk", "jq"})
_PATTERN_OPTIONS = ("-e", "-f", "--regexp", "--file", "--expression")
_FILE_OPTIONS = ("-f", "--file", "--files0-from")
_VALUED = lists("checked_valued")
_GREPS = frozenset({"grep", "egrep", "fgrep", "rg"})
_GREP_FILE = re.compile(r"-[a-zA-Z]*?f(.+)")
_TWO_VALUES = frozenset({"--arg", "--argjson"})
_STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_CLIMBS = re.compile(r"(?:^|/)(?!\.{1,2}(?:/|$))[^/]+/+(?:\./+)*\.\.(?:/|$)")
_GLOB = re.compile(r"[*?\[]")
_EXPANDS = re.compile(r"[$`%]|^=|[{}]")
OUTSIDE = "path outside the working directories"


@dataclass(frozen=True, slots=True)
class CheckedPath:
    """A path that a checked program, or a redirect, names."""

    path: str
    writes: bool
    globs: bool = False


class PathGate:
    """The check of one decision."""

    def __init__(self, paths: PathJudge) -> None:
        self._paths = paths

    def finding(self, command: Command, directories: Directories) -> PolicyFinding | None:
        """Why the command is asked about whatever prefix, wildcard or exact rule allows it."""
        name = _name(command)
        flags = [word.text for word in command.words[1:] if (word.text or "").startswith("-")]
        if name in _NO_FLAGS and flags:
            return _asked(
                "file command with options", f"with options, {name} may name its files in other ways"
            )
        if name == "awk" and any(flag and flag.startswith(("-f", "-i", "-E", "--")) for flag in flags):
            return _asked("awk with a program file", "an option of awk names a program to run")
        for checked in (*checked_paths(command), *_redirected(command.redirects)):
            found = self._path(checked, directories)
            if found:
                return found
        return None

    def leads_out(self, command: Command, directories: Directories) -> PolicyFinding | None:
        """The checks that no rule lifts: protected names, and links that lead a write out of a working directory."""
        for checked in (*checked_paths(command), *_redirected(command.redirects)):
            for cwd in directories.possible if checked.writes and checked.path not in _STREAMS else ():
                file = self._paths.file(checked.path, cwd or "/")
                if guarded := self._paths.guarded(file):
                    return guarded
                if self._paths.leads_out(file) and not self._paths.writable(file, edits_run=True):
                    return _asked(
                        "link out of the working directories", f"{checked.path} leads to {file.forms[-1]}"
                    )
        return None

    def _path(self, checked: CheckedPath, directories: Directories) -> PolicyFinding | None:
        path = checked.path
        if path == "-" or (checked.writes and path in _STREAMS):
            return None
        if path.startswith("~") and path[1:2] not in ("", "/"):
            return _asked("tilde of another user", f"{path} is another user's place")
        if checked.writes and (checked.globs or _GLOB.search(path) or _EXPANDS.search(path)):
            return _asked("pattern in a write", f"{path} is not one exact path")
        if _CLIMBS.search(path):
            return _asked("path that climbs", f"{path} may follow a link before its ..")
        for cwd in directories.possible:
            if cwd is None or not self._reachable(
                _before_glob(path) if checked.globs else path, cwd, checked.writes
            ):
                verb = "written" if checked.writes else "read"
                return _asked(
                    OUTSIDE, f"{path} is outside the working directories and no rule lets it be {verb}"
                )
        return None

    def _reachable(self, path: str, cwd: str, writes: bool) -> bool:
        file = self._paths.file(path, cwd)
        if not writes:
            return self._paths.readable(file) is not None
        return self._paths.writable(file, edits_run=True) is not None


def checked_paths(command: Command) -> Iterator[CheckedPath]:
    """The paths that a program of the list names; none for other programs."""
    name = _name(command)
    if name not in CHECKED_PROGRAMS:
        return
    writes = name in _WRITING and not (name == "sed" and prints_lines(command.words[1:]))
    for word in _operands(name, command.words[1:]):
        if "$(" in word.raw:
            yield CheckedPath(word.raw, writes=True, globs=True)
        for path in possible_values(word):
            # `strings @FILE` takes its words from the file.
            yield CheckedPath(path.removeprefix("@") if name == "strings" else path, writes, word.globs)


def changes_files(command: Command) -> bool:
    """Whether a program of the list, or a redirect, writes a file."""
    return any(one.writes for one in (*checked_paths(command), *_redirected(command.redirects)))


def _redirected(redirects: Sequence[Redirect]) -> Iterator[CheckedPath]:
    for redirect in redirects:
        if redirect.writes and redirect.target is not None and redirect.target.text != "/dev/null":
            for path in possible_values(redirect.target):
                yield CheckedPath(path, True, redirect.target.globs or path.startswith("~"))


def _name(command: Command) -> str:
    return (command.words[0].text or "") if command.words else ""


def _operands(name: str, words: Sequence[Word]) -> Iterator[Word]:
    if name == "cd":
        yield from [word for word in words if word.text not in ("-P", "-L", "-e", "--")] or [Word("~", "~")]
    elif name == "find":
        yield from _of_find(words)
    elif name == "git":
        yield from _of_git(words)
    else:
        yield from _of_program(name, words)


def _of_find(words: Sequence[Word]) -> Iterator[Word]:
    """The starting points, and every later word that leads away."""
    starts = True
    for word in words:
        text = word.text or ""
        starts = starts and (text in ("-H", "-L", "-P") or not text.startswith(("-", "(", "!")))
        if (starts and not text.startswith("-")) or text.startswith(("/", "~", "..")):
            yield word


def _of_git(words: Sequence[Word]) -> Iterator[Word]:
    """Two files that are compared, or files that are searched, without a repository."""
    texts = [word.text for word in words]
    verb = next((text for text in texts if text and not text.startswith("-")), None)
    outside = "--no-index" in texts or any(
        (text or "").startswith(("/", "~", "../", ":/", ":(")) for text in texts
    )
    if verb in ("diff", "grep") and outside:
        yield from (word for word in words if word.text != verb and not (word.text or "").startswith("-"))


def _of_program(name: str, words: Sequence[Word]) -> Iterator[Word]:
    valued = _VALUED.get(name, ())
    pattern = name in _PATTERN_FIRST and not any(_gives_pattern(name, word.text or "") for word in words)
    position, only_operands = 0, False
    while position < len(words):
        word = words[position]
        text = word.text or ""
        position += 1
        if text.startswith("-") and text != "-" and not only_operands:
            only_operands = text == "--"
            position += 2 if text in _TWO_VALUES else text in valued
            option, equals, value = text.partition("=")
            if equals and option in _FILE_OPTIONS:
                yield Word(value, value)
            elif name in _GREPS and (attached := _GREP_FILE.fullmatch(text)):
                yield Word(attached.group(1), attached.group(1))
        elif pattern:
            pattern = False
        else:
            yield word


def _gives_pattern(name: str, text: str) -> bool:
    if name in ("awk", "jq"):
        return False
    if name in _GREPS and re.fullmatch(r"-[a-zA-Z]*f.*", text):
        return True
    return text.partition("=")[0] in _PATTERN_OPTIONS or (text.startswith("-e") and not text.startswith("--"))


def _before_glob(path: str) -> str:
    """The directory that a pattern is filled in from."""
    fixed = _GLOB.split(path, maxsplit=1)[0]
    return fixed.rpartition("/")[0] + "/" if "/" in fixed else "."


def _asked(name: str, why: str) -> PolicyFinding:
    return by_nature(Verdict.ASK, name, why)


_GLOB_LETTERS = "*?["


class CopyGate:
    """The check of one decision. ``hidden_too`` says that a star may stand for names with a dot."""

    def __init__(self, paths: PathJudge, *, several: bool, hidden_too: bool) -> None:
        self._paths, self._several, self._hidden_too = paths, several, hidden_too

    def finding(self, command: Command, directories: Directories) -> PolicyFinding | None:
        """A protected name that is known to be written."""
        copy = copy_of(command)
        for cwd in directories.possible:
            for name in (
                self._written(copy, cwd or "/")
                if copy
                else ([value for word in restored(command)[0] for value in _values(word)])
            ):
                if guarded := self._paths.guarded(self._paths.file(name, cwd or "/")):
                    return guarded
            held = self._held(copy, cwd or "/") if copy else None
            if held:
                return by_nature(Verdict.ASK, f"protected name {held}", f"the source holds {held}")
        return None

    def opaque(self, command: Command, directories: Directories) -> PolicyFinding | None:
        """Why the names that are written cannot be known."""
        why = unpacks(command)
        paths, reason = restored(command)
        why = why or reason
        for path in paths if why is None else ():
            if any(
                self._paths.is_directory(value, cwd or "/")
                for value in _values(path)
                for cwd in directories.possible
            ):
                why = "a directory of the repository"
        copy = copy_of(command)
        if why is None and copy and copy.deep:
            unlisted = (
                self._unlisted(copy, source, cwd or "/")
                for source in copy.sources
                for cwd in directories.possible
            )
            why = next((found for found in unlisted if found), None)
        if why is None:
            return None
        return by_nature(Verdict.ASK, "names that are not known", f"{why} may hold a protected name")

    def _written(self, copy: Copy, cwd: str) -> Iterator[str]:
        yield from (value for word in copy.created for value in _values(word))
        for target in _values(copy.target) if copy.target else ():
            yield target
            if copy.as_file or not (
                copy.into
                or (
                    self._paths.is_directory(target, cwd)
                    or (self._several and not self._paths.exists(target, cwd))
                )
            ):
                continue
            for source in copy.sources:
                for value in _values(source):
                    base = value.rstrip("/").rpartition("/")[2]
                    for name in self._matches(value, cwd) if source.globs else [base]:
                        if name not in ("", ".", ".."):
                            yield f"{target}/{name}"
                    if copy.with_parents:
                        yield f"{target}/{value}"

    def _held(self, copy: Copy, cwd: str) -> str | None:
        """A protected name inside a directory that is taken along."""
        for source in copy.sources if copy.deep else ():
            for value in _values(source):
                for place in self._expanded(value, cwd) if source.globs else [value]:
                    base = place.rstrip("/").rpartition("/")[2]
                    above = (base, *(_values(copy.target) if copy.target else ()))
                    for name in self._paths.names_in(place, cwd) or ():
                        if found := next(
                            filter(None, (protected_name(f"{one}/{name}") for one in above)), None
                        ):
                            return found
        return None

    def _unlisted(self, copy: Copy, source: Word, cwd: str) -> str | None:
        for value in _values(source):
            listed = source.globs or self._paths.names_in(value, cwd) is not None
            file = self._paths.exists(value, cwd) and not self._paths.is_directory(value, cwd)
            if copy.follows or not (listed or file or copy.program in ("mv", "ln")):
                return f"{value}, which cannot be listed,"
        return None

    def _expanded(self, pattern: str, cwd: str) -> list[str]:
        directory = pattern.rpartition("/")[0]
        return [f"{directory or '.'}/{name}" for name in self._matches(pattern, cwd)]

    def _matches(self, pattern: str, cwd: str) -> list[str]:
        """The names that a pattern stands for; all of them when a directory is a pattern too."""
        directory, _, last = pattern.rstrip("/").rpartition("/")
        if any(letter in directory for letter in _GLOB_LETTERS):
            return [last.replace("*", "")]
        found = (
            self._paths.names_in(directory or ("/" if pattern.startswith("/") else "."), cwd) or frozenset()
        )
        top = {name for name in found if "/" not in name}
        return sorted(
            name
            for name in top
            if fnmatchcase(name, last.replace("[!", "[^").replace("[^", "[!"))
            and (self._hidden_too or last.startswith(".") or not name.startswith("."))
        )


def _values(word: Word) -> tuple[str, ...]:
    if word.text is not None:
        return (word.text,)
    return tuple(dict.fromkeys((*word.likely, *sorted(tokens(word.raw)))))
