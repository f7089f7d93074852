"""Our store in the hands of the Claude Agent SDK: its own contracts, and what they leave open."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import InvalidId, LogLocked, StorageError, UsageError
from recollect.model.lines.damage import Limits
from recollect.sdk import SessionKey, SessionStore, SessionStoreEntry
from recollect.store import sdk_store
from recollect.store.store import Store
from recollect.system.lock import FileLock

SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
KEY: SessionKey = {"project_key": "-srv-app", "session_id": SESSION}
AGENT: SessionKey = {**KEY, "subpath": "subagents/agent-a753668"}
NEED_SDK = "the Claude Agent SDK is not installed: pip install 'recollect[sdk]'"


def said(**fields: object) -> SessionStoreEntry:
    """An entry with these fields."""
    return cast("SessionStoreEntry", {"type": "user", **fields})


def loaded(store: SessionStore, key: SessionKey = KEY) -> list[Any] | None:
    """What is stored under a key."""
    return cast("list[Any] | None", asyncio.run(store.load(key)))


def append(store: SessionStore, *entries: SessionStoreEntry, key: SessionKey = KEY) -> None:
    """Append as one batch."""
    asyncio.run(store.append(key, list(entries)))


# ---- with the SDK -------------------------------------------------------------------------------------------


def test_the_sdks_own_conformance_suite_passes_with_nothing_skipped(tmp_path: Path) -> None:
    """All fourteen contracts, each optional method present."""
    suite = pytest.importorskip("claude_agent_sdk.testing.session_store_conformance", reason=NEED_SDK)
    numbers = itertools.count()

    def fresh() -> SessionStore:
        return SessionStore(tmp_path / str(next(numbers)))

    present = {name for name in suite._OPTIONAL_METHODS if suite._has_optional(fresh(), name, frozenset())}
    assert {"delete", "list_session_summaries", "list_sessions", "list_subkeys"} == present
    asyncio.run(suite.run_session_store_conformance(fresh))


def test_a_summary_made_in_pieces_is_the_summary_of_the_whole(tmp_path: Path) -> None:
    """Listing between appends, by two objects, gives what one fold over all entries gives."""
    agent_sdk = pytest.importorskip("claude_agent_sdk", reason=NEED_SDK)
    entries = [
        said(timestamp="2026-01-01T00:00:00.000Z", message={"role": "user", "content": "First words"}),
        said(customTitle="One", cwd="/srv/app"),
        said(customTitle="Two", gitBranch="main"),
    ]
    for entry in entries:
        append(SessionStore(tmp_path), entry)
        asyncio.run(SessionStore(tmp_path).list_session_summaries("-srv-app"))

    summaries = asyncio.run(SessionStore(tmp_path).list_session_summaries("-srv-app"))
    whole = agent_sdk.fold_session_summary(None, KEY, entries)
    assert [(SESSION, whole["data"])] == [(one["session_id"], one["data"]) for one in summaries]
    assert "Two" == whole["data"]["custom_title"]


def test_a_summary_of_another_log_is_not_believed(tmp_path: Path) -> None:
    """Deleted and written again under the same id, with a log as long as the old one: the new title."""
    pytest.importorskip("claude_agent_sdk", reason=NEED_SDK)
    store = SessionStore(tmp_path)
    append(store, said(customTitle="Old"))
    asyncio.run(store.list_session_summaries("-srv-app"))
    kept = next(tmp_path.rglob("*.summary.json")).read_bytes()
    asyncio.run(store.delete(KEY))
    append(store, said(customTitle="New"))
    next(tmp_path.glob("projects/*/*.jsonl")).with_suffix(".summary.json").write_bytes(kept)

    (summary,) = asyncio.run(store.list_session_summaries("-srv-app"))
    assert "New" == summary["data"]["custom_title"]


def test_the_sdk_lists_reads_renames_and_forks_what_we_store(tmp_path: Path) -> None:
    """Its helpers over our store: title from the rename, messages in order, a fork beside the original."""
    agent_sdk = pytest.importorskip("claude_agent_sdk", reason=NEED_SDK)
    store = SessionStore(tmp_path / "store")
    key: SessionKey = {"project_key": agent_sdk.project_key_for_directory(tmp_path), "session_id": SESSION}
    names = ["3f2a9c1e-0000-4000-8000-00000000000a", "3f2a9c1e-0000-4000-8000-00000000000b"]
    lines = [
        said(uuid=names[0], parentUuid=None, sessionId=SESSION, message={"role": "user", "content": "Hi"}),
        said(
            uuid=names[1], parentUuid=names[0], sessionId=SESSION, message={"role": "user", "content": "Ho"}
        ),
    ]

    async def story() -> tuple[list[Any], list[Any], str]:
        await store.append(key, lines)
        await agent_sdk.rename_session_via_store(store, SESSION, "Named", directory=tmp_path)
        listed = await agent_sdk.list_sessions_from_store(store, directory=tmp_path)
        messages = await agent_sdk.get_session_messages_from_store(store, SESSION, directory=tmp_path)
        fork = await agent_sdk.fork_session_via_store(store, SESSION, directory=tmp_path)
        return listed, messages, fork.session_id

    listed, messages, fork = asyncio.run(story())
    assert [(SESSION, "Named")] == [(one.session_id, one.custom_title) for one in listed]
    assert names == [message.uuid for message in messages]
    stored = asyncio.run(store.list_sessions(key["project_key"]))
    assert {SESSION, fork} == {one["session_id"] for one in stored}


def test_without_the_sdk_only_summaries_are_missing(tmp_path: Path) -> None:
    """The module imports and stores; asking for summaries says what to install."""
    code = f"""
import sys; sys.modules["claude_agent_sdk"] = None
import asyncio
from recollect.sdk import SessionStore
store = SessionStore({str(tmp_path)!r})
key = {{"project_key": "p", "session_id": "s"}}
asyncio.run(store.append(key, [{{"type": "x"}}]))
print(asyncio.run(store.load(key)))
try:
    asyncio.run(store.list_session_summaries("p"))
except Exception as error:
    print(type(error).__name__, error.extras)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ["[{'type': 'x'}]", "MissingExtra ('sdk',)"] == ran.stdout.splitlines()


# ---- what is stored -----------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.text(max_size=5), json_values, max_size=4), max_size=4))
def test_entries_come_back_deep_equal_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, extra: list[dict[str, object]]
) -> None:
    """Any JSON: numbers beyond 64 bits, line separators, NUL, half surrogate pairs."""
    entries = [said(**{**fields, "n": n, "uuid": f"u{n}"}) for n, fields in enumerate(extra)]
    store = SessionStore(tmp_path_factory.mktemp("store"))
    append(store, *entries)

    assert (entries or None) == loaded(store)
    asyncio.run(store.close())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: "a"}, (1, 2), b"bytes", {"s"}])
def test_what_would_come_back_different_is_refused_whole(tmp_path: Path, value: object) -> None:
    """Nothing of the batch is stored."""
    store = SessionStore(tmp_path)
    with pytest.raises(UsageError):
        append(store, said(n=1), said(n=value))

    assert loaded(store) is None


def test_a_repeated_uuid_is_ignored_and_entries_without_one_are_not(tmp_path: Path) -> None:
    """Also with other contents, in one batch, and from another object: the first is kept."""
    store = SessionStore(tmp_path)
    append(store, said(uuid="a", n=1), said(uuid="a", n=2), said(n=3))
    append(store, said(uuid="a", n=4), said(n=3), said(uuid="b", n=5))
    append(SessionStore(tmp_path), said(uuid="b", n=6), said(uuid="c", n=7))
    append(store, said(uuid="c", n=8))

    assert [("a", 1), (None, 3), (None, 3), ("b", 5), ("c", 7)] == [
        (entry.get("uuid"), entry["n"]) for entry in loaded(store) or []
    ]
    (log,) = tmp_path.glob("projects/*/*.jsonl")
    assert 5 == len(log.read_bytes().splitlines())


def test_of_a_repeat_that_another_program_wrote_the_first_is_loaded(tmp_path: Path) -> None:
    """The log holds both lines; the SDK gets one."""
    append(SessionStore(tmp_path), said(uuid="a", n=1))
    (log,) = tmp_path.glob("projects/*/*.jsonl")
    with log.open("ab") as file:
        file.write(b'{"type":"user","uuid":"a","n":2}\n')

    assert [said(uuid="a", n=1)] == loaded(SessionStore(tmp_path))


def test_a_line_no_reader_would_take_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored, it could not be loaded again."""
    monkeypatch.setattr(sdk_store, "DEFAULT_LIMITS", Limits(line_bytes=100))
    store = SessionStore(tmp_path)
    with pytest.raises(UsageError, match="the limit is 100"):
        append(store, said(pad="x" * 100))

    assert loaded(store) is None


def test_a_uuid_is_remembered_however_long_ago_it_was(tmp_path: Path) -> None:
    """Far outside the window in which a log looks for repeats (4,096 ids, 64 KiB)."""
    store = SessionStore(tmp_path)
    append(store, *(said(uuid=f"u{n}", pad="x" * 50) for n in range(5_000)))
    append(SessionStore(tmp_path), said(uuid="u0", pad="again"))

    assert 5_000 == len(loaded(store) or [])


def test_two_processes_repeating_each_other_store_every_uuid_once(tmp_path: Path) -> None:
    """Both append 200 entries with the same ids but words of their own, in batches of 10, at the same time."""
    code = f"""
import asyncio, os
from recollect.sdk import SessionStore
from recollect.system.lock import FileLock
store = SessionStore({str(tmp_path)!r})
for start in range(0, 200, 10):
    batch = [{{"type": "x", "uuid": str(n), "by": os.getpid()}} for n in range(start, start + 10)]
    asyncio.run(store.append({{"project_key": "p", "session_id": "s"}}, batch))
"""
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [0, 0] == [process.wait() for process in running]
    (log,) = tmp_path.glob("projects/*/*.jsonl")

    assert [str(n) for n in range(200)] == [
        json.loads(line)["uuid"] for line in log.read_bytes().splitlines()
    ]


def test_a_session_has_one_writer_at_a_time(tmp_path: Path) -> None:
    """While another process holds its lock, appends and deletions, of sub-agents too, wait and then say so."""
    append(SessionStore(tmp_path), said(n=1))
    append(SessionStore(tmp_path), said(n=2), key=AGENT)
    (lock,) = tmp_path.rglob("*.transcript.lock")
    store = SessionStore(tmp_path, lock_timeout=0.01)
    with FileLock(lock):
        for key in (KEY, AGENT):
            with pytest.raises(LogLocked):
                append(store, said(n=3), key=key)
            with pytest.raises(LogLocked):
                asyncio.run(store.delete(key))

    assert ([said(n=1)], [said(n=2)]) == (loaded(store), loaded(store, AGENT))


def test_many_sessions_at_once_outlive_the_cache_of_open_logs(tmp_path: Path) -> None:
    """Eighty sessions, three rounds side by side: more than are kept open, and nothing is lost."""
    store = SessionStore(tmp_path)
    keys: list[SessionKey] = [{"project_key": "p", "session_id": f"s{n}"} for n in range(80)]

    async def story() -> None:
        for n in range(3):
            await asyncio.gather(*(store.append(key, [said(n=n)]) for key in keys))

    asyncio.run(story())
    assert [[0, 1, 2]] * 80 == [[entry["n"] for entry in loaded(store, key) or []] for key in keys]


def test_a_torn_line_is_left_out_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A writer died inside a line: the next append is whole, and ``damage`` names the rest."""
    store = SessionStore(tmp_path)
    append(store, said(n=1))
    (log,) = tmp_path.glob("projects/*/*.jsonl")
    with log.open("ab") as file:
        file.write(b'{"type":"us')
    append(SessionStore(tmp_path), said(n=2))

    assert [1, 2] == [entry["n"] for entry in loaded(store) or []]
    assert [b'{"type":"us'] == [damage.data for damage in asyncio.run(store.damage(KEY))]
    assert "1 lines cannot be read" in caplog.text


# ---- where it lies ------------------------------------------------------------------------------------------


def test_transcripts_lie_where_a_claude_home_has_them(tmp_path: Path) -> None:
    """So the rest of recollect reads them."""
    store = SessionStore(tmp_path)
    append(store, said(uuid="a"))
    append(store, said(uuid="b"), key=AGENT)
    project = tmp_path / "projects" / "-srv-app"

    assert (project / f"{SESSION}.jsonl").is_file()
    assert (project / SESSION / "subagents" / "agent-a753668.jsonl").is_file()
    assert [SESSION] == [session.id for session in Store(tmp_path).sessions()]


def test_a_deleted_session_is_in_the_trash_with_every_byte(tmp_path: Path) -> None:
    """The store it lies in brings it back, sub-agents included."""
    store = SessionStore(tmp_path)
    append(store, said(uuid="a"))
    append(store, said(uuid="b"), key=AGENT)
    asyncio.run(store.delete(KEY))
    assert (None, None) == (loaded(store), loaded(store, AGENT))
    (trashed,) = Store(tmp_path).trash()

    Store(tmp_path).restore(trashed.batch)
    assert ([said(uuid="a")], [said(uuid="b")]) == (loaded(store), loaded(store, AGENT))


def test_an_append_after_a_deletion_starts_anew(tmp_path: Path) -> None:
    """Ids of the deleted transcript are free again, also in another object that had it open."""
    store, other = SessionStore(tmp_path), SessionStore(tmp_path)
    append(store, said(uuid="a", n=1))
    append(other, said(uuid="b", n=2))
    asyncio.run(store.delete(KEY))
    append(other, said(uuid="a", n=3))

    assert [3] == [entry["n"] for entry in loaded(store) or []]


names = st.text(st.characters(exclude_categories=[]), max_size=12) | st.sampled_from(
    [
        "..",
        ".",
        "con",
        "A",
        "a",
        "x_",
        "x__2e",
        "h_",
        "a.jsonl",
        "a/b",
        "\0",
        "Ä",
        "-A",
        "-a",
        "C--x",
        "é",
        "e\u0301",
    ]
)


@settings(max_examples=40)  # each makes up to sixteen logs
@given(st.sets(names, min_size=1, max_size=8))
def test_any_text_is_a_name_of_its_own(tmp_path_factory: pytest.TempPathFactory, ids: set[str]) -> None:
    """As session id and as subpath: stored apart, listed as given, and never outside the store."""
    root = tmp_path_factory.mktemp("around") / "store"
    store = SessionStore(root)
    for name in ids:
        append(store, said(name=name), key={"project_key": "p", "session_id": name})
        if name:
            append(store, said(name=name), key={"project_key": "p", "session_id": "s", "subpath": name})

    main = asyncio.run(store.list_sessions("p"))
    below = asyncio.run(store.list_subkeys({"project_key": "p", "session_id": "s"}))
    assert sorted(ids) == sorted(one["session_id"] for one in main)
    assert sorted(ids - {""}) == sorted(below)
    assert ["store"] == [path.name for path in root.parent.iterdir()]
    asyncio.run(store.close())


@given(st.sets(names, min_size=2, max_size=8))
def test_projects_are_kept_apart(ids: set[str]) -> None:
    """Different keys, different directories, all plain names; case counts only in keys that are paths."""
    made = {name: sdk_store.project_name(name) for name in ids}

    assert len(ids) == len(set(made.values()))
    assert all(not set(name) & set("/\\\0:.") for name in made.values())
    encoded = [name for name in made.values() if not sdk_store._PATH_KEY.fullmatch(name)]
    assert encoded == [name.lower() for name in encoded]


def test_an_empty_subpath_and_an_endless_session_id_are_refused(tmp_path: Path) -> None:
    """The first is no key at all, the second no file name; nothing is made for either."""
    store = SessionStore(tmp_path / "store")
    for key in ({**KEY, "subpath": ""}, {**KEY, "session_id": "s" * 300}):
        with pytest.raises(InvalidId):
            append(store, said(n=1), key=cast("SessionKey", key))

    assert not (tmp_path / "store").exists()


def test_a_link_planted_in_the_store_is_not_followed(tmp_path: Path) -> None:
    """Neither written through nor read through."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{SESSION}.jsonl").write_bytes(b'{"type":"x","secret":1}\n')
    (tmp_path / "store" / "projects").mkdir(parents=True)
    (tmp_path / "store" / "projects" / "-srv-app").symlink_to(elsewhere)
    store = SessionStore(tmp_path / "store")

    with pytest.raises(StorageError):
        append(store, said(n=1))
    with pytest.raises(StorageError):
        loaded(store)
    assert b'{"type":"x","secret":1}\n' == (elsewhere / f"{SESSION}.jsonl").read_bytes()


def test_the_default_place_is_ours_and_not_a_claude_home(own_home: Path) -> None:
    """Below $XDG_DATA_HOME."""
    assert own_home / "xdg-data" / "recollect" / "store" == SessionStore().root
