"""Our own store: a session's life, its totals, its trash, in both layouts."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from recollect.errors import Ambiguous, IdConflict, InvalidId, NotFound, StorageError, UsageError
from recollect.model.lines import draft
from recollect.model.lines.blocks import Tokens, Usage
from recollect.model.lines.entry import Entry
from recollect.store.logs.reader import LogReader
from recollect.store.store import PlacedDraft, Store

SONNET = "claude-sonnet-4-5-20250929"
START = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)


class Clock:
    """A clock the test moves."""

    def __init__(self, now: dt.datetime = START) -> None:
        self.now = now

    def __call__(self) -> dt.datetime:
        return self.now


def answer(output: int, message_id: str | None = None) -> draft.Draft:
    """An answer that used 100 tokens of input and ``output`` of output."""
    usage = Usage(input_tokens=100, output_tokens=output)
    return draft.assistant("Hi", model=SONNET, usage=usage, message_id=message_id)


def entries(path: Path) -> list[Entry]:
    """All entries of a log; damage fails the test."""
    items = list(LogReader(path))
    assert all(isinstance(item, Entry) for item in items)
    return [item for item in items if isinstance(item, Entry)]


def test_nothing_is_on_disk_before_the_first_entry(tmp_path: Path) -> None:
    """An empty log would capture `claude --continue`."""
    store = Store(tmp_path / "store")
    store.create("/srv/app").close()

    assert not (tmp_path / "store").exists()


def test_entries_are_chained_and_their_times_rise(tmp_path: Path) -> None:
    """Each has the one before as its parent; a clock that stands or goes back is overruled by 1 ms."""
    clock = Clock()
    with Store(tmp_path, clock=clock).create("/srv/app") as log:
        ids = log.append_many([draft.user("a"), answer(1)])
        clock.now -= dt.timedelta(hours=1)
        ids.append(log.append(draft.user("b")))
        log.append(draft.custom_title("T"))
        ids.append(log.append(answer(2)))
    chain = [entry for entry in entries(log.path) if entry.uuid]

    assert ids == [entry.uuid for entry in chain]
    assert [None, *ids[:-1]] == [entry.parent_uuid for entry in chain]
    assert [START + dt.timedelta(milliseconds=n) for n in range(4)] == [entry.at for entry in chain]


def test_a_placed_draft_chooses_its_parent_and_its_time(tmp_path: Path) -> None:
    """Each alone or both; what is not chosen is as for any other, and the next entry follows on."""
    clock = Clock()
    earlier = START - dt.timedelta(days=1)
    with Store(tmp_path, clock=clock).create("/srv/app") as log:
        first = log.append(draft.user("a"))
        second = log.append(PlacedDraft(draft=draft.user("b"), at=earlier))
        third = log.append(PlacedDraft(draft=draft.user("c"), parent=first))
        fourth = log.append(PlacedDraft(draft=draft.system("d"), parent=None, at=earlier))
        log.append(draft.user("e"))

    assert [
        (first, None, START),
        (second, first, earlier),
        (third, first, START),
        (fourth, None, earlier),
    ] == [(entry.uuid, entry.parent_uuid, entry.at) for entry in entries(log.path)[:4]]
    last = entries(log.path)[4]
    assert (fourth, START) == (last.parent_uuid, last.at)


def test_reopening_continues_the_chain_after_a_foreign_entry(tmp_path: Path) -> None:
    """What another program appended meanwhile becomes the parent of what follows."""
    store = Store(tmp_path)
    with store.create("/srv/app") as log:
        log.append(draft.user("a"))
        foreign = {"type": "user", "uuid": "f", "parentUuid": None, "message": {"content": "x"}}
        with log.path.open("ab") as file:
            file.write(json.dumps(foreign).encode() + b"\n")
        log.append(draft.user("b"))

    assert "f" == entries(log.path)[-1].parent_uuid


def test_lines_of_one_response_are_counted_once(tmp_path: Path) -> None:
    """Three lines with one message id repeat one usage."""
    with Store(tmp_path).create("/srv/app") as log:
        log.append_many([answer(7, "m"), answer(7, "m"), answer(7, "m")])

        assert Tokens(input=100, output=7) == log.spending.tokens


def test_a_repeated_append_with_the_same_id_stores_nothing_twice(tmp_path: Path) -> None:
    """Also from a process that does not know the first attempt succeeded; other words are a conflict."""
    store = Store(tmp_path)
    entry_id = "11111111-2222-4333-8444-555555555555"
    with store.create("/srv/app") as log:
        log.append(draft.user("a"), entry_id=entry_id)
    with store.open(log.id) as again:
        assert entry_id == again.append(draft.user("a"), entry_id=entry_id)
        with pytest.raises(IdConflict):
            again.append(draft.user("b"), entry_id=entry_id)

    assert [entry_id] == [entry.uuid for entry in entries(log.path)]


def test_a_session_is_found_by_the_start_of_its_id(tmp_path: Path) -> None:
    """A unique prefix is enough; an ambiguous one lists what fits; nothing is not found."""
    ids = iter(["aa000000-0000-4000-8000-000000000001", "aa000000-0000-4000-8000-000000000002"])
    store = Store(tmp_path)
    for name in ids:
        with store.create("/srv/app", session=name) as log:
            log.append(draft.user("a"))

    assert log.id == store.find(log.id).id
    with pytest.raises(Ambiguous) as both:
        store.find("aa")
    assert 2 == len(both.value.matches)
    with pytest.raises(NotFound):
        store.find("bb")
    with pytest.raises(UsageError):
        store.create("/srv/app", session=log.id)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "", "x" * 300, "a\0b", "no-uuid"])
def test_no_name_leaves_the_store(tmp_path: Path, name: str) -> None:
    """Names that are not the layout's own are refused before a path is built."""
    with pytest.raises(InvalidId):
        Store(tmp_path).create("/srv/app", session=name or "..")


def test_a_restore_does_not_overwrite(tmp_path: Path) -> None:
    """A session of the same id that came to life meanwhile is left alone."""
    store = Store(tmp_path)
    with store.create("/srv/app") as log:
        log.append(draft.user("old"))
    trashed = store.delete(log.id)
    with store.create("/srv/app", session=log.id) as new:
        new.append(draft.user("new"))
    content = new.path.read_bytes()

    with pytest.raises(UsageError):
        store.restore(trashed.batch)
    assert (content, True) == (new.path.read_bytes(), trashed.path.exists())


def test_a_session_deleted_under_an_open_log_starts_anew(tmp_path: Path) -> None:
    """What is said afterwards forms a chain of its own, with no parent in the trash."""
    store = Store(tmp_path)
    with store.create("/srv/app") as log:
        log.append(draft.user("old"))
        store.delete(log.id)
        first = log.append(draft.user("new"))
        second = log.append(draft.user("newer"))

    assert [(first, None), (second, first)] == [
        (entry.uuid, entry.parent_uuid) for entry in entries(log.path)
    ]


def test_a_trash_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    """Nothing is moved, and the error says what to do."""
    store = Store(tmp_path)
    with store.create("/srv/app") as log:
        log.append(draft.user("a"))
    (tmp_path / "trash").write_text("in the way")

    with pytest.raises(StorageError, match="trash"):
        store.delete(log.id)
    assert log.path.exists()


ENTRY = "11111111-2222-4333-8444-555555555555"


def answer_with_call(tool: str = "Bash") -> draft.Draft:
    """An answer that takes two lines: words and a call."""
    return draft.assistant([draft.text("Look"), draft.tool_use("t1", tool, {})], model=SONNET)


def test_a_repeat_adds_the_lines_a_crash_cut_off(tmp_path: Path) -> None:
    """The second line of an entry never reached the file; repeating the entry adds it and nothing else."""
    store = Store(tmp_path)
    with store.create("/srv/app") as log:
        log.append(answer_with_call(), entry_id=ENTRY)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole.split(b"\n")[0] + b"\n")
    with store.open(log.id) as again:
        again.append(answer_with_call(), entry_id=ENTRY)

    assert whole == log.path.read_bytes()


def test_a_repeat_is_harmless_however_old_it_is(tmp_path: Path) -> None:
    """Eleven hundred entries later, in the same object and in a new one: nothing is stored twice."""
    store = Store(tmp_path)
    with store.create("/srv/app") as log:
        log.append(draft.user("first"), entry_id=ENTRY)
        log.append_many([draft.user(str(number)) for number in range(1_100)])
        log.append(draft.user("first"), entry_id=ENTRY)
    with store.open(log.id) as again:
        again.append(draft.user("first"), entry_id=ENTRY)

    assert 1_101 == len(entries(log.path))


def test_threads_that_share_a_session_make_one_chain(tmp_path: Path) -> None:
    """Each entry follows the one before it; nobody follows the same one."""
    import threading

    with Store(tmp_path).create("/srv/app") as log:
        threads = [
            threading.Thread(target=lambda: [log.append(draft.user("x")) for _ in range(25)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = entries(log.path)

    assert [None, *(entry.uuid for entry in found[:-1])] == [entry.parent_uuid for entry in found]
    assert 100 == len(found)


def test_settings_are_checked_not_guessed(tmp_path: Path) -> None:
    """A layout by name; a clock without a zone is one of UTC."""
    with pytest.raises(UsageError):
        Store(tmp_path, layout="round")
    with Store(tmp_path, clock=lambda: dt.datetime(2026, 11, 1)).create("/srv/app") as log:  # noqa: DTZ001
        log.append_many([draft.user("a"), draft.user("b")])
    assert 2 == len(entries(log.path))


def test_an_entry_from_the_end_of_the_calendar_does_not_stop_the_next(tmp_path: Path) -> None:
    """A hostile time in a log leaves it appendable."""
    with Store(tmp_path).create("/srv/app") as log:
        log.append(draft.user("a"))
        line = log.path.read_bytes().replace(b'"timestamp":"2', b'"timestamp":"9').replace(b'"9026', b'"9999')
        log.path.write_bytes(line)
        log.append(draft.user("b"))

    assert 2 == len(entries(log.path))


def test_days_of_two_projects_are_told_apart(tmp_path: Path) -> None:
    """In the flat layout both are called by the date: the project's key names the one that is meant."""
    store = Store(tmp_path, layout="flat", clock=Clock())
    logs = []
    for project in ("/srv/a", "/srv/b"):
        with store.create(project) as log:
            log.append(draft.user(project))
            logs.append(log)
    with pytest.raises(Ambiguous) as both:
        store.find("2026-11-01")
    batch = store.delete(both.value.matches[0]).batch

    assert 1 == len(store.sessions())
    assert store.restore(batch).path in {log.path for log in logs}
    assert 2 == len(store.sessions())


@pytest.mark.parametrize("planted", ["trash", "projects"])
def test_links_in_the_store_are_not_followed_out_of_it(tmp_path: Path, planted: str) -> None:
    """Neither delete nor restore moves a byte through a planted link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    store = Store(tmp_path / "store")
    with store.create("/srv/app") as log:
        log.append(draft.user("a"))
    if planted == "projects":
        batch = store.delete(log.id).batch
        log.path.parent.rename(log.path.parent.with_name("aside"))
        log.path.parent.symlink_to(outside)
        with pytest.raises(StorageError):
            store.restore(batch)
    else:
        (tmp_path / "store" / "trash").symlink_to(outside)
        with pytest.raises(StorageError):
            store.delete(log.id)

    assert [] == list(outside.rglob("*.jsonl"))
