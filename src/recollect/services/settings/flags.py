"""Cached feature flags of the client, and whether they are still valid.

The most recently fetched cache is used, or that of one user (``user_hash``). Its age comes from the last-modified file, else from the evaluation
itself, else from the file's time. After ``TTL`` it is expired: it is still shown, and ``valid`` is false.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from recollect.model.settings.flag_values import Evaluation, evaluation_of, last_modified
from recollect.storage.config.flag_cache import CacheFile, FlagCache

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
