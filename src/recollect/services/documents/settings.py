"""Settings of the client: effective values, problems of files and rules, changes, imports, feature flags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.model.settings.settings import Setting, SettingOrigin, SettingsLayer, SettingsProblem
from recollect.policy.rules.rule import RuleProblem
from recollect.policy.rules.warnings import RuleWarning
from recollect.services.settings.config_rescue import ConfigCopy, ConfigFileCheck, ConfigRestore


class SettingOriginDocument(Struct, frozen=True):
    """Where a value is set. ``path`` is null for the command line itself."""

    scope: str
    path: str | None
    line: int


class SettingDocument(Struct, frozen=True, kw_only=True):
    """One effective value; ``hides`` are weaker places of the same key."""

    key: str
    value: object
    scope: str
    file: str | None
    line: int
    hides: list[SettingOriginDocument]


class SettingsProblemDocument(Struct, frozen=True, kw_only=True):
    """A part of a file that the client would not accept; ``whole_file``: it ignores the file for it."""

    path: str | None
    line: int
    key: str
    expected: str
    found: str
    whole_file: bool
    message: str


class SettingsLayerDocument(Struct, frozen=True):
    """One file of settings, and whether the client would use any of it."""

    scope: str
    path: str | None
    counts: bool
    from_repository: bool


class SettingsDocument(Struct, frozen=True, kw_only=True):
    """What ``settings show --json`` prints. ``project`` is what the client's own file says of the directory."""

    directory: object
    trusted: bool
    values: list[SettingDocument]
    waiting_for_trust: list[SettingDocument]
    project: object
    problems: list[SettingsProblemDocument]
    files: list[SettingsLayerDocument]


class RuleProblemDocument(Struct, frozen=True, kw_only=True, rename={"list_": "list"}):
    """A permission rule that the client skips or reads differently."""

    rule: str
    list_: str
    file: str | None
    line: int | None
    why: str
    consequence: str


class RuleWarningDocument(Struct, frozen=True, kw_only=True, rename={"list_": "list"}):
    """A permission rule that does something other than it seems to."""

    rule: str
    list_: str
    file: str | None
    line: int | None
    kind: str
    why: str


class SettingsCheckDocument(Struct, frozen=True):
    """What ``settings check --json`` prints."""

    files: list[SettingsLayerDocument]
    problems: list[SettingsProblemDocument]
    rules: list[RuleProblemDocument]
    warnings: list[RuleWarningDocument]


class SettingChangeDocument(Struct, frozen=True, kw_only=True):
    """A key that is set, unset or added to. ``changes`` is false if it has that value already."""

    file: Path
    key: str
    before: object
    after: object
    changes: bool
    applied: bool
    undo: str


class ImportedSettingDocument(Struct, frozen=True):
    """A value of an old configuration file: where it goes, or why it is left out."""

    source: str
    file: Path | None
    key: str | None
    why: str | None


class SettingsImportDocument(Struct, frozen=True):
    """What ``settings import-config --json`` prints; ``undo`` holds commands."""

    rows: list[ImportedSettingDocument]
    files: object
    applied: bool
    undo: list[str]


class FlagsDocument(Struct, frozen=True, kw_only=True):
    """What ``flags --json`` prints: gates and configs of the client's cache, and whether it is valid."""

    gates: dict[str, bool]
    configs: dict[str, object]
    age_seconds: float | None
    valid: bool
    why: str
    file: Path | None
    user: str | None


class ConfigCheckDocument(Struct, frozen=True):
    """What ``config check --json`` prints; ``problems`` is how many files the client would not read as they are."""

    files: list[ConfigFileCheck]
    problems: int


class KeyChangeDocument(Struct, frozen=True):
    """A key that restoring would change; a value is not shown."""

    key: tuple[str, ...]
    how: str
    secret: bool


class ConfigRestoreDocument(Struct, frozen=True, kw_only=True):
    """A damaged configuration file, its copies, and what restoring would change."""

    config: Path
    problem: str
    best: Path
    copies: list[ConfigCopy]
    changes: list[KeyChangeDocument]
    open_in: list[int]


class ConfigRestoresDocument(Struct, frozen=True):
    """What ``config restore --json`` prints; ``undo`` holds commands."""

    configs: list[ConfigRestoreDocument]
    applied: bool
    undo: list[str]


def config_restore_document(one: ConfigRestore) -> ConfigRestoreDocument:
    return ConfigRestoreDocument(
        config=one.config,
        problem=one.problem,
        best=one.best,
        copies=one.copies,
        changes=[KeyChangeDocument(change.path, change.how, change.is_secret) for change in one.changes],
        open_in=one.open_in,
    )


def setting_document(one: Setting, value: object) -> SettingDocument:
    """``value`` is what may be shown of it."""
    return SettingDocument(
        key=one.key,
        value=value,
        scope=one.origin.scope,
        file=one.origin.path,
        line=one.origin.line,
        hides=[_origin(origin) for origin in one.hides],
    )


def _origin(origin: SettingOrigin) -> SettingOriginDocument:
    return SettingOriginDocument(origin.scope, origin.path, origin.line)


def problem_documents(problems: Iterable[SettingsProblem]) -> list[SettingsProblemDocument]:
    return [SettingsProblemDocument(**one._asdict(), message=str(one)) for one in problems]


def layer_documents(layers: Iterable[SettingsLayer]) -> list[SettingsLayerDocument]:
    return [SettingsLayerDocument(one.scope, one.path, one.counts, one.from_repository) for one in layers]


def settings_check_document(
    layers: Iterable[SettingsLayer],
    problems: Iterable[SettingsProblem],
    rules: Sequence[RuleProblem],
    warnings: Sequence[RuleWarning],
) -> SettingsCheckDocument:
    return SettingsCheckDocument(
        layer_documents(layers),
        problem_documents(problems),
        [
            RuleProblemDocument(
                rule=one.text,
                list_=one.verdict,
                file=one.source.path,
                line=one.source.line,
                why=one.why,
                consequence=one.consequence,
            )
            for one in rules
        ],
        [
            RuleWarningDocument(
                rule=one.rule.text,
                list_=one.rule.verdict,
                file=one.rule.source.path,
                line=one.rule.source.line,
                kind=one.kind,
                why=one.why,
            )
            for one in warnings
        ],
    )
