"""The plugin in the settings of a home."""

from __future__ import annotations

from pathlib import Path

from recollect.services.documents.changes.change import ChangeDocument


class PluginDocument(ChangeDocument, frozen=True, kw_only=True):
    """What ``plugin install --json`` prints: the settings file, and what is switched on or off in it."""

    file: Path
    directory: Path
    on: list[str]
    off: list[str]
    notes: list[str]
    changes: bool
