"""The plugin: what its hooks do (archive the session that the client names on stdin), and its entries in a home's settings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from recollect.ask import archive as keep
from recollect.ask.homes import Homes
from recollect.change.settings.settings import SettingEdit, planned_edits, user_value
from recollect.errors import NotFound, UsageError
from recollect.store.archive.archive import ArchiveResult
from recollect.store.changes.journal import ChangePlan
from recollect.store.home import ClaudeHome


def archive_session(home: Homes, request: bytes, data: Path) -> ArchiveResult:
    """Archive the session of a hook's request, which must lie in one of the homes."""
    try:
        asked = msgspec.json.decode(request, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise UsageError(
            f"hook: stdin is no request of the client ({problem})",
            hint="this command is run by the client's hooks, not by hand",
        ) from None
    name, log = asked.get("session_id"), Path(str(asked.get("transcript_path", "")))
    session = next((one for one in home.sessions() if one.id == name and one.path.name == log.name), None)
    if session is None:
        raise NotFound(
            f"session {name!a}: not in the homes looked at",
            hint="a session without a message has no log; name its home with --home DIR",
        )
    return keep.add(keep.archive_at(data), session, dt.datetime.now(dt.UTC))


MARKETPLACE = "recollect"
STATUS_LINE = {"type": "command", "command": "recollect limits statusline"}
PluginPart = Literal["archive", "guard", "status line"]
# The plugins of the marketplace; the first is always installed.
_PLUGINS: dict[str, str] = {"": "recollect", "archive": "recollect-archive", "guard": "recollect-guard"}
_PLACES, _ENABLED = "extraKnownMarketplaces", "enabledPlugins"


class PluginPlan(Struct):
    """What would change. ``plan`` is None where there is nothing to do; ``left`` says what is not touched, and why."""

    file: Path
    directory: Path
    on: list[str]
    off: list[str]
    left: list[str]
    plan: ChangePlan | None


def plugin_directory() -> Path:
    """The marketplace that ships with this recollect: inside the package, or in the checkout it runs from."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "plugin", package.parents[1] / "plugin"):
        if (place / ".claude-plugin" / "marketplace.json").is_file():
            return place
    raise NotFound(
        f"no plugin beside {package}", hint="install recollect again; its package or checkout has a plugin/"
    )


def planned_install(home: ClaudeHome, parts: Collection[PluginPart]) -> PluginPlan:
    """Add the marketplace and switch plugins on; those that are on already stay on."""
    directory = plugin_directory()
    source = {"source": {"source": "directory", "path": str(directory)}}
    edits = [SettingEdit((_PLACES, MARKETPLACE), source)]
    wanted = [_id(part) for part in ("", *parts) if part in _PLUGINS]
    edits += [SettingEdit((_ENABLED, name), True) for name in wanted]
    on, left = list(wanted), list[str]()
    if "status line" in parts:
        there = user_value(home, ("statusLine",))
        if there is None or there == STATUS_LINE:
            edits.append(SettingEdit(("statusLine",), STATUS_LINE))
            on.append("statusLine")
        else:
            left.append(
                "statusLine: another command is set; `recollect rules settings set statusLine` replaces it"
            )
    file, plan = planned_edits(home, "plugin", edits)
    return PluginPlan(file, directory, on, [], left, plan)


def planned_removal(home: ClaudeHome) -> PluginPlan:
    """Take out what ``planned_install`` puts in; objects that are empty then go too."""
    off = [name for name in map(_id, _PLUGINS) if user_value(home, (_ENABLED, name)) is not None]
    edits = [SettingEdit((_ENABLED, name), None, "unset") for name in off]
    if user_value(home, (_PLACES, MARKETPLACE)) is not None:
        edits.append(SettingEdit((_PLACES, MARKETPLACE), None, "unset"))
    for key, gone in ((_ENABLED, off), (_PLACES, [MARKETPLACE])):
        held = user_value(home, (key,))
        if isinstance(held, dict) and held and set(held) <= set(gone):
            edits = [edit for edit in edits if edit.path[0] != key]
            edits.append(SettingEdit((key,), None, "unset"))
    if user_value(home, ("statusLine",)) == STATUS_LINE:
        edits.append(SettingEdit(("statusLine",), None, "unset"))
        off.append("statusLine")
    file, plan = planned_edits(home, "plugin", edits)
    return PluginPlan(file, plugin_directory(), [], off, [], plan)


def _id(part: str) -> str:
    return f"{_PLUGINS[part]}@{MARKETPLACE}"
