"""The type of every setting, for a client that ignores a whole file because of one wrong value.

Client 2.1.325 reads a settings file all or nothing: with one known key of the wrong type the whole file is
ignored, deny rules included (reported on stderr, which is not visible in print mode). A malformed rule alone
is skipped, unknown keys are accepted, and a few keys with a wrong value are dropped alone (``LENIENT``). All
of this was tested with the real client (``tests/oracle/test_settings.py``); the table lists facts about it
and decides nothing else.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from recollect.model.lines.json_edit import BadJson, LocatedValue, located

Path = tuple[str | int, ...]
MODES = ("default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
"""Permission modes; ``manual`` means ``default``."""


class SchemaFault(NamedTuple):
    """A value the client does not accept: its path, the expected type, and what it is."""

    path: Path
    expected: str
    found: str

    @property
    def key(self) -> str:
        """The path in text form: ``permissions.deny[2]``."""
        return written_path(self.path)


class ValueType(NamedTuple):
    """A type: its test and its name."""

    accepts: Callable[[object], bool]
    words: str


def written_path(path: Path) -> str:
    """``("permissions", "deny", 2)`` as ``permissions.deny[2]``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def described(value: object) -> str:
    """The type of a value, without quoting it: settings hold secrets."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value >= least and value == value // 1


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _one_of(*words: str) -> ValueType:
    return ValueType(lambda value: value in words, "one of " + ", ".join(words))


FLAG = ValueType(lambda value: isinstance(value, bool), "true or false")
TEXT = ValueType(lambda value: isinstance(value, str), "a text")
TEXTS = ValueType(_is_texts, "a list of texts")
OBJECT = ValueType(lambda value: isinstance(value, dict), "an object")
LIST = ValueType(lambda value: isinstance(value, list), "a list")
COUNT = ValueType(lambda value: _is_whole(value, 1), "a whole number of at least 1")
COUNT_OR_0 = ValueType(lambda value: _is_whole(value, 0), "a whole number of at least 0")
SHARE = ValueType(
    lambda value: isinstance(value, int | float) and _is_number(value) and 0 < value <= 1,
    "a number above 0 and up to 1",
)
TEXT_OR_TEXTS = ValueType(
    lambda value: isinstance(value, str) or _is_texts(value), "a text or a list of texts"
)
FLAG_OR_OBJECT = ValueType(lambda value: isinstance(value, bool | dict), "true, false or an object")
COMMAND = ValueType(
    lambda value: (
        isinstance(value, dict) and value.get("type") == "command" and isinstance(value.get("command"), str)
    ),
    'an object {"type": "command", "command": text}',
)
_HOOK_NEEDS = {"command": "command", "prompt": "prompt", "agent": "prompt", "http": "url"}
HOOK = ValueType(
    lambda value: (
        isinstance(value, dict)
        and (kind := value.get("type")) in (*_HOOK_NEEDS, "mcp_tool")
        and (kind == "mcp_tool" or isinstance(value.get(_HOOK_NEEDS[kind]), str))
    ),
    'an object such as {"type": "command", "command": text}',
)
MODE = _one_of(*MODES)
DISABLE = _one_of("disable")

_TYPES = {
    "flag": FLAG,
    "text": TEXT,
    "texts": TEXTS,
    "object": OBJECT,
    "list": LIST,
    "count": COUNT,
    "count_or_0": COUNT_OR_0,
    "share": SHARE,
    "text_or_texts": TEXT_OR_TEXTS,
    "flag_or_object": FLAG_OR_OBJECT,
    "command": COMMAND,
    "disable": DISABLE,
}
_TABLE = msgspec.toml.decode(pkgutil.get_data(__name__, "schema.toml") or b"")


def _keys(section: dict[str, Any]) -> dict[str, ValueType]:
    choices = {name: _one_of(*words) for name, words in section.pop("choices").items()}
    return {name: _TYPES[kind] for kind, names in section.items() for name in names} | choices


SCHEMA: Mapping[str, ValueType] = _keys(_TABLE["strict"])
LENIENT: Mapping[str, ValueType] = _keys(_TABLE["lenient"])
"""Keys of which only a wrong value is dropped; the rest of the file counts."""
RULE_LISTS = ("allow", "ask", "deny")
HOOK_EVENTS: list[str] = _TABLE["more"]["hook_events"]
"""Events whose hooks the client checks; for any other name it drops only that entry."""
PERMISSIONS: Mapping[str, ValueType] = {
    **dict.fromkeys(RULE_LISTS, LIST),
    "defaultMode": MODE,
    "additionalDirectories": TEXTS,
    "disableBypassPermissionsMode": DISABLE,
    "blockReadsOutsideWorkingDirectories": FLAG,
}


def faults(document: object) -> Iterator[SchemaFault]:
    """Every value for which the client would ignore the whole file, in file order."""
    if not isinstance(document, dict):
        yield SchemaFault((), "an object", described(document))
        return
    for name, value in document.items():
        yield from _fault((name,), value, SCHEMA.get(name))
        if name == "permissions" and isinstance(value, dict):
            for inner, part in value.items():
                yield from _fault((name, inner), part, PERMISSIONS.get(inner))
        elif name == "hooks" and isinstance(value, dict):
            yield from _hook_faults(value)


def dropped(document: object) -> Iterator[SchemaFault]:
    """Values that are dropped alone; the rest of the file counts."""
    if not isinstance(document, dict):
        return
    for name, value in document.items():
        yield from _fault((name,), value, LENIENT.get(name))
    permissions = document.get("permissions")
    for name in RULE_LISTS:
        rules = permissions.get(name) if isinstance(permissions, dict) else None
        for number, rule in enumerate(rules if isinstance(rules, list) else ()):
            yield from _fault(("permissions", name, number), rule, TEXT)


def kind_of(path: Path) -> ValueType | None:
    """The type of a setting by its path; None where the client accepts anything."""
    if path[:1] == ("permissions",) and path[1:] in {(name,) for name in RULE_LISTS}:
        return TEXTS
    if len(path) == 1:
        return SCHEMA.get(str(path[0])) or LENIENT.get(str(path[0]))
    return PERMISSIONS.get(str(path[1])) if len(path) == 2 and path[0] == "permissions" else None


def _hook_faults(hooks: Mapping[str, object]) -> Iterator[SchemaFault]:
    """Each event has a list of matchers, each matcher a list of hooks, each hook a type and its fields."""
    for event in (name for name in hooks if name in HOOK_EVENTS):
        matchers = hooks[event]
        yield from _fault(("hooks", event), matchers, LIST)
        for number, one in enumerate(matchers if isinstance(matchers, list) else ()):
            path: Path = ("hooks", event, number)
            yield from _fault(path, one, OBJECT)
            if isinstance(one, dict):
                yield from _fault((*path, "matcher"), one.get("matcher", ""), TEXT)
                yield from _fault((*path, "hooks"), one.get("hooks"), LIST)
                inner = one.get("hooks")
                for at, hook in enumerate(inner if isinstance(inner, list) else ()):
                    yield from _fault((*path, "hooks", at), hook, HOOK)


def _fault(path: Path, value: object, kind: ValueType | None) -> Iterator[SchemaFault]:
    if kind is None or kind.accepts(value):
        return
    if kind is TEXTS and isinstance(value, list):
        wrong = next(number for number, one in enumerate(value) if not isinstance(one, str))
        yield SchemaFault((*path, wrong), "a text", described(value[wrong]))
        return
    yield SchemaFault(path, kind.words, described(value))


SettingScope = Literal["config", "user", "project", "local", "command line", "managed"]
"""The values of ``model.settings.decision.Scope``, weakest first, after ``config``, which no client reads."""
SCOPES: tuple[SettingScope, ...] = ("config", "user", "project", "local", "command line", "managed")

WAITS_FOR_TRUST: frozenset[Path] = frozenset(
    tuple(name.split(".")) for name in _TABLE["more"]["waits_for_trust"]
)


class SettingOrigin(Struct, frozen=True):
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
            if (
                layer.from_repository
                and not trusted
                and any(path[:length] in WAITS_FOR_TRUST for length in (1, 2))
            ):
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
