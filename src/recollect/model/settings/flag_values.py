"""Read a cached feature-flag evaluation: gates, dynamic configs, and its time.

The cache is a JSON object whose ``data`` is the evaluation, as an object or as JSON in a text. Gates and
configs are keyed by the hash of their name; newer files leave the name out, so a name is looked up as it is
and by its hash (``hash_used``: djb2, sha256 or none).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from recollect.model.settings.config_merge import parsed


class Evaluation(Struct, frozen=True):
    """Gates and configs by name, or by hash where no name is written."""

    gates: dict[str, bool]
    configs: dict[str, dict[str, Any]]
    received_at: int | None = None
    """Milliseconds since 1970, as recorded in the cache."""
    hash_used: str = "none"


def evaluation_of(data: bytes) -> Evaluation | str:
    """The evaluation in a cache file, or why there is none. The reason never quotes the contents."""
    outer = parsed(data)
    if isinstance(outer, str):
        return outer
    inner: object = outer.get("data", outer)
    if isinstance(inner, str):
        inner = parsed(inner.encode("utf-8", "replace"))
    if isinstance(inner, str):
        return f"its data: {inner}"
    if not isinstance(inner, dict) or not ("feature_gates" in inner or "dynamic_configs" in inner):
        return "it holds no evaluation"
    gates = {name: found is True for name, found in _values(inner.get("feature_gates"))}
    configs = {
        name: found for name, found in _values(inner.get("dynamic_configs")) if isinstance(found, dict)
    }
    received = outer.get("receivedAt")
    used = inner.get("hash_used")
    return Evaluation(gates, configs, milliseconds(received), used if isinstance(used, str) else "none")


def _values(entries: object) -> list[tuple[str, Any]]:
    if not isinstance(entries, dict):
        return []
    found = []
    for key, entry in entries.items():
        value = entry.get("value") if isinstance(entry, dict) else entry
        name = entry.get("name") if isinstance(entry, dict) else None
        found.append((name if isinstance(name, str) and name else key, value))
    return found


def milliseconds(value: object) -> int | None:
    """A time in milliseconds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 53:
        return None
    return int(value)


def last_modified(data: bytes, file_name: str) -> int | None:
    """When a cache file was fetched: the file holds one number, or one per cache name."""
    text = data.strip()
    if text.isdigit() and len(text) < 17:
        return milliseconds(int(text))
    found = parsed(data)
    return None if isinstance(found, str) else milliseconds(found.get(file_name))


def hashed(name: str, how: str) -> str:
    """The key of a name in an evaluation."""
    if how == "djb2":
        value = 0
        for unit in _units(name):
            value = (value * 31 + unit) & 0xFFFFFFFF
        return str(value)
    if how == "sha256":
        return base64.b64encode(hashlib.sha256(name.encode("utf-8", "replace")).digest()).decode()
    return name


def _units(name: str) -> list[int]:
    data = name.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]


def looked_up(table: Mapping[str, Any], name: str, how: str) -> Any:
    """The table's value for a name, as it is or by its hash; None if absent."""
    return table[name] if name in table else table.get(hashed(name, how))
