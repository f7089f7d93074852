"""JSON with the position of every value: its line, and where its text begins and ends.

Users ask where a setting comes from, and settings are changed in files that people formatted. Both need the
text of a value, which no parser of the standard library or of our dependencies reports; hence this small
parser. It accepts what JSON and ``JSON.parse`` accept: of two members with one name the last counts, a byte
order mark is skipped.

Promises: never more than ``DEFAULT_LIMITS.depth`` levels, so no text exhausts the stack; every error has line
and column. It does not interpret values.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder

from recollect.model.lines.damage import DEFAULT_LIMITS

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_MOST_DIGITS = 300
_strings = JSONDecoder()


class BadJson(ValueError):
    """A text that is not JSON: what is wrong, and where (both counted from 1)."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {what}")
        self.what, self.line, self.column = what, line, column


@dataclass(slots=True)
class LocatedValue:
    """A value and its position. ``start`` and ``end`` are characters of the text; ``line`` counts from 1.

    ``members`` are those of an object (``key_line``: the line of the name), ``items`` those of a list.
    """

    value: object
    line: int
    start: int
    end: int
    members: dict[str, LocatedValue] = field(default_factory=dict)
    items: list[LocatedValue] = field(default_factory=list)
    key_start: int = -1
    key_line: int = 0

    def at(self, path: tuple[str | int, ...]) -> LocatedValue | None:
        """The value at a path of names and positions, or None."""
        found: LocatedValue | None = self
        for step in path:
            if found is None:
                return None
            if isinstance(step, int):
                found = found.items[step] if step < len(found.items) else None
            else:
                found = found.members.get(step)
        return found

    @property
    def shown_line(self) -> int:
        """The line to report: that of its name, if it has one."""
        return self.key_line or self.line


def located(data: bytes) -> LocatedValue:
    """The single value of a file; ``BadJson`` where there is none, or more than one."""
    try:
        text = text_of(data)
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise BadJson("a byte that is not UTF-8", line, 1) from None
    reader = _JsonReader(text)
    start = reader.skip(0)
    if start == len(text):
        raise reader.bad("the text ends before a value", start)
    value, position = reader.value(start, 1)
    end = reader.skip(position)
    if end != len(text):
        raise reader.bad("there is text after the value", end)
    return value


def text_of(data: bytes) -> str:
    """The text that positions refer to: UTF-8 without a byte order mark."""
    return data.removeprefix(b"\xef\xbb\xbf").decode()


class _JsonReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def bad(self, what: str, position: int) -> BadJson:
        line = self.line(position)
        return BadJson(what, line, position - self._lines[line - 1] + 1)

    def line(self, position: int) -> int:
        return bisect_right(self._lines, position)

    def skip(self, position: int) -> int:
        found = _SPACE.match(self._text, position)
        return found.end() if found else position

    def value(self, position: int, depth: int) -> tuple[LocatedValue, int]:
        """The value that begins here, and where it ends."""
        if depth > DEFAULT_LIMITS.depth:
            raise self.bad(f"more than {DEFAULT_LIMITS.depth} levels", position)
        first = self._text[position : position + 1]
        if first == "{":
            return self._object(position, depth)
        if first == "[":
            return self._list(position, depth)
        if first == '"':
            text, end = self._string(position)
            return self._plain(text, position, end)
        for word, value in _WORDS.items():
            if self._text.startswith(word, position):
                return self._plain(value, position, position + len(word))
        number = _NUMBER.match(self._text, position)
        if number is None or number.end() - position > _MOST_DIGITS:
            raise self.bad("a value was expected", position)
        return self._plain(_number(number.group()), position, number.end())

    def _plain(self, value: object, start: int, end: int) -> tuple[LocatedValue, int]:
        return LocatedValue(value, self.line(start), start, end), end

    def _string(self, position: int) -> tuple[str, int]:
        try:
            text, end = _strings.raw_decode(self._text, position)
        except JSONDecodeError as problem:
            raise self.bad(problem.msg.lower().removesuffix(" at"), problem.pos) from None
        return str(text), end

    def _object(self, start: int, depth: int) -> tuple[LocatedValue, int]:
        members: dict[str, LocatedValue] = {}
        position = self.skip(start + 1)
        while not (self._text.startswith("}", position) and not members):
            if not self._text.startswith('"', position):
                raise self.bad("a name in double quotes was expected", position)
            key_start = position
            name, position = self._string(position)
            position = self.skip(position)
            if not self._text.startswith(":", position):
                raise self.bad("a colon was expected", position)
            member, position = self.value(self.skip(position + 1), depth + 1)
            member.key_start, member.key_line = key_start, self.line(key_start)
            members.pop(name, None)
            members[name] = member
            position = self.skip(position)
            if self._text.startswith("}", position):
                break
            position = self._comma(position, "}")
        values = {name: member.value for name, member in members.items()}
        return LocatedValue(values, self.line(start), start, position + 1, members=members), position + 1

    def _list(self, start: int, depth: int) -> tuple[LocatedValue, int]:
        items: list[LocatedValue] = []
        position = self.skip(start + 1)
        while not (self._text.startswith("]", position) and not items):
            item, position = self.value(position, depth + 1)
            items.append(item)
            position = self.skip(position)
            if self._text.startswith("]", position):
                break
            position = self._comma(position, "]")
        values = [item.value for item in items]
        return LocatedValue(values, self.line(start), start, position + 1, items=items), position + 1

    def _comma(self, position: int, closing: str) -> int:
        if not self._text.startswith(",", position):
            raise self.bad(f"a comma or {closing} was expected", position)
        return self.skip(position + 1)


def _number(text: str) -> int | float:
    return float(text) if any(sign in text for sign in ".eE") else int(text)


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
