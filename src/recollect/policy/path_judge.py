"""Path rules applied to a file: denied by any of its names, allowed only by all of them (R12-R15)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from recollect.policy.decision import Verdict
from recollect.policy.findings import Finding, by_nature, by_rule
from recollect.policy.path_pattern import Anchor, PathPattern, escaped
from recollect.policy.paths import (
    NamedFile,
    Place,
    absolute,
    collapsed,
    folded,
    inside,
    named_file,
    relative_to,
)
from recollect.policy.protected import protected_name
from recollect.policy.rule_index import PathRule, RuleIndex
from recollect.policy.rules import Rule
from recollect.policy.world import World

_WORKTREE = re.compile(r".*/\.claude/worktrees/[^/]+/")
_WILD = re.compile(r"[*?\[\\]")
_FEW = 8
_REMEMBERED = 4096
_ALWAYS_WRITABLE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where the session works. ``directories`` are those besides ``cwd`` that it may read and edit."""

    cwd: str
    directories: tuple[str, ...] = ()
    home: str = "/root"
    trusted: bool = False


class PathJudge:
    """All path rules of an engine, their anchors looked up once."""

    def __init__(self, indexes: dict[Verdict, RuleIndex], workspace: Workspace, world: World) -> None:
        self._indexes = indexes
        self._world = world
        self.place = Place(collapsed(workspace.cwd), collapsed(workspace.home))
        self._tails: dict[tuple[Verdict, str], Tails] = {}
        self._anchors: dict[tuple[Anchor, str | None, int], tuple[str, ...]] = {}
        roots = [self.place.cwd, *(collapsed(directory) for directory in workspace.directories)]
        self._roots = tuple({form for root in roots for form in (root, self._real(root))})

    def file(self, path: str, cwd: str | None = None) -> NamedFile:
        """The file that the argument names, from the working directory or another one."""
        place = self.place if cwd is None else Place(cwd, self.place.home)
        return named_file(path, place, self._world)

    def written(self, path: str, cwd: str) -> str:
        """The absolute path that the argument stands for, links not followed."""
        return collapsed(absolute(path, Place(cwd, self.place.home)))

    def in_workspace(self, file: NamedFile) -> bool:
        """Whether the file is in a working directory by every name it has."""
        return all(any(inside(form, root) for root in self._roots) for form in file.forms)

    def is_root(self, path: str) -> bool:
        """Whether the path is one of the working directories itself."""
        return all(form in self._roots for form in self.file(path).forms)

    def denied_below(self, directory: NamedFile) -> Rule | None:
        """A Read deny for something that exists in the directory and goes by a plain name."""
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

    def forbids(self, verdict: Verdict, file: NamedFile, kinds: Iterable[str]) -> Rule | None:
        """The first deny (or ask) rule that could mean the file, under any of its names."""
        forms = [folded(form) for form in file.forms]
        components = {part for form in forms for part in form.split("/")}
        for kind in kinds:
            for _, rule, pattern in self._about(verdict, kind, components):
                if any(pattern.may_mean(below) for below in self._below(rule, pattern, forms, generous=True)):
                    return rule
        return None

    def forbids_glob(self, verdict: Verdict, path: str, cwd: str | None, kinds: Iterable[str]) -> Rule | None:
        """The same for a word the shell expands, or a name in a directory nobody knows (``cwd`` None)."""
        known = cwd is not None or path.startswith(("/", "~/"))
        if path.startswith("~/"):
            path = escaped(self.place.home) + path[1:]
        if not path.startswith("/"):
            path = ("/**" if cwd is None else escaped(cwd)) + "/" + path
        glob = folded(collapsed(path))
        components = None if _WILD.search(glob.replace("/**/", "/")) else set(glob.split("/"))
        for kind in kinds:
            for _, rule, pattern in self._about(verdict, kind, components):
                directories = ("/",) if pattern.floating else self._folded_directories(rule, pattern)
                if any(pattern.meets(directory, glob, trees=known) for directory in directories):
                    return rule
        return None

    def _about(self, verdict: Verdict, kind: str, components: set[str] | None) -> Iterable[PathRule]:
        """The rules that could mean a path of these components, in order; None stands for any."""
        rules = self._indexes[verdict].paths[kind]
        if components is None or len(rules) < _FEW:
            return rules
        tails = self._tails.get((verdict, kind))
        if tails is None:
            tails = self._tails[verdict, kind] = Tails(rules)
        return tails.about(components)

    def permits(self, file: NamedFile, kind: str) -> Rule | None:
        """An allow rule for the file; every name it has needs one (R15)."""
        found: Rule | None = None
        for form in file.forms:
            rule = self._permits_form(form, self._indexes[Verdict.ALLOW].paths[kind])
            if rule is None:
                return None
            found = found or rule
        return found

    def _permits_form(self, form: str, rules: list[PathRule]) -> Rule | None:
        for _, rule, pattern in rules:
            if any(pattern.matches(below) for below in self._below(rule, pattern, [form], generous=False)):
                return rule
        return None

    def readable(self, file: NamedFile) -> Finding | None:
        """Why the file may be read, or None when somebody must be asked."""
        if file.special:
            return None
        rule = self.permits(file, "Read")
        if rule:
            return by_rule(rule, f"{file.given} may be read")
        if self.in_workspace(file):
            return Finding(Verdict.ALLOW, f"{file.given} is in a working directory")
        return None

    def writable(self, file: NamedFile, *, edits_run: bool) -> Finding | None:
        """Why the file may be written, or None when somebody must be asked."""
        if file.written in _ALWAYS_WRITABLE:
            return Finding(Verdict.ALLOW, f"{file.written} keeps nothing")
        if file.special or self.guarded(file):
            return None
        rule = self.permits(file, "Edit")
        if rule:
            return by_rule(rule, f"{file.given} may be edited")
        if edits_run and self.in_workspace(file):
            return Finding(Verdict.ALLOW, f"the mode accepts edits in the working directories: {file.given}")
        return None

    def guarded(self, file: NamedFile) -> Finding | None:
        """The built-in ask for names that decide what other programs run."""
        for form in file.forms:
            name = protected_name(self._own_part(form))
            if name:
                return by_nature(Verdict.ASK, f"protected name {name}", f"{file.given} would change {name}")
        return None

    def _own_part(self, form: str) -> str:
        """The path below the worktree we work in: a checkout in ``.claude/worktrees`` is not all protected."""
        for root in (self.place.cwd, self._real(self.place.cwd)):
            worktree = _WORKTREE.match(root + "/")
            below = relative_to(form, worktree.group().rstrip("/")) if worktree else None
            if below is not None:
                return below
        return form

    def _below(self, rule: Rule, pattern: PathPattern, forms: list[str], *, generous: bool) -> list[str]:
        """The forms as paths below the pattern's anchors. A bare name in a deny floats over the whole disk."""
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


class Tails:
    """Path rules by their last component, which every path that they mean must have."""

    def __init__(self, rules: Iterable[PathRule]) -> None:
        self._named: dict[str, list[PathRule]] = defaultdict(list)
        self._wild: list[PathRule] = []
        for entry in rules:
            tail = entry[2].tail
            (self._wild if tail is None else self._named[tail]).append(entry)
        self._known: dict[str, bool] = {}
        parts = {entry[2].tail_expression for entry in self._wild}
        self._some_wild = re.compile("|".join(f"(?:{part})" for part in sorted(parts)), re.DOTALL)

    def _ends_some_wild(self, component: str) -> bool:
        """Remembered: the components of a project's paths come again and again."""
        known = self._known.get(component)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[component] = self._some_wild.fullmatch(component) is not None
        return known

    def about(self, components: set[str]) -> list[PathRule]:
        """The rules that could mean a path of these components, in order."""
        found = [entry for part in components for entry in self._named.get(part, ())]
        if self._wild and any(map(self._ends_some_wild, components)):
            found += self._wild
        return sorted(found, key=_order)


def _order(entry: PathRule) -> int:
    return entry[0]
