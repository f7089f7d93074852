"""Import a ``config.json`` with ``userSettings`` and ``projects`` into the files that clients read today.

No tested client reads such a file. Each value has one target: ``userSettings`` go to the user's
``settings.json``; a project's ``allowedTools`` to its local settings, where rules have an effect; its servers
and counters to ``.claude.json``. Existing values stay. Trust is imported only on explicit request, and never
removed: a file from elsewhere must not open a workspace. Values without a target are reported, and nothing is
deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recollect.errors import Busy, DamagedData, NotFound, UsageError
from recollect.model.json import edit as json_edit
from recollect.model.settings.config_merge import Document, parsed
from recollect.model.settings.schema import kind_of
from recollect.model.settings.settings import layer_of
from recollect.policy.decision import RuleSource, Scope, Verdict
from recollect.policy.rules.rule import RuleProblem, parse_rule
from recollect.storage.changes.journal import AppliedChange, ChangeJournal, ChangePlan, FileState
from recollect.storage.config import settings_files
from recollect.storage.home import ClaudeHome
from recollect.storage.live import live_sessions


@dataclass(frozen=True, slots=True)
class ImportRow:
    """One value: its path in the old file and its target. ``why`` says why it has none."""

    source: str
    file: Path | None
    key: str
    why: str = ""


@dataclass(slots=True)
class ConfigImport:
    """The planned import, file by file; nothing is written yet."""

    config: Path
    rows: list[ImportRow] = field(default_factory=list)
    texts: dict[Path, tuple[FileState | None, bytes, bytes]] = field(default_factory=dict)
    open_in: list[int] = field(default_factory=list)

    @property
    def changes(self) -> list[Path]:
        """The files that would change."""
        return [file for file, (_, before, after) in self.texts.items() if before != after]


def planned_import(home: ClaudeHome, config: Path, *, with_trust: bool = False) -> ConfigImport:
    """Read the old file and plan the changes."""
    data = settings_files.content(config)
    if data is None:
        raise NotFound(f"{config}: there is no such file", hint="name the config.json to import")
    document = parsed(data)
    if isinstance(document, str):
        raise DamagedData(f"{config}: {document}", hint="nothing was changed")
    if not isinstance(document.get("userSettings", {}), dict) or not isinstance(
        document.get("projects", {}), dict
    ):
        raise UsageError(
            f"{config}: userSettings and projects are not both objects", hint="it is not such a config.json"
        )
    result = ConfigImport(config)
    result.open_in = sorted({one.pid for one in live_sessions(home)})
    _ImportBuilder(home, result, with_trust).take(document)
    return result


def imported(plan: ConfigImport, data: Path) -> list[AppliedChange]:
    """Carry it out, one change per file; ``Busy`` where a running client would overwrite it."""
    if plan.open_in and any(file.name.startswith(".claude.json") for file in plan.changes):
        raise Busy(
            f"{plan.config}: a client is running (process {plan.open_in[0]}); nothing was changed",
            hint="quit every client first: each rewrites .claude.json",
        )
    journal = ChangeJournal(data / "undo")
    return [journal.apply(_change(file, *plan.texts[file])) for file in plan.changes]


def _change(file: Path, seen: FileState | None, _before: bytes, after: bytes) -> ChangePlan:
    root = file.parent if file.parent.is_dir() else file.parent.parent
    change = ChangePlan("settings", str(file), root)
    if seen is None:
        change.create(file, after)
    else:
        change.replace(file, after, expected=seen)
    return change


class _ImportBuilder:
    def __init__(self, home: ClaudeHome, result: ConfigImport, with_trust: bool) -> None:
        self._home, self._result, self._with_trust = home, result, with_trust

    def take(self, document: Document) -> None:
        for name, value in document.get("userSettings", {}).items():
            self._user(name, value)
        for directory, entry in document.get("projects", {}).items():
            for source, key, value in _project_values(directory, entry):
                self._project(directory, source, key, value)
        for name in document:
            if name not in ("userSettings", "projects"):
                self._left(name, "no client keeps it in its settings")

    def _user(self, name: str, value: object) -> None:
        kind = kind_of((name,))
        if kind is None:
            self._left(f"userSettings.{name}", "no client has such a setting")
        elif not kind.accepts(value):
            self._left(f"userSettings.{name}", f"it is not {kind.words}")
        else:
            file = Path(os.path.realpath(self._home.settings_file))
            self._set(file, f"userSettings.{name}", (name,), value)

    def _project(self, directory: str, source: str, key: str, value: Any) -> None:
        root = Path(directory)
        if key == "allowedTools":
            self._rules(root, source, value)
        elif self._home.config_file is None:
            self._left(source, "there is no .claude.json")
        elif key == "hasTrustDialogAccepted" and value is True and not self._with_trust:
            self._left(source, "trust is only imported with --with-trust")
        else:
            config = Path(os.path.realpath(self._home.config_file))
            self._set(config, source, ("projects", directory, key), value)

    def _rules(self, root: Path, source: str, value: object) -> None:
        if not root.is_absolute() or "\0" in str(root) or not root.is_dir():
            self._left(source, "the project's directory does not exist")
            return
        file = settings_files.local_file(root)
        for rule in value if isinstance(value, list) else ():
            found = (
                parse_rule(rule, Verdict.ALLOW, RuleSource(Scope.LOCAL)) if isinstance(rule, str) else None
            )
            if found is None or isinstance(found, RuleProblem):
                self._left(source, "a rule that the client would skip")
            else:
                self._add(file, source, rule)

    def _left(self, source: str, why: str) -> None:
        self._result.rows.append(ImportRow(source, None, "", why))

    def _text(self, file: Path) -> tuple[FileState | None, bytes, bytes]:
        if file not in self._result.texts:
            seen = FileState.at(file) if file.exists() else None
            data = settings_files.content(file) or b""
            self._result.texts[file] = (seen, data, data)
        return self._result.texts[file]

    def _set(self, file: Path, source: str, path: tuple[str, ...], value: object) -> None:
        seen, before, text = self._text(file)
        root = layer_of("user", str(file), text).root
        if text.strip() and (root is None or not isinstance(root.value, dict)):
            self._left(source, f"{file} is not a JSON object")
        elif root is not None and root.at(path) is not None:
            self._left(source, f"{file.name} already has a value for it")
        else:
            self._edit(
                file, source, path[-1], (seen, before), lambda: json_edit.with_value(text, path, value)
            )

    def _add(self, file: Path, source: str, rule: str) -> None:
        seen, before, text = self._text(file)
        root = layer_of("local", str(file), text).root
        if text.strip() and root is None:
            self._left(source, f"{file} is not JSON")
            return
        place = root.at(("permissions", "allow")) if root is not None else None
        if place is not None and isinstance(place.value, list) and rule in place.value:
            self._left(source, f"{file.name} already has the rule")
            return
        path = ("permissions", "allow")
        self._edit(file, source, rule, (seen, before), lambda: json_edit.with_item(text, path, rule))

    def _edit(
        self, file: Path, source: str, key: str, old: tuple[FileState | None, bytes], edit: Any
    ) -> None:
        try:
            self._result.texts[file] = (*old, edit())
        except (ValueError, TypeError) as problem:
            self._left(source, f"{file.name}: {problem}")
        else:
            self._result.rows.append(ImportRow(source, file, key))


def _project_values(directory: str, entry: object) -> Iterator[tuple[str, str, Any]]:
    known = ("hasTrustDialogAccepted", "allowedTools", "mcpServers", "projectOnboardingSeenCount")
    if isinstance(entry, dict):
        for key in known:
            if key in entry:
                yield f"projects.{directory}.{key}", key, entry[key]
