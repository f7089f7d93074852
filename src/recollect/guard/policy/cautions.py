"""What is asked about in a shell text although a rule allows it.

- What a deny cannot see (B14): names made at run time, words behind an unknown program. Asked only where something broad
  allows the command and some commands are denied; what is decoded or assembled is the sandbox's to hold.
- The places that file commands name (R24), because ``Bash(cat:*)`` allows a program, not a place: a path that leads out
  of the working directories, that climbs with ``..`` behind a directory, a pattern that a writing command would fill in.
  Only a rule for the whole tool lifts that; a Read or Edit rule lifts it for its own paths.
- Protected names (C11): a copy writes the names of its sources; what an archive, a patch or a commit holds is asked
  about unless all of Bash is allowed.
- In which directories the shell may be, and removals of everything (R18).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from recollect.guard.policy.command_lines import CommandPattern, listed, lists
from recollect.guard.policy.operands import Copy, copy_of, possible_values, restored, unpacks
from recollect.guard.policy.path_judge import PathJudge
from recollect.guard.policy.paths import Workspace, absolute, collapsed, protected_name
from recollect.guard.policy.programs import prints_lines, runs_unknown_text
from recollect.guard.policy.rules import by_nature
from recollect.guard.policy.shell_quoting import plain, tokens
from recollect.guard.policy.terms import Analysis, Command, Word, names
from recollect.model.settings.decision import DecisionPart, Verdict

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
_DATA = listed("data_programs")
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
        name = view.name
        if view.words and runs_unknown_text(view, name):
            return f"{name} would run a text that is not known"
        if not name or name in _DATA or len(view.words) < 2:
            continue
        rest = " ".join(_WORDS.split(plain(" ".join(word.text or word.raw for word in view.words[1:]))))
        programs = {word.rsplit("/", 1)[-1] for word in rest.split()}
        if any(pattern.literal_start and pattern.occurs_in(rest) for pattern in denied(programs)):
            return f"{name} may run the words behind it"
    return None


_BORDER = re.compile(r"[\s;|&()<>{}`$,=\"']+")
_EXPANSION = re.compile(r"\$\([^()]*\)|\$\{[^{}]*\}|`[^`]*`|\$\w+|\$[@*#?!-]")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f]")


def readings_of(text: str) -> tuple[str, ...]:
    """The text as written, with quoting removed, and with expansions removed; words are one space apart."""
    joined = text.replace("\\\n", "")
    unquoted = re.sub(r"[\"'\\]", "", joined)
    visible = _INVISIBLE.sub("", unquoted)
    bare = re.sub(r"[\"'\\]", "", _EXPANSION.sub(" ", joined))
    spaced = re.sub(r"\$\{?IFS\}?", " ", unquoted)
    texts = (" ".join(_BORDER.split(each)).strip() for each in (text, unquoted, visible, bare, spaced))
    return tuple(dict.fromkeys(texts))


def words_in(readings: Iterable[str]) -> set[str]:
    return {word for text in readings for word in text.split(" ") if word}


_CHANGERS = frozenset({"cd", "chdir", "pushd", "popd"})
_MOST = 32


class Directories:
    """All directories the shell may be in; None stands for an unknown one."""

    def __init__(self, paths: PathJudge) -> None:
        self.paths = paths
        self.possible: list[str | None] = [paths.place.cwd]
        self.left = self.outside = False
        """A command may have left the working directories' own roots; the working directories altogether."""

    def changes(self, command: Command) -> bool:
        return bool(command.words) and command.words[0].text == "cd"

    def stays(self, command: Command) -> bool:
        return all(target == self.paths.place.cwd for target in self._targets(command))

    def after(self, command: Command, views: Iterable[Command]) -> None:
        """Record a command that may have run, under any wrapper."""
        if not any(map(_moves, views)):
            return
        for target in self._targets(command):
            if target is None or not self.paths.is_root(target):
                self.left = True
            if target is None or not self.paths.in_workspace(self.paths.file(target)):
                self.outside = True
            place = target if len(self.possible) < _MOST else None
            if place not in self.possible:
                self.possible.append(place)

    def _targets(self, command: Command) -> list[str | None]:
        if not command.words or command.words[0].text not in ("cd", "pushd", "chdir"):
            return [None]
        operands = [word for word in command.words[1:] if word.text not in ("-P", "-L", "-e", "--")]
        if not operands:
            return [self.paths.place.home]
        text = operands[0].text
        if len(operands) > 1 or text is None or operands[0].globs or text.startswith(("-", "+")):
            return [None]
        if text.startswith("/"):
            return [self.paths.file(text).written]
        return [None if cwd is None else self.paths.file(text, cwd).written for cwd in self.possible]


def _moves(command: Command) -> bool:
    return bool(command.words) and command.words[0].text in _CHANGERS


def runs_git(views: Iterable[Command]) -> bool:
    return any(view.name == "git" for view in views)


_ACCEPTED = frozenset({"mkdir", "touch", "cp", "mv", "rm", "rmdir", "sed"})
_SED_OPTIONS = frozenset({"-i", "--in-place", "-E"})
_SED_EDIT = re.compile(r"s/[^/\\\n]+/[^/\\\n]*/[gi0-9]?")


def accepted_edit(command: Command) -> bool:
    """Whether ``acceptEdits`` runs the command. Its files are checked by ``held_back``."""
    argv = command.argv
    if not argv or argv[0] not in _ACCEPTED or command.words[0].raw != argv[0] or "--" in argv:
        return False
    flags = [word for word in argv[1:] if word.startswith("-")]
    if argv[0] == "touch":
        return not flags
    if argv[0] != "sed":
        return True
    operands = [word for word in argv[1:] if not word.startswith("-")]
    return len(operands) > 1 and set(flags) <= _SED_OPTIONS and _SED_EDIT.fullmatch(operands[0]) is not None


def removes_everything(command: Command, place: Workspace) -> bool:
    """Whether it is ``rm -r`` of the root, home, a directory just below the root, or an unknown path
    (R18)."""
    if command.name != "rm":
        return False
    rest = command.words[1:]
    if not any(
        word.text is None or (re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r\w*", word.text) is not None)
        for word in rest
    ):
        return False
    for word in rest:
        if word.text is None:
            return True
        full = collapsed(absolute(re.sub(r"/\*+$", "/", word.text), place))
        above_home = place.home == full or place.home.startswith(full.rstrip("/") + "/")
        if not word.text.startswith("-") and (
            above_home or (full.count("/") == 1 and word.text.startswith("/"))
        ):
            return True
    return False


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


CheckedPath = tuple[str, bool, bool]
"""A path that a checked program, or a redirect, names; whether it writes there; whether the shell expands it."""


def held_back(command: Command, directories: Directories) -> DecisionPart | None:
    """Why the command is asked about whatever prefix, wildcard or exact rule allows it."""
    name = _name(command)
    flags = [word.text for word in command.words[1:] if (word.text or "").startswith("-")]
    if name in _NO_FLAGS and flags:
        return _asked("file command with options", f"with options, {name} may name its files in other ways")
    if name == "awk" and any(flag and flag.startswith(("-f", "-i", "-E", "--")) for flag in flags):
        return _asked("awk with a program file", "an option of awk names a program to run")
    return next(filter(None, (_path(*path, directories) for path in checked_paths(command))), None)


def leads_out(command: Command, directories: Directories) -> DecisionPart | None:
    """The checks that no rule lifts: protected names, and links that lead a write out of a working directory."""
    for path, writes, _ in checked_paths(command):
        for cwd in directories.possible if writes and path not in _STREAMS else ():
            file = directories.paths.file(path, cwd or "/")
            if guarded := directories.paths.guarded(file):
                return guarded
            if directories.paths.leads_out(file) and not directories.paths.writable(file, edits_run=True):
                return _asked("link out of the working directories", f"{path} leads to {file.forms[-1]}")
    return None


def _path(path: str, writes: bool, globs: bool, directories: Directories) -> DecisionPart | None:
    if path == "-" or (writes and path in _STREAMS):
        return None
    if path.startswith("~") and path[1:2] not in ("", "/"):
        return _asked("tilde of another user", f"{path} is another user's place")
    if writes and (globs or _GLOB.search(path) or _EXPANDS.search(path)):
        return _asked("pattern in a write", f"{path} is not one exact path")
    if _CLIMBS.search(path):
        return _asked("path that climbs", f"{path} may follow a link before its ..")
    fixed = _GLOB.split(path, maxsplit=1)[0]
    # The directory that a pattern is filled in from.
    start = (fixed.rpartition("/")[0] + "/" if "/" in fixed else ".") if globs else path
    for cwd in directories.possible:
        if cwd is not None:
            file = directories.paths.file(start, cwd)
            if (
                directories.paths.writable(file, edits_run=True)
                if writes
                else directories.paths.readable(file)
            ):
                continue
        verb = "written" if writes else "read"
        return _asked(OUTSIDE, f"{path} is outside the working directories and no rule lets it be {verb}")
    return None


def checked_paths(command: Command) -> Iterator[CheckedPath]:
    """The paths that a program of the list names, and those of redirects that write."""
    name = _name(command)
    writes = name in _WRITING and not (name == "sed" and prints_lines(command.words[1:]))
    for word in _operands(name, command.words[1:]) if name in CHECKED_PROGRAMS else ():
        if "$(" in word.raw:
            yield word.raw, True, True
        for path in possible_values(word):
            # `strings @FILE` takes its words from the file.
            yield path.removeprefix("@") if name == "strings" else path, writes, word.globs
    for redirect in command.redirects:
        if redirect.writes and redirect.target is not None and redirect.target.text != "/dev/null":
            for path in possible_values(redirect.target):
                yield path, True, redirect.target.globs or path.startswith("~")


def changes_files(command: Command) -> bool:
    """Whether a program of the list, or a redirect, writes a file."""
    return any(writes for _, writes, _ in checked_paths(command))


def _name(command: Command) -> str:
    return (command.words[0].text or "") if command.words else ""


def _operands(name: str, words: Sequence[Word]) -> Iterator[Word]:
    if name == "cd":
        yield from [word for word in words if word.text not in ("-P", "-L", "-e", "--")] or [Word("~", "~")]
    elif name == "find":
        # The starting points, and every later word that leads away.
        starts = True
        for word in words:
            text = word.text or ""
            starts = starts and (text in ("-H", "-L", "-P") or not text.startswith(("-", "(", "!")))
            if (starts and not text.startswith("-")) or text.startswith(("/", "~", "..")):
                yield word
    elif name == "git":
        yield from _of_git(words)
    else:
        yield from _of_program(name, words)


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


def _asked(name: str, why: str) -> DecisionPart:
    return by_nature(Verdict.ASK, name, why)


class CopyGate:
    """The check of one decision. ``hidden_too`` says that a star may stand for names with a dot."""

    def __init__(self, paths: PathJudge, *, several: bool, hidden_too: bool) -> None:
        self._paths, self._several, self._hidden_too = paths, several, hidden_too

    def finding(self, command: Command, directories: Directories) -> DecisionPart | None:
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

    def opaque(self, command: Command, directories: Directories) -> DecisionPart | None:
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
        if _GLOB.search(directory):
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
