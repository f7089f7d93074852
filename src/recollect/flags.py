"""Feature flags for programs: the client's cache, with your own overrides.

    from recollect.flags import FeatureManager

    features = FeatureManager(overrides={"new_diff": True})
    if features.enabled("new_diff", default=False):
        ...

The cache is read once, when it is first needed. An expired or missing cache is not an error: the
default applies, and ``reason`` says so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recollect.change.settings import settings as _flags
from recollect.change.settings.settings import FeatureFlags
from recollect.model.settings.config_merge import looked_up
from recollect.store.client_settings import flag_cache
from recollect.store.home import ClaudeHome
from recollect.system.locations import claude_homes, home_at

__all__ = ["FeatureFlags", "FeatureManager"]


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class FeatureManager:
    """Gates and dynamic configs by name.

    ``home`` is a Claude home (default: this machine's). ``overrides`` come first: a bool for a gate,
    a mapping for a config. ``clock`` gives the time, ``ttl`` how long the cache is valid. The client caches
    one evaluation per user; ``user_hash`` chooses one, otherwise the newest is used.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        overrides: Mapping[str, bool | Mapping[str, Any]] | None = None,
        clock: Callable[[], dt.datetime] = _now,
        ttl: dt.timedelta = _flags.TTL,
        user_hash: str | None = None,
    ) -> None:
        self._home, self._clock, self._ttl, self._user_hash = home, clock, ttl, user_hash
        self._overrides = dict(overrides or {})
        self._read: FeatureFlags | None = None

    @property
    def cache(self) -> FeatureFlags:
        """The content of the cache, and its age."""
        if self._read is None:
            roots = claude_homes() if self._home is None else [home_at(self._home)]
            caches = [flag_cache(ClaudeHome(root.path, root.config_file)) for root in roots]
            self._read = _flags.newest(caches, self._clock(), self._ttl, self._user_hash)
        return self._read

    def refresh(self) -> None:
        """Read the cache again when it is next needed."""
        self._read = None

    def enabled(self, name: str, default: bool = False) -> bool:
        """Whether a gate is open; ``default`` if it is unknown."""
        value = self._gate(name)
        return default if value is None else value

    def config(self, name: str, default: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The values of a dynamic config; ``default``, or nothing, if it is unknown."""
        override = self._overrides.get(name)
        if isinstance(override, Mapping):
            return dict(override)
        found = looked_up(self.cache.configs, name, self.cache.hash_used) if self.cache.valid else None
        return dict(found if isinstance(found, Mapping) else default or {})

    def reason(self, name: str) -> str:
        """The source of the answer about a gate or config: override, cache, or why it is the default."""
        if name in self._overrides:
            return "override"
        cache = self.cache
        if not cache.valid:
            return f"default: the cache is {cache.why}"
        tables: tuple[Mapping[str, Any], ...] = (cache.gates, cache.configs)
        known = any(looked_up(table, name, cache.hash_used) is not None for table in tables)
        return f"cache: {cache.file}" if known else "default: the cache does not know it"

    def _gate(self, name: str) -> bool | None:
        override = self._overrides.get(name)
        if isinstance(override, bool):
            return override
        found = looked_up(self.cache.gates, name, self.cache.hash_used) if self.cache.valid else None
        return found if isinstance(found, bool) else None
