"""Protected names that a command writes although its words do not say so (C11).

For a directory as target the name is that of the source; a whole directory brings along what it holds. Both are
looked up. What an archive, a patch or a commit holds is not: it is asked about unless all of Bash is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from recollect.policy.analysis import Command, Word
from recollect.policy.commands.copying import Copy, copy_of, restored, unpacks
from recollect.policy.decision import Verdict
from recollect.policy.directory_tracking import Directories
from recollect.policy.findings import PolicyFinding, by_nature
from recollect.policy.paths.judge import PathJudge
from recollect.policy.paths.protected import protected_name
from recollect.policy.shell.scraps import tokens

_GLOB = "*?["


class CopyGate:
    """The check of one decision. ``hidden_too`` says that a star may stand for names with a dot."""

    def __init__(self, paths: PathJudge, *, several: bool, hidden_too: bool) -> None:
        self._paths, self._several, self._hidden_too = paths, several, hidden_too

    def finding(self, command: Command, directories: Directories) -> PolicyFinding | None:
        """A protected name that is known to be written."""
        copy = copy_of(command)
        for cwd in directories.possible:
            for name in self._written(copy, cwd or "/") if copy else self._from_git(command):
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

    def _from_git(self, command: Command) -> list[str]:
        return [value for word in restored(command)[0] for value in _values(word)]

    def _written(self, copy: Copy, cwd: str) -> Iterator[str]:
        yield from (value for word in copy.created for value in _values(word))
        for target in _values(copy.target) if copy.target else ():
            yield target
            if copy.as_file or not (copy.into or self._may_be_directory(target, cwd)):
                continue
            for source in copy.sources:
                for value in _values(source):
                    base = value.rstrip("/").rpartition("/")[2]
                    for name in self._matches(value, cwd) if source.globs else [base]:
                        if name not in ("", ".", ".."):
                            yield f"{target}/{name}"
                    if copy.with_parents:
                        yield f"{target}/{value}"

    def _may_be_directory(self, target: str, cwd: str) -> bool:
        """Whether it is one, or an earlier command of the text may have made it one."""
        return self._paths.is_directory(target, cwd) or (
            self._several and not self._paths.exists(target, cwd)
        )

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
        if any(letter in directory for letter in _GLOB):
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
