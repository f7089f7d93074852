"""The effective settings of a directory, the source of each, and changing one of them with an undo.

``loaded`` reads the layers as the client does. From ``.claude.json`` it reads for the directory: whether it
is trusted (by its own path alone: trusting a parent does not trust what is inside, R22), its servers, and
``allowedTools``, which has no effect any more and is only reported.

``planned`` changes one key of one file: every other character stays, unknown keys included, and a result that
the client would ignore is refused. The change goes through the journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from recollect.errors import StorageError, UsageError
from recollect.model.json import edit as json_edit
from recollect.model.settings.config_merge import parsed
from recollect.model.settings.schema import RULE_LISTS, kind_of
from recollect.model.settings.settings import (
    Settings,
    SettingScope,
    SettingsLayer,
    SettingsProblem,
    effective,
    layer_of,
)
from recollect.policy.decision import RuleSource, Verdict
from recollect.policy.decision import Scope as RuleScope
from recollect.policy.rules.rule import Rule, RuleProblem, parse_rule
from recollect.services.settings.config_layer import config_layer
from recollect.storage.changes.journal import AppliedChange, ChangeJournal, ChangePlan, FileState
from recollect.storage.config import settings_files
from recollect.storage.home import ClaudeHome

How = Literal["set", "add", "remove", "unset"]
UNREADABLE = "a file that can be read"


class ProjectFacts(Struct, frozen=True):
    """What ``.claude.json`` says about one directory. ``problem``: why it could not be read."""

    directory: str
    trusted: bool = False
    allowed_tools: tuple[str, ...] = ()
    """Without effect in every tested client; reported only."""
    servers: tuple[str, ...] = ()
    enabled_servers: tuple[str, ...] = ()
    disabled_servers: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """All settings of one directory."""

    directory: Path
    layers: tuple[SettingsLayer, ...]
    project: ProjectFacts
    settings: Settings

    @property
    def problems(self) -> list[SettingsProblem]:
        """What the client would not accept, file by file."""
        return [problem for layer in self.layers for problem in layer.problems]

    @property
    def unreadable(self) -> list[SettingsLayer]:
        """Existing files whose deny rules are unknown; config.json has none."""
        return [
            layer
            for layer in self.layers
            if layer.root is None and layer.problems and layer.scope != "config"
        ]


def loaded(
    home: ClaudeHome,
    directory: str | Path,
    *,
    command_line: str | None = None,
    managed: Path | None = None,
    trusted: bool | None = None,
    with_config: bool = False,
) -> LoadedSettings:
    """Read all layers for a directory; ``command_line`` is a file or JSON, as for the client's ``--settings``.

    ``with_config``: the home's ``config.json`` too, which no client reads.
    """
    # Links are followed first: settings and trust belong to the directory, not to a name for it.
    place = Path(os.path.realpath(directory))
    facts = project_facts(home, place)
    layers = [
        _layer("managed", managed if managed is not None else settings_files.managed_file(), place),
        _layer("local", settings_files.local_file(place), place),
        _layer("project", settings_files.project_file(place), place),
        _layer("user", home.settings_file, place),
    ]
    config = config_layer(home, place) if with_config else None
    if config is not None:
        layers.append(config[0])
        facts = structs.replace(facts, trusted=facts.trusted or config[1])
    if command_line is not None:
        layers.insert(1, _command_line(command_line, place))
    is_trusted = facts.trusted if trusted is None else trusted
    return LoadedSettings(place, tuple(layers), facts, effective(layers, trusted=is_trusted))


def _layer(scope: SettingScope, file: Path, place: Path) -> SettingsLayer:
    in_project = scope in ("project", "local")
    anchor = str(place) if in_project else str(file.parent)
    try:
        data = settings_files.content(file)
        foreign = scope == "project" or (
            scope == "local" and data is not None and settings_files.supplied_by_repository(file, place)
        )
    except StorageError as problem:
        why = SettingsProblem(str(file), 0, "", UNREADABLE, problem.message)
        return SettingsLayer(scope, str(file), None, (why,), in_project, anchor)
    return layer_of(scope, str(file), data, from_repository=foreign, anchor=anchor)


def _command_line(given: str, place: Path) -> SettingsLayer:
    if given.lstrip().startswith("{"):
        return layer_of("command line", None, given.encode("utf-8", "replace"), anchor=str(place))
    file = Path(given).expanduser().absolute()
    data = settings_files.content(file)
    if data is None:
        raise UsageError(f"--settings {given}: there is no such file", hint="name a file, or write JSON")
    return layer_of("command line", str(file), data, anchor=str(place))


# ---- .claude.json ------------------------------------------------------------------------------------------


def project_facts(home: ClaudeHome, directory: Path) -> ProjectFacts:
    """The global config's entry for a directory; nothing is trusted where it cannot be read."""
    name = str(directory)
    if home.config_file is None:
        return ProjectFacts(name)
    try:
        data = settings_files.content(home.config_file)
    except (StorageError, UsageError) as problem:
        return ProjectFacts(name, problem=problem.message)
    document = parsed(data) if data is not None else {}
    if isinstance(document, str):
        return ProjectFacts(name, problem=f"{home.config_file}: {document}")
    projects = document.get("projects")
    entry = projects.get(name) if isinstance(projects, dict) else None
    if not isinstance(entry, dict):
        return ProjectFacts(name)
    servers = entry.get("mcpServers")
    return ProjectFacts(
        name,
        trusted=entry.get("hasTrustDialogAccepted") is True,
        allowed_tools=_texts(entry.get("allowedTools")),
        servers=tuple(servers) if isinstance(servers, dict) else (),
        enabled_servers=_texts(entry.get("enabledMcpjsonServers")),
        disabled_servers=_texts(entry.get("disabledMcpjsonServers")),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


# ---- rules -------------------------------------------------------------------------------------------------


def rules_of(layers: Iterable[SettingsLayer]) -> Iterator[Rule | RuleProblem]:
    """Every rule of every layer with its file and line, and every invalid rule text.

    Allow rules of a file that the client ignores are left out; its deny and ask rules are kept: a mistake in
    another key must not permit what the user wanted to deny.
    """
    for layer in layers:
        scope = _rule_scope(layer)
        for name in RULE_LISTS:
            place = layer.root.at(("permissions", name)) if layer.root is not None else None
            if place is None or (name == "allow" and not layer.counts):
                continue
            for item in place.items:
                source = RuleSource(scope, layer.path, item.line, layer.anchor)
                if isinstance(item.value, str):
                    yield parse_rule(item.value, Verdict(name), source)


def _rule_scope(layer: SettingsLayer) -> RuleScope:
    """A local file that the repository could have supplied is treated as the project's (R22)."""
    if layer.scope == "config":
        return RuleScope.USER
    return RuleScope.PROJECT if layer.from_repository else RuleScope(layer.scope)


# ---- changing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A planned change of one key; ``plan`` is None where the file already has the value."""

    file: Path
    key: str
    before: object
    after: object
    plan: ChangePlan | None


def planned(
    home: ClaudeHome, directory: str | Path, scope: str, key: str, value: object = None, *, how: How = "set"
) -> SettingChange:
    """Set a key, add an item to a list, remove one, or remove a key; refused where the client would reject
    the file.
    """
    file = _file_of(home, Path(os.path.realpath(directory)), scope)
    path = tuple(key.split("."))
    if not all(path):
        raise UsageError(f"key {key!a}: not a key", hint="write it as permissions.deny or env.NAME")
    seen = FileState.at(file) if file.exists() else None
    data = settings_files.content(file) or b""
    try:
        changed = _edited(data, path, value, how)
    except (ValueError, TypeError) as problem:
        raise UsageError(f"{file}: {problem}", hint="nothing was changed; correct the file by hand") from None
    _require_sound(file, data, changed)
    _require_rules(path, value, how)
    before, after = (_value_at(text, path) for text in (data, changed))
    return SettingChange(
        file, key, before, after, _plan(file, key, seen, changed) if changed != data else None
    )


class SettingEdit(NamedTuple):
    """One of several edits that are one change; a path may have names with dots."""

    path: tuple[str, ...]
    value: object
    how: How = "set"


def planned_edits(
    home: ClaudeHome, subject: str, edits: Sequence[SettingEdit]
) -> tuple[Path, ChangePlan | None]:
    """Several edits of the user's settings as one change; no plan where the file already has them."""
    file = _file_of(home, Path(), "user")
    seen = FileState.at(file) if file.exists() else None
    data = before = settings_files.content(file) or b""
    try:
        for edit in edits:
            if edit.how != "set" or _value_at(data, edit.path) != edit.value:
                data = _edited(data, edit.path, edit.value, edit.how)
    except (ValueError, TypeError) as problem:
        raise UsageError(f"{file}: {problem}", hint="nothing was changed; correct the file by hand") from None
    _require_sound(file, before, data)
    return file, _plan(file, subject, seen, data) if data != before else None


def user_value(home: ClaudeHome, path: tuple[str, ...]) -> object:
    """A value of the user's settings; None where there is none."""
    return _value_at(settings_files.content(_file_of(home, Path(), "user")) or b"", path)


def changed(plan: ChangePlan | None, data: Path) -> AppliedChange | None:
    """Carry out a planned change; None if there was nothing to do."""
    return None if plan is None else ChangeJournal(data / "undo").apply(plan)


def _file_of(home: ClaudeHome, directory: Path, scope: str) -> Path:
    if scope == "user":
        return Path(os.path.realpath(home.settings_file))
    files = {"project": settings_files.project_file, "local": settings_files.local_file}
    if scope not in files:
        raise UsageError(f"scope {scope!a}: cannot be changed here", hint="use user, project or local")
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory", hint="name the project with --cwd DIR")
    return files[scope](directory)


def _edited(data: bytes, path: tuple[str, ...], value: object, how: How) -> bytes:
    if how == "set":
        return json_edit.with_value(data, path, value)
    if how == "unset":
        return json_edit.without_key(data, path) if data.strip() else data
    if how == "remove":
        return json_edit.without_item(data, path, value) if data.strip() else data
    current = _value_at(data, path)
    kind = kind_of(path)
    if current is not None and not isinstance(current, list):
        raise ValueError(f"{'.'.join(path)} is not a list")
    if kind is not None and not kind.accepts([value]):
        raise ValueError(f"{'.'.join(path)} is not a list of such values")
    return data if isinstance(current, list) and value in current else json_edit.with_item(data, path, value)


def _value_at(data: bytes, path: tuple[str, ...]) -> object:
    root = layer_of("user", None, data).root
    found = root.at(path) if root is not None else None
    return None if found is None else found.value


def _require_sound(file: Path, before: bytes, after: bytes) -> None:
    """A change must not make a file worse; an invalid one may be corrected step by step."""
    was = layer_of("user", str(file), before).problems
    now = layer_of("user", str(file), after).problems
    fresh = [problem for problem in now if problem.key not in {old.key for old in was}]
    worse = fresh or (now if len(now) >= len(was) and any(one.whole_file for one in now) else ())
    if worse:
        raise UsageError(str(worse[0]), hint="nothing was changed")


def _require_rules(path: tuple[str, ...], value: object, how: How) -> None:
    if (
        path[:1] != ("permissions",)
        or path[1:2] not in {(name,) for name in RULE_LISTS}
        or how not in ("set", "add")
    ):
        return
    for text in value if isinstance(value, list) else [value]:
        found = parse_rule(str(text), Verdict(path[1]), RuleSource(RuleScope.USER))
        if isinstance(found, RuleProblem):
            raise UsageError(
                f"rule {str(text)!a}: {found.why}", hint=f"nothing was changed; {found.consequence}"
            )


def _plan(file: Path, key: str, seen: FileState | None, data: bytes) -> ChangePlan:
    root = file.parent if file.parent.is_dir() else file.parent.parent
    plan = ChangePlan("settings", key, root)
    if seen is None:
        plan.create(file, data)
    else:
        plan.replace(file, data, expected=seen)
    return plan
