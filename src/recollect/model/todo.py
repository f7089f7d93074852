"""Todos and tasks: items, their status, and the allowed steps.

Both are lists of small JSON objects that clients have written in several shapes (``priority`` and ``id`` in
1.0, ``activeForm`` since, tasks with ``blocks`` in 2.1). An item keeps the JSON of every field it came with,
and writing replaces only the fields that changed, so a rewrite loses nothing that we do not know.

    pending ──► in_progress ──► completed
       └──────┬──────┘
              ▼
          cancelled

Every other step raises ``IllegalTransition``, also from a status that is not one of the four. The client
itself has no ``cancelled``: a task in that state is still on disk, but client 2.1.325 does not list it.

This module handles bytes; ``storage`` decides where they are stored. Data that is not a list (todos) or not
an object (a task) is a ``ValueError``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Self

import msgspec
from msgspec import Raw, Struct

from recollect.errors import IllegalTransition
from recollect.model.lines.damage import DEFAULT_LIMITS
from recollect.model.lines.json_text import deeper_than, json_of

_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class TodoStatus(enum.StrEnum):
    """How far an item is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


_NEXT: dict[str, tuple[TodoStatus, ...]] = {
    TodoStatus.PENDING: (TodoStatus.IN_PROGRESS, TodoStatus.CANCELLED),
    TodoStatus.IN_PROGRESS: (TodoStatus.COMPLETED, TodoStatus.CANCELLED),
    TodoStatus.COMPLETED: (),
    TodoStatus.CANCELLED: (),
}


def checked_step(what: str, current: str, wanted: TodoStatus) -> TodoStatus:
    """``wanted``, if the step is allowed; ``IllegalTransition`` if not."""
    steps = _NEXT.get(current, ())
    if wanted not in steps:
        raise IllegalTransition(what, current or "no status", wanted, steps)
    return wanted


class TodoItem(Struct, frozen=True, rename="camel"):
    """One line of a todo list. ``status`` is text: other programs may write unknown values.

    ``kept`` is the original item, field by field, None for a new one; ``odd`` is the JSON of an element that
    was not an object, which is written back unchanged.
    """

    content: str
    status: str = TodoStatus.PENDING
    active_form: str | None = None
    priority: str | None = None
    id: str | None = None
    kept: dict[str, bytes] | None = None
    odd: bytes = b""

    def moved(self, wanted: TodoStatus) -> Self:
        """The item in another state; ``IllegalTransition`` where that step is not allowed."""
        step = checked_step(f"todo {_excerpt(self.content)}", self.status, TodoStatus(wanted))
        return msgspec.structs.replace(self, status=step)


class Task(Struct, frozen=True, rename="camel"):
    """One file of a task list. ``id`` is the number in its file name, as text."""

    id: str
    subject: str
    description: str = ""
    active_form: str | None = None
    status: str = TodoStatus.PENDING
    blocks: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    kept: dict[str, bytes] | None = None

    def moved(self, wanted: TodoStatus) -> Self:
        step = checked_step(f"task {self.id}", self.status, TodoStatus(wanted))
        return msgspec.structs.replace(self, status=step)


def decode_todos(data: bytes) -> tuple[TodoItem, ...]:
    """The items of a todo file. ``ValueError`` where it is not a list."""
    _refuse_depth(data)
    try:
        parts = msgspec.json.decode(data, type=list[Raw])
    except _REFUSED as problem:
        raise ValueError(f"not a list of todos: {problem}") from None
    return tuple(_todo(part) for part in parts)


def encode_todos(items: Iterable[TodoItem]) -> bytes:
    """The items as a client writes them: indented by two, no newline at the end."""
    return _pretty([Raw(item.odd) if item.odd else _merged(item) for item in items])


def decode_task(data: bytes) -> Task:
    """The task of one file. ``ValueError`` where it is not an object."""
    _refuse_depth(data)
    try:
        fields = msgspec.json.decode(data, type=dict[str, Raw])
    except _REFUSED as problem:
        raise ValueError(f"not a task: {problem}") from None
    return Task(
        _text(fields, "id") or "",
        _text(fields, "subject") or "",
        _text(fields, "description") or "",
        _text(fields, "activeForm"),
        _text(fields, "status") or "",
        _texts(fields, "blocks"),
        _texts(fields, "blockedBy"),
        _bytes(fields),
    )


def encode_task(task: Task) -> bytes:
    """The task as a client writes it. ``blocks`` and ``blockedBy`` are always present: it needs both."""
    return _pretty(_merged(task))


# ---- fields in and out -----------------------------------------------------------------------------------


def _todo(part: Raw) -> TodoItem:
    try:
        fields = msgspec.json.decode(part, type=dict[str, Raw])
    except _REFUSED:
        return TodoItem("", "", odd=bytes(part))
    return TodoItem(
        _text(fields, "content") or "",
        _text(fields, "status") or "",
        _text(fields, "activeForm"),
        _text(fields, "priority"),
        _text(fields, "id"),
        _bytes(fields),
    )


def _merged(item: TodoItem | Task) -> dict[str, Raw]:
    """The original fields, with changed values replaced in place."""
    kept = item.kept
    merged = {name: Raw(json) for name, json in (kept or {}).items()}
    for name, field in zip(item.__struct_encode_fields__, item.__struct_fields__, strict=True):
        value = getattr(item, field)
        if value is None or field in ("kept", "odd"):
            continue
        stood = _texts(merged, name) if isinstance(value, tuple) else _text(merged, name) or ""
        needed = name not in merged and (kept is None or isinstance(value, tuple))
        if needed or value != stood:
            merged[name] = json_of(name, value)
    return merged


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _text(fields: Mapping[str, Raw], name: str) -> str | None:
    """A field as text. Numbers are converted to digits: some writers number their items."""
    try:
        value = msgspec.json.decode(fields[name]) if name in fields else None
    except _REFUSED:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _texts(fields: Mapping[str, Raw], name: str) -> tuple[str, ...]:
    try:
        parts = msgspec.json.decode(fields[name], type=list[str | int]) if name in fields else []
    except _REFUSED:
        return ()
    return tuple(str(part) for part in parts)


def _bytes(fields: Mapping[str, Raw]) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in fields.items()}


def _refuse_depth(data: bytes) -> None:
    if deeper_than(data, DEFAULT_LIMITS.depth):
        raise ValueError(f"nested more than {DEFAULT_LIMITS.depth} levels")


def _excerpt(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:37] + "...")
