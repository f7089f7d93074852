"""What the next version of a client, a full disk or a bad hand may make of a file: each change as new bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MARK = "zz-mutant"
NUMBER = 987_654_321
Place = tuple[str | int, ...]
# Replacements, and whether a field that holds one can only be an unknown one, or shows it.
VALUES: dict[str, Any] = {
    "null": None,
    "number": NUMBER,
    "negative": -NUMBER,
    "huge": 10**30,
    "fraction": 0.987654321,
    "string": MARK,
    "path": f"../../../{MARK}",
    "no path": f"{MARK}\0",
    "list": [MARK],
    "object": {MARK: NUMBER},
    "bool": True,
}


class Mutation(NamedTuple):
    """New bytes of a file. ``told``: what must be seen or counted, where a value has another type now."""

    name: str
    data: bytes
    is_told: bool = False


def places(value: object, above: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, but its root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from places(inner, (*above, key))


def of_records(data: bytes, *, is_document: bool) -> Iterator[Mutation]:
    """Each value at each place replaced by each other one, each key renamed."""
    records = [data] if is_document else data.splitlines(keepends=True)
    for number, raw in enumerate(records):
        value = json.loads(raw)
        before, after = b"".join(records[:number]), b"".join(records[number + 1 :])
        for place in places(value):
            for name, new in _changes(value, place):
                is_told = name in ("number", "list", "object") and _differs(value, place, VALUES[name])
                label = f"{number}:{'.'.join(map(str, place))}:{name}"
                yield Mutation(label, before + _line(new) + after, is_told)


def of_files(data: bytes, *, is_document: bool) -> Iterator[Mutation]:
    """Unknown records, nesting, other encodings, and a cut at every byte."""
    if not is_document:
        lines = data.splitlines(keepends=True)
        for number in range(1, len(lines) + 1):
            for name, extra in _strangers():
                new = b"".join([*lines[:number], extra, *lines[number:]])
                yield Mutation(f"{number}:{name}", new, is_told=True)
    for place in range(1, len(data)):
        yield Mutation(f"cut at {place}", data[:place])
        yield Mutation(f"no UTF-8 at {place}", data[:place] + b"\xff\xfe" + data[place:])


def _strangers() -> Iterator[tuple[str, bytes]]:
    for name, value in VALUES.items():
        yield f"bare {name}", _line(value)
    yield "unknown type", _line({"type": MARK, "payload": {"type": MARK}})
    yield "unknown inner type", _line({"type": "response_item", "payload": {"type": MARK}})
    yield "empty object", _line({})
    yield "deep", b'{"type":' + b"[" * 60 + b"]" * 60 + b"}\n"
    yield "very deep", b"[" * 100_000 + b"\n"
    yield "binary", bytes(range(1, 10)) + b"\xff\n"


def _changes(value: Any, place: Place) -> Iterator[tuple[str, object]]:
    for name, replacement in VALUES.items():
        yield name, _replaced(value, place, replacement)
    yield "deep", _replaced(value, place, _nested(70))
    if isinstance(place[-1], str):
        new = copy.deepcopy(value)
        holder = _at(new, place[:-1])
        holder[MARK] = holder.pop(place[-1])
        yield "renamed", new


def _differs(value: object, place: Place, new: object) -> bool:
    """Whether a value has another type than the one that was there; numbers are of one type, null of none."""
    old = _at(value, place)
    return old is not None and not (isinstance(old, type(new)) or isinstance(new, type(old)))


def _replaced(value: object, place: Place, new: object) -> object:
    found = copy.deepcopy(value)
    _at(found, place[:-1])[place[-1]] = new
    return found


def _at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def _nested(depth: int) -> object:
    found: object = MARK
    for _ in range(depth):
        found = [found]
    return found


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


# ---- several at once: what a client with another format would write -----------------------------------------


def wild(data: bytes, chance: random.Random, *, is_document: bool) -> bytes:
    """Records that were dropped, repeated, swapped, wrapped, joined, renamed and changed within, up to five of them."""
    if is_document:
        value = _rewritten(json.loads(data), chance)
        return _line(chance.choice([value, value, [value], {"schema": 2, "session": value}]))
    lines = data.splitlines(keepends=True)
    for _ in range(chance.choice([1, 2, 3, 5])):
        number = chance.randrange(len(lines))
        lines[number : number + 1] = _instead(lines, number, chance)
        if not lines:
            break
    return b"".join(lines)


def _instead(lines: Sequence[bytes], number: int, chance: random.Random) -> list[bytes]:
    """What stands in the place of one line."""
    raw = lines[number]
    try:
        value = json.loads(raw)
    except ValueError:
        return [raw]
    kinds = ["new_kind", "session_meta", "compacted", "event_msg", "system", "user", "$set", 7, None]
    retyped = {**value, "type": chance.choice(kinds)} if isinstance(value, dict) else value
    found: list[list[bytes]] = [
        [],
        [raw, raw],
        [chance.choice(lines), raw],
        [_line({"schema": 2, "record": value})],
        [_line([value])],
        [raw.rstrip(b"\n") + b"\r\n"],
        [raw.rstrip(b"\n") + raw],
        [raw[: chance.randrange(len(raw))] + b"\n"],
        [raw, _line(retyped)],
        *([_line(_rewritten(value, chance))] for _ in range(6)),
    ]
    return chance.choice(found)


def _rewritten(value: Any, chance: random.Random) -> Any:
    """A record in which some fields went, moved deeper, became texts or lists, or have other names."""
    new = copy.deepcopy(value)
    for _ in range(chance.choice([1, 2, 3, 6])):
        found = list(places(new))
        if not found:
            break
        *above, key = chance.choice(found)
        holder = _at(new, tuple(above))
        old = holder[key]
        if isinstance(key, str) and chance.random() < 0.3:
            del holder[key]
            if chance.random() < 0.5:
                holder[key.upper()] = old
        else:
            others = [*VALUES.values(), "", [], {}, [[]], {"": ""}, "2026-13-45T99:00:00Z"]
            other = copy.deepcopy(chance.choice(others))
            holder[key] = chance.choice([[old], {"v2": old}, json.dumps(old), other, other])
    return new


def rebuilt(tables: Mapping[str, Sequence[str]], chance: random.Random) -> list[str]:
    """Up to four statements of a migration, each of which may fail after the ones before it."""
    found = []
    for _ in range(chance.choice([1, 2, 3, 4])):
        table = chance.choice(list(tables))
        name = chance.choice(tables[table])
        wrapped = f"'{{\"v\":2,\"data\":' || {name} || '}}'"
        values = [
            "NULL",
            "x'00ff28'",
            "12345",
            f"CAST({name} AS BLOB)",
            f"'[' || {name} || ']'",
            wrapped,
            f"substr({name}, 1, 20)",
        ]
        found.append(
            chance.choice(
                [
                    f"ALTER TABLE {table} RENAME COLUMN {name} TO {name}_v2",
                    f"ALTER TABLE {table} DROP COLUMN {name}",
                    f"ALTER TABLE {table} ADD COLUMN extra TEXT DEFAULT 'x'",
                    f"ALTER TABLE {table} RENAME TO {table}_v2",
                    f"ALTER TABLE {table} RENAME TO {table}_base; CREATE VIEW {table} AS SELECT * FROM {table}_base",
                    f"CREATE TABLE {table}_next AS SELECT * FROM {table}",
                    f"DROP TABLE {table}",
                    *(f"UPDATE {table} SET {name} = {value}" for value in values),
                ]
            )
        )
    return found
