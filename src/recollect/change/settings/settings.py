"""The effective settings of a directory, the source of each, and changing one of them with an undo.

``loaded`` reads the layers as the client does. From ``.claude.json`` it reads for the directory: whether it
is trusted (by its own path alone: trusting a parent does not trust what is inside, R22), its servers, and
``allowedTools``, which has no effect any more and is only reported.

``planned`` changes one key of one file: every other character stays, unknown keys included, and a result that
the client would ignore is refused. The change goes through the journal.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct, structs

from recollect.errors import StorageError, UsageError
from recollect.model.lines import json_edit
from recollect.model.lines.json_edit import BadJson, LocatedValue, located
from recollect.model.settings.config_merge import Evaluation, evaluation_of, last_modified, parsed
from recollect.model.settings.schema import (
    Settings,
    SettingScope,
    SettingsLayer,
    SettingsProblem,
    checked_layer,
    effective,
    kind_of,
    layer_of,
)
from recollect.store import client_settings
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan, FileState
from recollect.store.client_settings import CacheFile, FlagCache
from recollect.store.home import ClaudeHome


def config_file(home: ClaudeHome) -> Path:
    """Where the file is looked for."""
    return home.root / "config.json"


def config_layer(home: ClaudeHome, directory: Path) -> tuple[SettingsLayer, bool] | None:
    """The layer for a directory and whether the file trusts it; None where there is no such file.

    Other programs have a ``config.json`` too: one without ``userSettings`` and ``projects`` is not ours.
    """
    file = config_file(home)
    try:
        data = client_settings.content(file)
        root = located(data) if data and data.strip() else None
    except StorageError as problem:
        return _unusable(file, 0, problem.message), False
    except BadJson as problem:
        return _unusable(file, problem.line, f"{problem.what} at column {problem.column}"), False
    if root is None or not {"userSettings", "projects"} & set(root.members):
        return None
    members = dict(_members(root.members.get("userSettings")))
    project = _members(_members(root.members.get("projects")).get(str(directory)))
    rules = project.get("allowedTools")
    if rules is not None:
        members["permissions"] = _object(rules, {"allow": rules})
    trusted = project.get("hasTrustDialogAccepted")
    layer = checked_layer("config", str(file), _object(root, members), anchor=str(home.root))
    return layer, trusted is not None and trusted.value is True


def _unusable(file: Path, line: int, found: str) -> SettingsLayer:
    # No client depends on this file, so it hides no deny rule of one.
    return SettingsLayer(
        "config", str(file), None, (SettingsProblem(str(file), line, "", "JSON", found, False),)
    )


def _members(value: LocatedValue | None) -> dict[str, LocatedValue]:
    return {} if value is None else value.members


def _object(place: LocatedValue, members: dict[str, LocatedValue]) -> LocatedValue:
    """An object of these members that stands where ``place`` does."""
    return replace(place, value={name: one.value for name, one in members.items()}, members=members, items=[])


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
        _layer("managed", managed if managed is not None else client_settings.managed_file(), place),
        _layer("local", client_settings.local_file(place), place),
        _layer("project", client_settings.project_file(place), place),
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
        data = client_settings.content(file)
        foreign = scope == "project" or (
            scope == "local" and data is not None and client_settings.supplied_by_repository(file, place)
        )
    except StorageError as problem:
        why = SettingsProblem(str(file), 0, "", UNREADABLE, problem.message)
        return SettingsLayer(scope, str(file), None, (why,), in_project, anchor)
    return layer_of(scope, str(file), data, from_repository=foreign, anchor=anchor)


def _command_line(given: str, place: Path) -> SettingsLayer:
    if given.lstrip().startswith("{"):
        return layer_of("command line", None, given.encode("utf-8", "replace"), anchor=str(place))
    file = Path(given).expanduser().absolute()
    data = client_settings.content(file)
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
        data = client_settings.content(home.config_file)
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
    before, after, plan = _planned(file, key, [SettingEdit(path, value, how)])
    return SettingChange(file, key, _value_at(before, path), _value_at(after, path), plan)


class SettingEdit(NamedTuple):
    """One of several edits that are one change; a path may have names with dots."""

    path: tuple[str, ...]
    value: object
    how: How = "set"


def planned_edits(
    home: ClaudeHome,
    subject: str,
    edits: Sequence[SettingEdit],
    *,
    directory: str | Path = "",
    scope: str = "user",
) -> tuple[Path, ChangePlan | None]:
    """Several edits of one file of settings as one change; no plan where the file already has them."""
    file = _file_of(home, Path(os.path.realpath(directory)), scope)
    return file, _planned(file, subject, edits)[2]


def _planned(
    file: Path, subject: str, edits: Sequence[SettingEdit]
) -> tuple[bytes, bytes, ChangePlan | None]:
    """The bytes of a file before and after, and the change; refused where the client would reject the file."""
    seen = FileState.at(file) if file.exists() else None
    data = before = client_settings.content(file) or b""
    try:
        for edit in edits:
            if edit.how != "set" or _value_at(data, edit.path) != edit.value:
                data = _edited(data, edit.path, edit.value, edit.how)
    except (ValueError, TypeError) as problem:
        raise UsageError(f"{file}: {problem}", hint="nothing was changed; correct the file by hand") from None
    _require_sound(file, before, data)
    return before, data, _plan(file, subject, seen, data) if data != before else None


def user_value(home: ClaudeHome, path: tuple[str, ...]) -> object:
    """A value of the user's settings; None where there is none."""
    return _value_at(client_settings.content(_file_of(home, Path(), "user")) or b"", path)


def changed(plan: ChangePlan | None, data: Path) -> Change | None:
    """Carry out a planned change; None if there was nothing to do."""
    return None if plan is None else ChangeJournal(data / "undo").apply(plan)


def _file_of(home: ClaudeHome, directory: Path, scope: str) -> Path:
    if scope == "user":
        return Path(os.path.realpath(home.settings_file))
    files = {"project": client_settings.project_file, "local": client_settings.local_file}
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


def _plan(file: Path, key: str, seen: FileState | None, data: bytes) -> ChangePlan:
    root = file.parent if file.parent.is_dir() else file.parent.parent
    plan = ChangePlan("settings", key, root)
    if seen is None:
        plan.create(file, data)
    else:
        plan.replace(file, data, expected=seen)
    return plan


TTL = dt.timedelta(hours=24)
"""How long an evaluation is valid. Clients define no limit; a daily start of the client renews it within a day."""


class FeatureFlags(Struct, frozen=True):
    """Gates and configs; ``why`` explains why they are not valid."""

    gates: dict[str, bool]
    configs: dict[str, dict[str, Any]]
    valid: bool
    why: str = ""
    age_seconds: float | None = None
    fetched_at: dt.datetime | None = None
    file: Path | None = None
    hash_used: str = "none"
    user_hash: str | None = None


def newest(
    caches: Sequence[FlagCache], now: dt.datetime, ttl: dt.timedelta = TTL, user_hash: str | None = None
) -> FeatureFlags:
    """The most recently fetched cache that can be read, of any user or of one."""
    reasons = [problem for cache in caches for problem in cache.problems]
    found: list[tuple[int, CacheFile, Evaluation]] = []
    for cache in caches:
        for file in cache.files:
            if user_hash is not None and file.user_hash != user_hash:
                continue
            evaluation = evaluation_of(file.data)
            if isinstance(evaluation, str):
                reasons.append(f"{file.path}: {evaluation}")
                continue
            at = last_modified(cache.times, file.path.name) or evaluation.received_at or file.mtime_ms
            found.append((at, file, evaluation))
    if not found:
        places = ", ".join(str(cache.directory) for cache in caches)
        whose = "" if user_hash is None else f" of user {user_hash}"
        missing = f"missing: no cached evaluations{whose} in {places}"
        return FeatureFlags({}, {}, False, "; ".join(reasons) or missing, user_hash=user_hash)
    at, file, evaluation = max(found, key=lambda one: (one[0], one[1].path.name))
    fetched = _moment(at)
    age = (now - fetched).total_seconds()
    why = f"expired: fetched {fetched:%Y-%m-%d %H:%M} UTC" if age > ttl.total_seconds() else ""
    if age < -300:
        why = "fetched in the future: a clock was wrong"
    return FeatureFlags(
        evaluation.gates,
        evaluation.configs,
        not why,
        why,
        max(age, 0.0),
        fetched,
        file.path,
        evaluation.hash_used,
        file.user_hash,
    )


def _moment(milliseconds: int) -> dt.datetime:
    try:
        return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return dt.datetime.fromtimestamp(0, dt.UTC)
