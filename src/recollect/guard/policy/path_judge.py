"""Path rules applied to a file: denied by any of its names, allowed only by all of them (R12-R15)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from recollect.guard.policy.paths import (
    Anchor,
    NamedFile,
    PathPattern,
    Workspace,
    absolute,
    collapsed,
    escaped,
    folded,
    inside,
    named_file,
    protected_name,
    relative_to,
)
from recollect.guard.policy.rules import PathRule, Rule, RuleIndex, by_itself, by_nature, by_rule
from recollect.guard.policy.terms import World
from recollect.model.settings.decision import DecisionPart, Verdict


class MemoizedWorld:
    """A world that remembers its first answers."""

    def __init__(self, world: World) -> None:
        self.resolved = cache(world.resolved)
        self.identity = cache(world.identity)
        self.is_regular_or_missing = cache(world.is_regular_or_missing)
        self.is_directory = cache(world.is_directory)
        self.names_in = cache(world.names_in)


_WORKTREE = re.compile(r".*/\.claude/worktrees/[^/]+/")
_WILD = re.compile(r"[*?\[\\]")
_ALWAYS_WRITABLE = frozenset({"/dev/null"})


@dataclass
class PathJudge:
    """All path rules of an engine, with resolved anchors."""

    place: Workspace
    _indexes: dict[Verdict, RuleIndex]
    _world: World
    _roots: tuple[str, ...]
    _hooks: tuple[str, ...] = ()
    _anchors: dict[tuple[Anchor, str | None, int], tuple[str, ...]] = field(default_factory=dict)
    _files: dict[tuple[str, str | None], NamedFile] = field(default_factory=dict)

    @classmethod
    def of(cls, indexes: dict[Verdict, RuleIndex], workspace: Workspace, world: World) -> PathJudge:
        """The rules in a workspace. Judge files only with the result of ``seeing``."""
        place = replace(workspace, cwd=collapsed(workspace.cwd), home=collapsed(workspace.home))
        roots = [place.cwd, *(collapsed(directory) for directory in workspace.directories)]
        forms = {form for root in roots for form in (root, collapsed(world.resolved(root)))}
        hooks = {collapsed(form) for hook in workspace.hooks for form in (hook, world.resolved(hook))}
        return cls(place, indexes, world, tuple(forms), tuple(hooks))

    def seeing(self, world: MemoizedWorld) -> PathJudge:
        """The same rules for one decision: each file is looked up once."""
        return replace(self, _world=world, _files={})

    def file(self, path: str, cwd: str | None = None) -> NamedFile:
        """The file that the argument names, relative to the working directory or to ``cwd``."""
        found = self._files.get((path, cwd))
        if found is None:
            found = self._files[path, cwd] = named_file(path, self._place(cwd), self._world)
        return found

    def _place(self, cwd: str | None) -> Workspace:
        return self.place if cwd is None else replace(self.place, cwd=cwd)

    def in_workspace(self, file: NamedFile) -> bool:
        return all(any(inside(form, root) for root in self._roots) for form in file.forms)

    def leads_out(self, file: NamedFile) -> bool:
        """Whether the path as written is in a working directory and a link leads it out of all of them."""
        return any(inside(file.written, root) for root in self._roots) and not self.in_workspace(file)

    def exists(self, path: str, cwd: str) -> bool:
        return self._world.identity(absolute(path, self._place(cwd))) is not None

    def is_directory(self, path: str, cwd: str) -> bool:
        return self._world.is_directory(absolute(path, self._place(cwd)))

    def names_in(self, path: str, cwd: str) -> frozenset[str] | None:
        """The relative paths below a directory, or None when it cannot be listed."""
        return self._world.names_in(absolute(path, self._place(cwd)))

    def is_root(self, path: str) -> bool:
        return all(form in self._roots for form in self.file(path).forms)

    def denied_below(self, directory: NamedFile) -> Rule | None:
        """A Read deny for an existing file in the directory that the rule names without wildcards."""
        for _, rule, pattern in self._indexes[Verdict.DENY].paths["Read"]:
            if pattern.plain is None:
                continue
            starts = directory.forms if pattern.floating else self._directories(rule, pattern)
            for start in starts:
                path = f"{start.rstrip('/')}/{pattern.plain}"
                within = any(inside(path, form) for form in directory.forms)
                if within and self._world.identity(path) is not None:
                    return rule
        return None

    def forbids(self, verdict: Verdict, forms: Iterable[str], kinds: Iterable[str]) -> Rule | None:
        """The first deny (or ask) rule that could match any of these paths."""
        names = [folded(form) for form in forms]
        components = {part for name in names for part in name.split("/")}
        for kind in kinds:
            for _, rule, pattern in self._indexes[verdict].tails[kind].about(components):
                if any(pattern.may_mean(below) for below in self._below(rule, pattern, names, generous=True)):
                    return rule
        return None

    def forbids_word(self, verdict: Verdict, word: str) -> Rule | None:
        """The same for a word that may name a file in the working directory or an unknown one, or several."""
        kinds = ("Read", "Edit")
        if any(letter in word for letter in "*?["):
            return self.forbids_glob(verdict, word, None, kinds)
        forms, word = self.file(word).forms, re.sub(r"([\\*?\[\]])", r"\\\1", word)
        return self.forbids(verdict, forms, kinds) or self.forbids_glob(verdict, word, None, kinds)

    def forbids_glob(self, verdict: Verdict, path: str, cwd: str | None, kinds: Iterable[str]) -> Rule | None:
        """The same for a word the shell expands, or a name in an unknown directory (``cwd`` None)."""
        glob, known = self._glob(path, cwd)
        for kind in kinds:
            for _, rule, pattern in self._about_glob(verdict, kind, glob, known=known):
                directories = ("/",) if pattern.floating else self._folded_directories(rule, pattern)
                if any(pattern.meets(directory, glob, trees=known) for directory in directories):
                    return rule
        return None

    def _glob(self, path: str, cwd: str | None) -> tuple[str, bool]:
        """The word as an absolute case-folded glob, and whether its directory is known."""
        known = cwd is not None or path.startswith(("/", "~/"))
        if path.startswith("~/"):
            path = escaped(self.place.home) + path[1:]
        if not path.startswith("/"):
            path = ("/**" if cwd is None else escaped(cwd)) + "/" + path
        return folded(collapsed(path)), known

    def _about_glob(self, verdict: Verdict, kind: str, glob: str, *, known: bool) -> Iterable[PathRule]:
        """The rules that could match a path of this glob; its directory may not be ``known``."""
        components = glob.split("/")
        # Wild is what has more wildcards than the ``**`` of an unknown directory.
        if not _WILD.search(glob.replace("/**/", "/")):
            return self._indexes[verdict].tails[kind].about(set(components))
        if known and "**" in components:
            return self._indexes[verdict].paths[kind]
        return self._indexes[verdict].tails[kind].meeting(components if known else components[-1:])

    def permits(self, file: NamedFile, kind: str) -> Rule | None:
        """An allow rule for the file; every name it has needs one (R15)."""
        found = []
        for form in file.forms:
            rules = (
                rule
                for _, rule, pattern in self._indexes[Verdict.ALLOW].paths[kind]
                if any(map(pattern.matches, self._below(rule, pattern, [form], generous=False)))
            )
            found.append(next(rules, None))
        return found[0] if all(found) else None

    def readable(self, file: NamedFile) -> DecisionPart | None:
        """Why the file may be read, or None when a person must be asked."""
        if file.special:
            return None
        rule = self.permits(file, "Read")
        if rule:
            return by_rule(rule, f"{file.given} may be read")
        if self.in_workspace(file):
            return by_itself(Verdict.ALLOW, f"{file.given} is in a working directory")
        return None

    def writable(self, file: NamedFile, *, edits_run: bool) -> DecisionPart | None:
        """Why the file may be written, or None when a person must be asked."""
        if file.written in _ALWAYS_WRITABLE:
            return by_itself(Verdict.ALLOW, f"{file.written} stores nothing")
        if file.special or self.guarded(file):
            return None
        rule = self.permits(file, "Edit")
        if rule:
            return by_rule(rule, f"{file.given} may be edited")
        if edits_run and self.in_workspace(file):
            return by_itself(
                Verdict.ALLOW, f"the mode accepts edits in the working directories: {file.given}"
            )
        return None

    def guarded(self, file: NamedFile) -> DecisionPart | None:
        """The built-in ask for names that decide what other programs run."""
        for form in file.forms:
            name = protected_name(self._own_part(form))
            if name is None and any(inside(form, hooks) for hooks in self._hooks):
                name = "core.hooksPath"
            if name:
                return by_nature(Verdict.ASK, f"protected name {name}", f"{file.given} would change {name}")
        return None

    def _own_part(self, form: str) -> str:
        """The path below the current worktree: a checkout in ``.claude/worktrees`` is not protected as a
        whole."""
        for root in (self.place.cwd, self._real(self.place.cwd)):
            worktree = _WORKTREE.match(root + "/")
            below = relative_to(form, worktree.group().rstrip("/")) if worktree else None
            if below is not None:
                return below
        return form

    def _below(self, rule: Rule, pattern: PathPattern, forms: list[str], *, generous: bool) -> list[str]:
        """The forms as paths below the pattern's anchors. A bare name in a deny matches anywhere on the
        disk."""
        if generous and pattern.floating:
            return [form.lstrip("/") for form in forms]
        directories = (self._folded_directories if generous else self._directories)(rule, pattern)
        found = (relative_to(form, directory) for form in forms for directory in directories)
        return [below for below in found if below is not None]

    def _directories(self, rule: Rule, pattern: PathPattern) -> tuple[str, ...]:
        key = (pattern.anchor, rule.source.anchor, pattern.climbs)
        found = self._anchors.get(key)
        if found is None:
            start = {
                Anchor.ROOT: "/",
                Anchor.HOME: self.place.home,
                Anchor.CWD: self.place.cwd,
                Anchor.SOURCE: collapsed(rule.source.anchor or self.place.cwd),
            }[pattern.anchor]
            start = collapsed(start + "/.." * pattern.climbs)
            found = self._anchors[key] = tuple({start, self._real(start)})
        return found

    def _folded_directories(self, rule: Rule, pattern: PathPattern) -> tuple[str, ...]:
        return tuple(map(_folded, self._directories(rule, pattern)))

    def _real(self, path: str) -> str:
        return collapsed(self._world.resolved(path))


_folded = lru_cache(maxsize=256)(folded)
