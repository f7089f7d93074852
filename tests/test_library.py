"""The library as a program uses it: watch, check, repair, archive, scan; values that print safely."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from recollect import Home, aio
from recollect.provider import ChatMessage
from tests.small_home import ONE, TALK, TWO, call, open_in_this_process, outcome, prompt, put, reply, said

SECRET = "the-words-of-a-transcript"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A sound session and one whose last line was torn, with a token in it."""
    root = tmp_path / "home"
    put(root, ONE, TALK)
    log = put(root, TWO, [{**line, "sessionId": TWO} for line in [prompt(1, None, TOKEN), *TALK[1:]]])
    with log.open("ab") as torn:
        torn.write(b'{"type":"user","uuid":"x')
    return Home(root, data=tmp_path / "data")


# ---- check, repair, archive, scan ------------------------------------------------------------------------


def test_check_is_one_call(home: Home) -> None:
    """Over all sessions and the homes, or over some; as a method, a function and awaited."""
    report = home.check()
    assert "torn-tail" in report.summary.by_code
    assert 2 == report.summary.sessions
    assert "torn-tail" not in home.check(ONE).summary.by_code

    assert report.summary.by_code == recollect.check(home=home).summary.by_code
    twin = aio.Home(home.roots[0].path, data=home._data)
    assert report.summary.by_code == asyncio.run(aio.check(home=twin)).summary.by_code


def test_repair_plans_applies_and_is_taken_back(home: Home) -> None:
    """Nothing is changed by a plan; in place the log is mended, and the undo brings back every byte."""
    log = home.session(TWO).path
    before = log.read_bytes()

    plan = recollect.repair(TWO, home=home)
    assert (True, False, None) == (plan.is_needed, plan.applied, plan.undo)
    assert ["torn-tail"] == [one.code for one in plan.mends]
    assert before == log.read_bytes()

    done = home.repair(TWO, apply=True, in_place=True)
    assert (True, None, log) == (done.applied, done.new, done.result)
    assert "torn-tail" not in home.check(TWO).summary.by_code
    assert done.undo is not None
    assert (log,) == home.undo(done.undo)
    assert before == log.read_bytes()


def test_a_repaired_copy_is_another_session(home: Home) -> None:
    """By default the original is only read."""
    before = home.session(TWO).path.read_bytes()
    twin = aio.Home(home.roots[0].path, data=home._data)

    done = asyncio.run(aio.repair(TWO, home=twin, apply=True))

    assert done.new not in (None, TWO)
    assert before == home.session(TWO).path.read_bytes()
    assert done.new in {session.id for session in home.sessions()}


def test_archive_is_one_call(home: Home) -> None:
    """New the first time, unchanged the second; one that cannot be read keeps no other out."""
    first, second = home.archive(), recollect.archive(ONE, home=home)

    assert {ONE, TWO} == {one.manifest.session for one in first.archived if one.is_new}
    assert [(ONE, False, False)] == [
        (one.manifest.session, one.is_new, one.is_changed) for one in second.archived
    ]
    assert () == first.failed
    assert all(0 < one.manifest.stored_bytes for one in first.archived)


def test_scan_is_one_call(home: Home) -> None:
    """By kind and fingerprint; the secret itself is in no answer."""
    found, by_function = home.scan(), recollect.scan(TWO, home=home)

    assert {TWO} == {one.session for one in found.findings}
    assert {one.fingerprint for one in found.findings} == {one.fingerprint for one in by_function.findings}
    assert TOKEN not in repr(found)
    assert [] == home.scan(ONE).findings


# ---- watch -----------------------------------------------------------------------------------------------


def test_watch_sees_a_session_grow(home: Home) -> None:
    """At once, then only when something has changed; each session with its cost."""
    root = home.roots[0].path
    open_in_this_process(root, ONE)
    log = home.session(ONE).path

    async def watched() -> list[recollect.WatchSnapshot]:
        seen = []
        async for snapshot in aio.Home(root, data=home._data).watch(interval=0.01):
            seen.append(snapshot)
            if len(seen) == 2:
                break
            with log.open("ab") as out:
                from tests.small_home import lines

                out.write(lines([reply(9, 4, said("more"))]))
        return seen

    first, second = asyncio.run(watched())

    ((before,), (after,)) = first.sessions, second.sessions
    assert before.id == ONE
    assert before.usd is not None
    assert after.usd is not None
    assert after.usd - before.usd == next(one.usd for one in home.responses() if one.message_id == "msg_9")
    assert after.usd == home.costs(session=ONE).totals.usd


# ---- async walks -----------------------------------------------------------------------------------------


def test_async_walks_give_what_the_walks_give(home: Home) -> None:
    """Item by item, in the same order, and as a table."""
    twin = aio.Home(home.roots[0].path, data=home._data)

    async def walked() -> tuple[list[str | None], list[str], list[str], int, int]:
        return (
            [one.message_id async for one in twin.responses()],
            [one.uuid async for one in twin.messages(branches="all", agents=True)],
            [one.id async for one in twin.sessions()],
            (await twin.responses().to_arrow()).num_rows,
            sum([batch.num_rows async for batch in twin.messages().to_batches(2)]),
        )

    responses, messages, sessions, rows, in_batches = asyncio.run(walked())
    assert [one.message_id for one in home.responses()] == responses
    assert [one.uuid for one in home.messages(branches="all", agents=True)] == messages
    assert [one.id for one in home.sessions()] == sessions
    assert (len(responses), len(list(home.messages()))) == (rows, in_batches)


# ---- reprs -----------------------------------------------------------------------------------------------


@pytest.fixture
def spoken(tmp_path: Path) -> Home:
    """A session that says the secret words in every way, with a title and damage."""
    talk = [
        prompt(1, None, f"please {SECRET}"),
        reply(2, 1, {"type": "thinking", "thinking": SECRET, "signature": "s"}, said(SECRET), call("t")),
        outcome(3, 2, "t", SECRET),
        reply(4, 3, {"type": "odd", "text": SECRET}),
        {"type": "custom-title", "customTitle": "A title", "sessionId": ONE},
    ]
    log = put(tmp_path / "home", ONE, talk)
    with log.open("ab") as out:
        out.write(f"{SECRET} is no JSON\n".encode())
    history = {"display": SECRET, "pastedContents": {}, "timestamp": 1, "project": "/srv/app"}
    import json

    (tmp_path / "home" / "history.jsonl").write_text(json.dumps(history) + "\n")
    return Home(tmp_path / "home", data=tmp_path / "data")


def handed_out(home: Home) -> Iterator[object]:
    """One of everything that a program may print while it looks at a session."""
    session = home.session(ONE)
    conversation = session.conversation()
    yield from (
        home,
        session,
        session.glance,
        session.log,
        session.graph,
        conversation,
        conversation.messages,
    )
    for message in home.messages(branches="all", agents=True):
        yield message
        yield from message.blocks
        for entry in message.entries:
            yield from (entry, entry.body, entry.message)
    yield from session.entries()
    yield from home.tool_calls()
    yield from home.prompts()
    found = home.search(SECRET)
    yield from (found, *found.hits, *(hit.snippet for hit in found.hits))
    yield from (recollect.user(SECRET), recollect.assistant(SECRET, model="m"), recollect.text(SECRET))
    yield from (recollect.Line(SECRET.encode()), ChatMessage(role="user", content=SECRET))
    yield from recollect.LogReader(session.path).tail(9)


def test_reprs_are_short_and_show_no_transcript(spoken: Home) -> None:
    """Names, ids, times and sizes; a title may be shown."""
    shown = [repr(one) for one in handed_out(spoken) if not isinstance(one, dict)]

    assert len(shown) > 40
    assert [] == [text for text in shown if SECRET in text]
    assert [] == [text for text in shown if len(text) > 400]
    assert [] == [text for text in shown if " object at 0x" in text]


def test_a_repr_steers_no_terminal() -> None:
    """Control characters in an id are escaped."""
    entry = recollect.decode(recollect.Line(b'{"type":"user","uuid":"\\u001b[2J","message":{"content":"x"}}'))

    assert isinstance(entry, recollect.Entry)
    assert "\x1b" not in repr(entry) + repr(entry.body)
