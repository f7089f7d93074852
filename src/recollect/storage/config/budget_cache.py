"""The budgets of the settings as they were read last: parsing TOML takes longer than a hook may.

The cache is a file in recollect's own directory and holds for the very bytes, time and size of config.toml it was
made from. Without it, or where it cannot be read, the settings are parsed.
"""

# pathlib takes longer to import than the status line may.
# ruff: noqa: PTH116, PTH118, PTH123

from __future__ import annotations

import marshal
import os
import sys

from recollect.model.budget import BudgetRule, BudgetSettings

_FORMAT = 1


def known_budgets(config: str, directory: str) -> BudgetSettings | None:
    """As ``budget_settings``; ``directory`` is where the cache is."""
    try:
        seen = os.stat(config)
    except (FileNotFoundError, NotADirectoryError):
        return None
    key = (_FORMAT, sys.hexversion, config, seen.st_mtime_ns, seen.st_size, seen.st_ino)
    cache = os.path.join(directory, "settings.cache")
    try:
        with open(cache, "rb") as file:
            # Written by ourselves, into a directory that only its owner can write to.
            kept, plain = marshal.load(file)  # noqa: S302
            if kept == key:
                return _restored(plain)
    except (OSError, ValueError, EOFError, TypeError):
        pass
    from recollect.storage.config.budget_settings import budget_settings

    found = budget_settings(config)
    # Imported for the one call after a change of the settings.
    from pathlib import Path

    from recollect.system import fsops

    try:
        fsops.make_directories(Path(directory), synced=False)
        fsops.replace_file(Path(cache), marshal.dumps((key, _plain(found))))
    except OSError:
        pass  # the next call parses again
    return found


def _plain(settings: BudgetSettings | None) -> dict[str, object] | None:
    if settings is None:
        return None
    values = {name: getattr(settings, name) for name in BudgetSettings.__slots__}
    rules = [
        tuple(getattr(rule, name) for name in ("scope", "name", "period", "limit")) for rule in settings.rules
    ]
    return {**values, "rules": rules}


def _restored(plain: dict[str, object] | None) -> BudgetSettings | None:
    if plain is None:
        return None
    settings = BudgetSettings()
    for name in BudgetSettings.__slots__:
        setattr(settings, name, plain[name])
    settings.rules = [BudgetRule(*rule) for rule in settings.rules]  # type: ignore[misc]  # plain tuples so far
    return settings
