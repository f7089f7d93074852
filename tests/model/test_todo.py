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
    next_steps,
    next_task_id,
)

PENDING, IN_PROGRESS = TodoStatus.PENDING, TodoStatus.IN_PROGRESS
COMPLETED, CANCELLED = TodoStatus.COMPLETED, TodoStatus.CANCELLED
ALLOWED = {
    (PENDING, IN_PROGRESS),
    (PENDING, CANCELLED),
    (IN_PROGRESS, COMPLETED),
    (IN_PROGRESS, CANCELLED),
}

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


def sample_lists(shared: Path) -> list[Path]:
    return sorted((shared / "samples/claude-home").glob("*/.claude/todos/*.json"))


def sample_tasks(shared: Path) -> list[Path]:
    return sorted((shared / "samples/claude-home").glob("*/.claude/tasks/*/*.json"))


@pytest.mark.parametrize("current", list(TodoStatus))
@pytest.mark.parametrize("wanted", list(TodoStatus))
def test_only_the_four_steps_of_the_state_machine_exist(current: TodoStatus, wanted: TodoStatus) -> None:
    """Pending to in_progress, in_progress to completed, cancelled from both; every other step is refused."""
    item = TodoItem("Step", current)

    try:
        reached: str | None = item.moved(wanted).status
    except IllegalTransition:
        reached = None

    assert (wanted if (current, wanted) in ALLOWED else None) == reached


def test_a_refused_step_names_the_item_and_the_steps_that_are_left() -> None:
    """The error says what cannot be done and where the item can go instead."""
    with pytest.raises(IllegalTransition) as refused:
        Task("7", "Paint", status=PENDING).moved(COMPLETED)

    assert "task 7: cannot go from pending to completed" == refused.value.message
    assert (IN_PROGRESS, CANCELLED) == refused.value.allowed


def test_a_status_of_somebody_elses_making_leads_nowhere() -> None:
    """An unknown status is kept as text and has no next step."""
    assert () == next_steps("blocked")


def test_the_early_shape_has_priority_and_id(shared: Path) -> None:
    """Client 1.0.24 wrote content, status, priority and id."""
    path = next(path for path in sample_lists(shared) if "1b2f37ed" in path.name)

    items = decode_todos(path.read_bytes())

    assert [
        TodoItem("Step 0", IN_PROGRESS, priority="high", id="0"),
        TodoItem("Step 1", PENDING, priority="high", id="1"),
    ] == [plain(item) for item in items]


def test_the_later_shape_has_an_active_form(shared: Path) -> None:
    """Clients from 1.0.128 to 2.1.30 wrote content, status and activeForm."""
    path = next(path for path in sample_lists(shared) if "a7b3ed97" in path.name)

    items = decode_todos(path.read_bytes())

    assert [
        TodoItem("Step 0", COMPLETED, "Doing step 0"),
        TodoItem("Step 1", IN_PROGRESS, "Doing step 1"),
    ] == [plain(item) for item in items]


def test_every_real_list_is_written_back_byte_for_byte(shared: Path) -> None:
    """What was not changed is written as the client wrote it, in every sample list."""
    paths = sample_lists(shared)
    files = [path.read_bytes() for path in paths]

    assert files == [encode_todos(decode_todos(data)) for data in files]
    assert any(b"priority" in data for data in files)


def test_every_real_task_is_written_back_byte_for_byte(shared: Path) -> None:
    """The same for the tasks of clients 2.1.197 and 2.1.325."""
    files = [path.read_bytes() for path in sample_tasks(shared)]

    assert files == [encode_task(decode_task(data)) for data in files]
    assert 4 == len(files)


def test_a_task_has_its_links(shared: Path) -> None:
    """The sample's second task waits for its first."""
    first, second, *_ = [decode_task(path.read_bytes()) for path in sample_tasks(shared)]

    assert ("1", "First task", "Doing first", COMPLETED, ("2",), ()) == (
        first.id,
        first.subject,
        first.active_form,
        first.status,
        first.blocks,
        first.blocked_by,
    )
    assert (None, ("1",)) == (second.active_form, second.blocked_by)


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


def test_a_new_task_is_written_as_the_client_writes_it() -> None:
    """Indented by two, links always there, no activeForm where there is none, no final newline."""
    assert (
        b'{\n  "id": "2",\n  "subject": "Second task",\n  "description": "Do the second thing",\n'
        b'  "status": "pending",\n  "blocks": [],\n  "blockedBy": [\n    "1"\n  ]\n}'
    ) == encode_task(Task("2", "Second task", "Do the second thing", blocked_by=("1",)))


def test_a_task_without_links_gets_them_when_it_is_written() -> None:
    """Client 2.1.325 does not list a task that lacks ``blocks`` or ``blockedBy``."""
    after = json.loads(encode_task(decode_task(b'{"id":"7","subject":"S","status":"pending"}')))

    assert {"id": "7", "subject": "S", "status": "pending", "blocks": [], "blockedBy": []} == after


def test_a_number_as_id_is_read_as_its_digits_and_left_as_a_number() -> None:
    """Some writers number their items."""
    item = decode_todos(b'[{"id":3,"content":"A","status":"pending"}]')[0]

    assert "3" == item.id
    assert 3 == json.loads(encode_todos([item]))[0]["id"]


def test_a_new_item_is_written_without_the_fields_it_lacks() -> None:
    """The shape of 2.0: content, status, activeForm."""
    written = json.loads(encode_todos([TodoItem("A", PENDING, "Doing A")]))

    assert [{"content": "A", "status": "pending", "activeForm": "Doing A"}] == written


def test_an_empty_list_is_two_characters() -> None:
    """As in the files the client makes for every session."""
    assert b"[]" == encode_todos([])


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


def test_the_next_number_follows_the_highest_ever_used() -> None:
    """Deleted numbers are not given again; gaps are not filled."""
    assert ("1", "21", "8") == (next_task_id([]), next_task_id([2, 20]), next_task_id([2], 7))


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
