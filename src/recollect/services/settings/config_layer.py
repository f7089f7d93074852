"""``config.json`` of a home as a layer of settings, the weakest of all.

``userSettings`` are settings of the user; ``allowedTools`` of a project are allow rules in its directory;
``hasTrustDialogAccepted`` is trust. The file is read each time, so a change is effective at once. No tested
client reads it: what says how a *client* decides leaves this layer out, our own runs use it
(``recollect agent``, ``recollect run``). ``settings import-config`` moves its values to the client's files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recollect.errors import StorageError
from recollect.model.json.places import BadJson, LocatedValue, located
from recollect.model.settings.settings import SettingsLayer, SettingsProblem, checked_layer
from recollect.storage.config import settings_files
from recollect.storage.home import ClaudeHome


def config_file(home: ClaudeHome) -> Path:
    """Where the file is looked for."""
    return home.root / "config.json"


def config_layer(home: ClaudeHome, directory: Path) -> tuple[SettingsLayer, bool] | None:
    """The layer for a directory and whether the file trusts it; None where there is no such file.

    Other programs have a ``config.json`` too: one without ``userSettings`` and ``projects`` is not ours.
    """
    file = config_file(home)
    try:
        data = settings_files.content(file)
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
