"""Todos and tasks: both old shapes, nothing lost in a rewrite, and only the steps of the state machine."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import IllegalTransition, UsageError
from recollect.model.todo import (
    Task,
    TodoItem,
    TodoStatus,
    decode_task,
    decode_todos,
    encode_task,
    encode_todos,
)

PENDING, IN_PROGRESS = TodoStatus.PENDING, TodoStatus.IN_PROGRESS
COMPLETED, CANCELLED = TodoStatus.COMPLETED, TodoStatus.CANCELLED

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from(
    ["content", "status", "activeForm", "priority", "id", "subject", "blocks", "owner", "x"]
)


def plain(item: TodoItem) -> TodoItem:
    """The item without the JSON it came with."""
    return msgspec.structs.replace(item, kept=None)


def sample_lists(transcripts: Path) -> list[Path]:
    return sorted((transcripts / "samples/claude-home").glob("*/.claude/todos/*.json"))


def sample_tasks(transcripts: Path) -> list[Path]:
    return sorted((transcripts / "samples/claude-home").glob("*/.claude/tasks/*/*.json"))


def test_a_refused_step_names_the_item_and_the_steps_that_are_left() -> None:
    """The error says what cannot be done and where the item can go instead."""
    with pytest.raises(IllegalTransition) as refused:
        Task("7", "Paint", status=PENDING).moved(COMPLETED)

    assert "task 7: cannot go from pending to completed" == refused.value.message
    assert (IN_PROGRESS, CANCELLED) == refused.value.allowed


def test_the_later_shape_has_an_active_form(transcripts: Path) -> None:
    """Clients from 1.0.128 to 2.1.30 wrote content, status and activeForm."""
    path = next(path for path in sample_lists(transcripts) if "a7b3ed97" in path.name)

    items = decode_todos(path.read_bytes())

    assert [
        TodoItem("Step 0", COMPLETED, "Doing step 0"),
        TodoItem("Step 1", IN_PROGRESS, "Doing step 1"),
    ] == [plain(item) for item in items]


def test_every_real_list_is_written_back_byte_for_byte(transcripts: Path) -> None:
    """What was not changed is written as the client wrote it, in every sample list."""
    paths = sample_lists(transcripts)
    files = [path.read_bytes() for path in paths]

    assert files == [encode_todos(decode_todos(data)) for data in files]
    assert any(b"priority" in data for data in files)


def test_every_real_task_is_written_back_byte_for_byte(transcripts: Path) -> None:
    """The same for the tasks of clients 2.1.197 and 2.1.325."""
    files = [path.read_bytes() for path in sample_tasks(transcripts)]

    assert files == [encode_task(decode_task(data)) for data in files]
    assert 4 == len(files)


def test_a_step_changes_the_status_and_nothing_else() -> None:
    """Unknown fields, their order, their numbers and odd elements survive a rewrite."""
    before = b'[{"x":{"y":1.50},"status":"pending","content":"A","n":12345678901234567890},"odd",7]'

    items = list(decode_todos(before))
    items[0] = items[0].moved(IN_PROGRESS)

    after = before.replace(b"pending", b"in_progress")
    assert msgspec.json.format(after, indent=2) == encode_todos(items)


def test_a_task_of_the_client_keeps_what_we_do_not_know() -> None:
    """``owner`` and ``metadata`` are the client's (measured on 2.1.325)."""
    before = b'{"id":"1","subject":"S","owner":"me","status":"pending","blocks":[],"blockedBy":[],"metadata":{"k":1}}'

    after = encode_task(decode_task(before).moved(CANCELLED))

    assert {**json.loads(before), "status": "cancelled"} == json.loads(after)


def test_a_number_as_id_is_read_as_its_digits_and_left_as_a_number() -> None:
    """Some writers number their items."""
    item = decode_todos(b'[{"id":3,"content":"A","status":"pending"}]')[0]

    assert "3" == item.id
    assert 3 == json.loads(encode_todos([item]))[0]["id"]


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"null", b"[", b"\xff", b"[" * 100_000, b"[" * 70 + b"]" * 70, b'"x"']
)
def test_what_is_no_list_is_refused_as_a_value(data: bytes) -> None:
    """A todo file that is not a list is a ``ValueError``, never a crash of the parser."""
    with pytest.raises(ValueError, match=r"not a list|nested"):
        decode_todos(data)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"not json", b'{"a":' * 100_000])
def test_what_is_no_object_is_no_task(data: bytes) -> None:
    """The same for a task."""
    with pytest.raises(ValueError, match=r"not a task|nested"):
        decode_task(data)


def test_text_that_cannot_be_written_is_refused_before_a_byte_is() -> None:
    """Half of a surrogate pair is no text."""
    with pytest.raises(UsageError):
        encode_todos([TodoItem("\ud83d")])


@given(st.lists(st.dictionaries(names, json_values, max_size=5) | json_values, max_size=4))
def test_no_list_loses_anything(items: list[object]) -> None:
    """Whatever stands in a list, reading and writing gives the same values in the same order."""
    data = json.dumps(items).encode()

    assert items == json.loads(encode_todos(decode_todos(data)))


@given(st.dictionaries(names, json_values, max_size=6))
def test_no_task_loses_anything(fields: dict[str, object]) -> None:
    """The same for tasks, which gain their two links at most."""
    data = json.dumps(fields).encode()

    after = json.loads(encode_task(decode_task(data)))

    assert {"blocks": [], "blockedBy": [], **fields} == after
