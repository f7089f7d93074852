"""Settings in the client's layers: which value is effective, and the file and line it came from.

Layers from the weakest to the strongest: config, user, project, local, command line, managed. Objects are merged key
by key, lists are concatenated without duplicates, and for any other value the strongest layer wins. A layer
with one fault is ignored as a whole, as in the client.

Values that a repository could have written (``from_repository``) are only partly effective until the
workspace is trusted: what loosens, names programs or sets the environment waits (``WAITS_FOR_TRUST``; R22,
E01, E02); deny and ask apply at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from recollect.model.json.places import BadJson, LocatedValue, located
from recollect.model.settings.schema import Path, SchemaFault, dropped, faults, written_path

SettingScope = Literal["config", "user", "project", "local", "command line", "managed"]
"""The values of ``policy.decision.Scope``, weakest first, after ``config``, which no client reads."""
SCOPES: tuple[SettingScope, ...] = ("config", "user", "project", "local", "command line", "managed")

WAITS_FOR_TRUST: frozenset[Path] = frozenset(
    {
        ("permissions", "allow"),
        ("permissions", "additionalDirectories"),
        ("permissions", "defaultMode"),
        *(
            (name,)
            for name in (
                "apiKeyHelper",
                "awsAuthRefresh",
                "awsCredentialExport",
                "enableAllProjectMcpServers",
                "enabledMcpjsonServers",
                "env",
                "fileSuggestion",
                "gcpAuthRefresh",
                "hooks",
                "otelHeadersHelper",
                "processWrapper",
                "proxyAuthHelper",
                "sandbox",
                "skipDangerousModePermissionPrompt",
                "statusLine",
            )
        ),
    }
)


class SettingOrigin(NamedTuple):
    """Where a value is set. ``path`` is None for the command line itself."""

    scope: SettingScope
    path: str | None
    line: int


class SettingsProblem(NamedTuple):
    """A part of a layer that the client would not accept, with its position.

    ``whole_file``: it ignores the file for it, deny rules included; else only this value is dropped.
    """

    path: str | None
    line: int
    key: str
    expected: str
    found: str
    whole_file: bool = True

    def __str__(self) -> str:
        place = f"{self.path or 'command line'}:{self.line}"
        what = f"{self.key or 'the file'}: expected {self.expected}, found {self.found}"
        end = IGNORED if self.whole_file else "the client drops this value"
        return f"{place}: {what}; {end}"


IGNORED = "the client would ignore this whole file, its deny rules included"


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """One source of settings. ``root`` is None if there is nothing, or nothing readable."""

    scope: SettingScope
    path: str | None
    root: LocatedValue | None = None
    problems: tuple[SettingsProblem, ...] = ()
    from_repository: bool = False
    anchor: str | None = None
    """The base directory of this file's ``/path`` rules."""

    @property
    def counts(self) -> bool:
        """Whether the client would use any of it."""
        return self.root is not None and not any(problem.whole_file for problem in self.problems)

    def origin(self, place: LocatedValue) -> SettingOrigin:
        return SettingOrigin(self.scope, self.path, place.line)


class Setting(NamedTuple):
    """One effective value, or one item of a list. ``hides`` are weaker places of the same key."""

    path: Path
    value: object
    origin: SettingOrigin
    hides: tuple[SettingOrigin, ...] = ()

    @property
    def key(self) -> str:
        """The path in text form; an item of a list has the list's."""
        return written_path(tuple(step for step in self.path if isinstance(step, str)))


class Settings(NamedTuple):
    """All effective values, in file order; ``waiting`` becomes effective once the workspace is trusted."""

    values: tuple[Setting, ...]
    waiting: tuple[Setting, ...]

    def of(self, *path: str) -> list[Setting]:
        """The values at a path: one setting, the items of a list, or none."""
        return [one for one in self.values if one.path[: len(path)] == path]

    def value(self, *path: str) -> object:
        """A single value; None if not set."""
        found = [one for one in self.values if one.path == path]
        return found[0].value if found else None


def layer_of(
    scope: SettingScope,
    path: str | None,
    data: bytes | None,
    *,
    from_repository: bool = False,
    anchor: str | None = None,
) -> SettingsLayer:
    """The layer of a file; an empty or missing file gives an empty layer."""
    if data is None or not data.strip():
        return SettingsLayer(scope, path, from_repository=from_repository, anchor=anchor)
    try:
        root = located(data)
    except BadJson as problem:
        bad = SettingsProblem(path, problem.line, "", "JSON", f"{problem.what} at column {problem.column}")
        return SettingsLayer(scope, path, None, (bad,), from_repository, anchor)
    found = [_problem(path, root, one, whole_file=True) for one in faults(root.value)]
    found += [_problem(path, root, one, whole_file=False) for one in dropped(root.value)]
    return SettingsLayer(scope, path, root, tuple(found), from_repository, anchor)


def checked_layer(scope: SettingScope, path: str, root: LocatedValue, *, anchor: str) -> SettingsLayer:
    """A layer of values that are already read; a wrong value is left out, the others count."""
    wrong = [*faults(root.value), *dropped(root.value)]
    found = tuple(_problem(path, root, one, whole_file=False) for one in wrong)
    return SettingsLayer(scope, path, root, found, anchor=anchor)


def _problem(
    path: str | None, root: LocatedValue, fault: SchemaFault, *, whole_file: bool
) -> SettingsProblem:
    place = root.at(fault.path) or root
    return SettingsProblem(path, place.shown_line, fault.key, fault.expected, fault.found, whole_file)


def effective(layers: Iterable[SettingsLayer], *, trusted: bool = True) -> Settings:
    """Merge layers, given in any order."""
    counting = sorted((layer for layer in layers if layer.counts), key=lambda one: SCOPES.index(one.scope))
    leaves: list[tuple[Path, SettingsLayer, LocatedValue]] = []
    waiting: list[Setting] = []
    for layer in counting:
        for path, place in _leaves(layer):
            if layer.from_repository and not trusted and _waits(path):
                waiting.append(Setting(path, place.value, layer.origin(place)))
            else:
                leaves.append((path, layer, place))
    return Settings(tuple(_merged(leaves)), tuple(waiting))


def _leaves(layer: SettingsLayer) -> Iterator[tuple[Path, LocatedValue]]:
    """Non-object values and list items, each with its path, without those the client drops."""
    skipped = {problem.key for problem in layer.problems}
    todo: list[tuple[Path, LocatedValue]] = [((), layer.root)] if layer.root is not None else []
    while todo:
        path, place = todo.pop()
        if written_path(path) in skipped and path:
            continue
        inner: list[tuple[Path, LocatedValue]] = [((*path, name), one) for name, one in place.members.items()]
        if isinstance(place.value, list):
            items = (((*path, number), one) for number, one in enumerate(place.items))
            yield from (item for item in items if written_path(item[0]) not in skipped)
        elif inner:
            todo += reversed(inner)
        elif not isinstance(place.value, dict):
            yield path, place


def _waits(path: Path) -> bool:
    return any(path[:length] in WAITS_FOR_TRUST for length in (1, 2))


def _merged(leaves: Sequence[tuple[Path, SettingsLayer, LocatedValue]]) -> Iterator[Setting]:
    """Single values from the strongest layer, list items one after the other."""
    singles: dict[Path, list[tuple[SettingsLayer, LocatedValue]]] = {}
    order: dict[Path, list[Setting]] = {}
    for path, layer, place in leaves:
        if isinstance(path[-1], int):
            items = order.setdefault(path[:-1], [])
            if all(one.value != place.value for one in items):
                items.append(Setting((*path[:-1], len(items)), place.value, layer.origin(place)))
        else:
            singles.setdefault(path, []).append((layer, place))
            order.setdefault(path, [])
    for path, found in order.items():
        if path in singles:
            *weaker, (layer, place) = singles[path]
            hides = tuple(one.origin(other) for one, other in weaker)
            yield Setting(path, place.value, layer.origin(place), hides)
        yield from found
