"""Merge copies of the client's global config file without losing anything.

Copies come newest first. Everything in any copy is in the result; on conflict the newer one wins. Projects,
and servers by their names, are merged one by one.

Merging never widens a permission: trust that any copy withholds is withheld, an approval list keeps only what
every copy with that list approves, and a refusal list has everything that was ever refused. The client asks
again for what is lost that way.

Differences are reported by key only. Values leave this module only in the merged document.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from recollect.model.lines.damage import DEFAULT_LIMITS
from recollect.model.lines.json_text import deeper_than
from recollect.model.settings.schema import faults

Document = dict[str, Any]
"""A config file; its contents are defined by the client."""

SECRETS = frozenset(["oauthAccount", "primaryApiKey", "apiKey", "customApiKeyResponses"])
_SECRET_WORDS = ("token", "secret", "password", "credential", "apikey", "oauth")
_CONSENTS = frozenset(
    [
        "hasTrustDialogAccepted",
        "hasTrustDialogHooksAccepted",
        "hasClaudeMdExternalIncludesApproved",
        "bypassPermissionsModeAccepted",
        "enableAllProjectMcpServers",
    ]
)
_APPROVED = {"allowedTools": None, "enabledMcpjsonServers": "disabledMcpjsonServers", "approved": "rejected"}
_REFUSED = frozenset(["disabledMcpjsonServers", "rejected", "disabledMcpServers"])
_BY_NAME = frozenset(["projects", "mcpServers"])
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class KeyChange(Struct, frozen=True, rename={"path": "key", "is_secret": "secret"}):
    """A key that is not the same in two documents; ``path`` leads to it. Values are never shown."""

    path: tuple[str, ...]
    how: Literal["added", "changed", "removed"]
    is_secret: bool = False


def parsed(data: bytes) -> Document | str:
    """The object in a JSON file, or why there is none. The reason never quotes the contents."""
    if not data.strip():
        return "it is empty"
    if deeper_than(data, DEFAULT_LIMITS.depth):
        return f"it is nested more than {DEFAULT_LIMITS.depth} levels"
    try:
        return msgspec.json.decode(data, type=Document)
    except msgspec.ValidationError:
        return "it is not a JSON object"
    except _UNREADABLE as problem:
        return f"it is not JSON: {problem}"


def written(document: Document) -> bytes:
    """The document in the client's format: indented by two."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def merged(copies: Sequence[Document], *, keep_secrets_of_first: bool = False) -> Document:
    """All copies, newest first, as one.

    With ``keep_secrets_of_first`` secrets come only from the newest copy: a user who has logged out since
    stays logged out.
    """
    older = [
        {key: value for key, value in copy.items() if not (keep_secrets_of_first and is_secret(key))}
        for copy in copies[1:]
    ]
    return _merged([*copies[:1], *older])


def is_secret(key: str) -> bool:
    """Whether the value of a key may be a secret or identify a person."""
    plain = key.lower().replace("_", "").replace("-", "")
    return key in SECRETS or any(word in plain for word in _SECRET_WORDS)


def _merged(copies: Sequence[Mapping[str, Any]]) -> Document:
    result: Document = {}
    for key in dict.fromkeys(key for copy in copies for key in copy):
        result[key] = _value(key, [copy[key] for copy in copies if key in copy])
    for approved, refused in _APPROVED.items():
        if refused is not None and isinstance(result.get(approved), list):
            against = result.get(refused)
            result[approved] = _without(result[approved], against if isinstance(against, list) else [])
    return result


def _value(key: str, values: list[Any]) -> Any:
    if key in _CONSENTS:
        return next((value for value in values if value is not True), True)
    lists = [value for value in values if isinstance(value, list)]
    if key in _APPROVED and lists:
        return [one for one in lists[0] if all(one in others for others in lists)]
    if key in _REFUSED and lists:
        return [*lists[0], *_without([one for others in lists[1:] for one in others], lists[0])]
    if key in _BY_NAME:
        return _named(key, values)
    if key == "customApiKeyResponses" and all(isinstance(value, dict) for value in values):
        return _merged(values)
    return values[0]


def _named(key: str, values: list[Any]) -> Any:
    """Entries by name: projects are merged key by key, a server is taken as a whole."""
    maps = [value for value in values if isinstance(value, dict)]
    if not maps:
        return values[0]
    result: Document = {}
    for name in dict.fromkeys(name for one in maps for name in one):
        entries = [one[name] for one in maps if name in one]
        whole = [entry for entry in entries if isinstance(entry, dict)]
        result[name] = _merged(whole) if key == "projects" and whole else entries[0]
    return result


def _without(items: list[Any], others: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for one in items:
        if one not in others and one not in kept:
            kept.append(one)
    return kept


def differences(old: Document, new: Document) -> list[KeyChange]:
    """The keys that differ, in the order of the newer document; projects and servers are compared inside."""
    return _differences(old, new, ())


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], above: tuple[str, ...]) -> list[KeyChange]:
    found: list[KeyChange] = []
    for key in dict.fromkeys([*new, *old]):
        path = (*above, key)
        hidden = is_secret(key)
        if key not in old:
            found.append(KeyChange(path, "added", hidden))
        elif key not in new:
            found.append(KeyChange(path, "removed", hidden))
        elif old[key] != new[key]:
            inner = key in _BY_NAME or above == ("projects",)
            if inner and isinstance(old[key], dict) and isinstance(new[key], dict):
                found += _differences(old[key], new[key], path)
            else:
                found.append(KeyChange(path, "changed", hidden))
    return found


# ---- settings --------------------------------------------------------------------------------------------


def settings_problem(document: Document) -> str | None:
    """Why the client would ignore a settings file: a known key has a value of the wrong type."""
    found = next(faults(document), None)
    return None if found is None else f"{found.key} is not {found.expected}"


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
