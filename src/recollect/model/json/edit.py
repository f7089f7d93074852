"""Change one value of a JSON text and leave every other character unchanged.

People format their settings; a program that adds one rule must not reformat the file. New text is indented
like its neighbours. The result is parsed again before it is returned: it must equal the old document with
that one change, or the call fails.
"""

from __future__ import annotations

import json
import re

from recollect.model.json.places import LocatedValue, located, text_of

_BOM = b"\xef\xbb\xbf"
Steps = tuple[str, ...]


def with_value(data: bytes, path: Steps, value: object) -> bytes:
    """The text with ``value`` at a path of names; missing objects on the path are created.

    An empty text is ``{}``.
    """
    text, root = _read(data)
    depth = _depth(root, path)
    found = root.at(path[:depth])
    if found is None:
        raise ValueError("no such place")
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    if depth == len(path):
        indent = _indent_at(text, found.key_start)
        changed = text[: found.start] + _shown(value, text, root, indent) + text[found.end :]
    else:
        changed = _inserted(text, root, found, path[depth], value)
    return _proven(data, changed, _changed(root.value, path[:depth], path[depth:], value))


def with_item(data: bytes, path: Steps, item: object) -> bytes:
    """The text with ``item`` at the end of the list at ``path``, which is created if missing."""
    text, root = _read(data)
    found = root.at(path)
    if found is None or not isinstance(found.value, list):
        return with_value(data, path, [item])
    expected = _replaced(root.value, path, [*found.value, item])
    return _proven(data, _inserted(text, root, found, None, item), expected)


def without_item(data: bytes, path: Steps, item: object) -> bytes:
    """The text without every ``item`` of the list at ``path``."""
    text, root = _read(data)
    found = root.at(path)
    if found is None or not isinstance(found.value, list):
        return data
    rest = [one for one in found.value if one != item]
    for number in reversed(range(len(found.items))):
        if found.value[number] == item:
            text = _cut(text, found, found.items, number)
            found = located(text.encode()).at(path) or found
    return _proven(data, text, _replaced(root.value, path, rest))


def without_key(data: bytes, path: Steps) -> bytes:
    """The text without the member at ``path``."""
    text, root = _read(data)
    above = root.at(path[:-1])
    if above is None or path[-1] not in above.members:
        return data
    members = list(above.members.values())
    number = list(above.members).index(path[-1])
    rest = {name: one.value for name, one in above.members.items() if name != path[-1]}
    return _proven(data, _cut(text, above, members, number), _replaced(root.value, path[:-1], rest))


# ---- the text ----------------------------------------------------------------------------------------------


def _read(data: bytes) -> tuple[str, LocatedValue]:
    if not data.strip().removeprefix(_BOM):
        data = b"{}\n"
    return text_of(data), located(data)


def _depth(root: LocatedValue, path: Steps) -> int:
    """How many steps of the path already exist."""
    depth = 0
    while depth < len(path) and root.at(path[: depth + 1]) is not None:
        depth += 1
    above = root.at(path[:depth])
    if depth < len(path) and (above is None or not isinstance(above.value, dict)):
        raise ValueError(f"{'.'.join(path[:depth])} is not an object")
    return depth


def _inserted(text: str, root: LocatedValue, into: LocatedValue, name: str | None, value: object) -> str:
    """The text with one more member or item at the end of an object or list."""
    others = list(into.members.values()) or into.items
    starts = [one.key_start if one.key_start >= 0 else one.start for one in others]
    break_ = "\r\n" if "\r\n" in text else "\n"
    key = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    if not others:
        outer = _indent_at(text, into.start)
        inner = outer + _unit(text, root)
        body = key + _shown(value, text, root, inner)
        return f"{text[: into.start + 1]}{break_}{inner}{body}{break_}{outer}{text[into.end - 1 :]}"
    last = max(others, key=lambda one: one.end)
    if "\n" in text[into.start : min(starts)]:
        inner = _indent_at(text, max(starts))
        return f"{text[: last.end]},{break_}{inner}{key}{_shown(value, text, root, inner)}{text[last.end :]}"
    return f"{text[: last.end]}, {key}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"


def _cut(text: str, above: LocatedValue, others: list[LocatedValue], number: int) -> str:
    """The text without one member or item and its comma."""
    one = others[number]
    start = one.key_start if one.key_start >= 0 else one.start
    end = one.end
    before, after = text[above.start + 1 : start], text[end : above.end - 1]
    if comma_after := re.match(r"\s*,\s*", after):
        end += comma_after.end()
    elif comma_before := re.search(r"\s*,\s*\Z", before):
        start -= len(comma_before.group())
    else:
        start, end = above.start + 1, above.end - 1
    return text[:start] + text[end:]


def _indent_at(text: str, position: int) -> str:
    """The indentation of the line at a position."""
    start = text.rfind("\n", 0, max(position, 0)) + 1
    end = start
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return text[start:end]


def _unit(text: str, root: LocatedValue) -> str:
    first = next(iter(root.members.values()), None)
    if first is None or "\n" not in text[root.start : first.key_start]:
        return "  "
    return _indent_at(text, first.key_start) or "  "


def _shown(value: object, text: str, root: LocatedValue, indent: str) -> str:
    unit = _unit(text, root)
    shown = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=unit)
    break_ = "\r\n" if "\r\n" in text else "\n"
    return shown.replace("\n", break_ + indent)


# ---- verification ------------------------------------------------------------------------------------------


def _replaced(document: object, path: Steps, value: object) -> object:
    if not path:
        return value
    if not isinstance(document, dict):
        raise TypeError("not an object")
    return {**document, path[0]: _replaced(document.get(path[0], {}), path[1:], value)}


def _changed(document: object, there: Steps, rest: Steps, value: object) -> object:
    return _replaced(document, (*there, *rest[:1]), value)


def _proven(data: bytes, text: str, expected: object) -> bytes:
    changed = (_BOM if data.startswith(_BOM) else b"") + text.encode()
    if located(changed).value != expected:
        raise ValueError("this text cannot be changed in place")
    return changed
