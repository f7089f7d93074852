"""Settings that a client would ignore as a whole.

Client 2.1.325 drops a settings file with a single wrongly typed key, silently and with its deny rules
(a malformed rule alone is only skipped). The keys looked at are those whose type is
known; a key that is not known here is fine.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from recollect.model.checks import Found

_Test = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_environment(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, str | int | float | bool) for one in value.values()
    )


TYPES: dict[str, tuple[_Test, str]] = {
    "permissions": (_is_object, "an object"),
    "env": (_is_environment, "an object of texts"),
    "hooks": (_is_object, "an object"),
    "cleanupPeriodDays": (_is_count, "a number of at least 0"),
    "includeCoAuthoredBy": (_is_flag, "true or false"),
    "apiKeyHelper": (_is_text, "a text"),
    "model": (_is_text, "a text"),
    "outputStyle": (_is_text, "a text"),
    "enableAllProjectMcpServers": (_is_flag, "true or false"),
    "enabledMcpjsonServers": (_is_texts, "a list of texts"),
    "disabledMcpjsonServers": (_is_texts, "a list of texts"),
    "statusLine": (_is_object, "an object"),
}
PERMISSIONS: dict[str, tuple[_Test, str]] = {
    "allow": (_is_texts, "a list of texts"),
    "deny": (_is_texts, "a list of texts"),
    "ask": (_is_texts, "a list of texts"),
    "defaultMode": (_is_text, "a text"),
    "additionalDirectories": (_is_texts, "a list of texts"),
}


def settings_fault(data: bytes) -> Found | None:
    """Why the client would ignore this settings file; None where it reads it."""
    if not data.strip():
        return None  # an empty file is no settings, to the client as well
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as problem:
        return _ignored(f"it is not JSON ({problem})", data)
    if not isinstance(found, dict):
        return _ignored("it is not an object", data)
    wrong = _wrong(found, TYPES, "")
    if not wrong and isinstance(found.get("permissions"), dict):
        wrong = _wrong(found["permissions"], PERMISSIONS, "permissions.")
    return _ignored(wrong, data) if wrong else None


def _wrong(found: dict[str, object], types: dict[str, tuple[_Test, str]], where: str) -> str:
    for name, (is_right, expected) in types.items():
        if name in found and not is_right(found[name]):
            return f"{where}{name} is not {expected}"
    return ""


def _ignored(why: str, data: bytes) -> Found:
    denied = " Its deny rules do not count either." if b'"deny"' in data else ""
    return Found("ignored-settings", f"{why}; the client ignores the whole file and says nothing.{denied}")
