"""The library in an event loop: the same answers, awaited, in order, and never half done."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect import aio
from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.ask.tables import Walk
from recollect.errors import NotFound
from recollect.model.conversation.conversation import Conversation
from recollect.model.lifecycle import SessionState
from recollect.model.lines import draft
from recollect.model.lines.entry import Entry
from recollect.store.logs.reader import LogReader
from recollect.store.logs.summary import ConversationLoader
from recollect.store.store import SessionLog, Store
from recollect.system.thread_hop import streamed
from tools import build_aio_stub

SONNET = "claude-sonnet-4-5-20250929"


def answer(text: str) -> draft.Draft:
    """An answer of Sonnet."""
    return draft.assistant(text, model=SONNET)


@pytest.fixture
def session_id(tmp_path: Path) -> str:
    """A session with two branches, b and c after a, and a sub-agent, below ``tmp_path``."""
    with Store(tmp_path).create("/srv/app") as log:
        log.append_many([draft.user("a"), answer("b")])
        with log.agent_log("a1") as agent:
            agent.append(draft.user("look"))
    return str(log.id)


PROXIES = [
    (aio.Home, Home),
    (aio.Session, Session),
    (aio.Conversation, Conversation),
    (aio.Store, Store),
    (aio.SessionLog, SessionLog),
    (aio.AsyncWalk, Walk),
    (aio.AsyncLogReader, LogReader),
    (aio.AsyncConversationLoader, ConversationLoader),
]


@pytest.mark.parametrize(("proxy", "original"), PROXIES)
def test_a_proxy_has_every_public_method_of_its_original(proxy: type, original: type) -> None:
    names = [name for name in vars(original) if not name.startswith("_")]
    methods = [name for name in names if inspect.isfunction(vars(original)[name])]
    assert [] == [name for name in methods if not callable(getattr(proxy, name, None))]


def test_the_stub_is_what_the_library_says() -> None:
    """Type checkers see every parameter and result; `make docs` writes it."""
    assert build_aio_stub.stub() == build_aio_stub.STUB.read_text("utf-8")


def test_a_home_is_read_as_the_library_reads_it(tmp_path: Path, session_id: str) -> None:
    """Sessions, titles, conversations, branches, agents, spending."""
    original = Home(tmp_path).session(session_id)

    async def story() -> None:
        home = aio.Home(tmp_path)
        assert [session_id] == [session.id async for session in home.sessions()]
        session = await home.session(session_id[:8])
        assert (original.path, original.session_id) == (session.path, session.session_id)
        assert (original.glance, original.title, original.cwd) == (
            await session.glance(),
            await session.title(),
            await session.cwd(),
        )
        assert original.branches() == await session.branches()
        assert original.agents() == await session.agents()
        assert original.spending() == await session.spending()
        assert ([], []) == (await session.damage(), await session.compactions())
        assert list(original.entries()) == [entry async for entry in session.entries()]
        latest = await home.latest("/srv/app")
        assert latest is not None
        assert (session_id, set()) == (latest.id, await home.live_ids())
        with pytest.raises(NotFound):
            await home.session("no such session")

    asyncio.run(story())


def test_a_conversation_is_read_a_slice_at_a_time(tmp_path: Path, session_id: str) -> None:
    """Its length is known at once; messages, entries and the API's list are awaited."""
    original = Home(tmp_path).session(session_id).conversation()

    async def story() -> None:
        conversation = await (await aio.Home(tmp_path).session(session_id)).conversation()
        assert (2, original.leaf, original.nodes) == (
            len(conversation),
            conversation.leaf,
            conversation.nodes,
        )
        assert ["b"] == [message.text for message in await conversation.messages(-1)]
        assert ["a"] == [message.text for message in await conversation.messages(0, 1)]
        assert original.entries() == await conversation.entries()
        assert original.to_api() == await conversation.to_api()

    asyncio.run(story())


def test_a_session_lives_in_an_event_loop(tmp_path: Path) -> None:
    """Created, appended to, resumed, trashed and restored."""

    async def story() -> None:
        store = aio.Store(tmp_path)
        async with await store.create("/srv/app") as log:
            first = await log.append(draft.user("a"))
            assert SessionState.ACTIVE == log.state
            async with await log.agent_log("a1") as agent:
                await agent.append(draft.user("x"))
        async with await store.open(log.id) as again:
            (second,) = await again.append_many([answer("b")])
            entries = [item async for item in again.entries() if isinstance(item, Entry)]
        assert [(first, None), (second, first)] == [(entry.uuid, entry.parent_uuid) for entry in entries]
        assert [log.id] == [session.id for session in await store.sessions("/srv/app")]
        assert log.path == (await store.find(log.id)).path
        trashed = await store.delete(log.id)
        assert [trashed] == await store.trash()
        assert log.id == (await store.restore(trashed.batch)).id

    asyncio.run(story())


def test_appends_that_run_together_form_one_chain_in_the_order_of_the_calls(tmp_path: Path) -> None:
    """Without that, two threads would give two entries one parent."""

    async def story() -> list[tuple[str | None, str | None]]:
        async with await aio.Store(tmp_path).create("/srv/app") as log:
            ids = await asyncio.gather(*(log.append(draft.user(str(n))) for n in range(30)))
            found = [item async for item in log.entries() if isinstance(item, Entry)]
        assert ids == [entry.uuid for entry in found]
        return [(entry.uuid, entry.parent_uuid) for entry in found]

    chain = asyncio.run(story())
    assert [None, *(uuid for uuid, _ in chain[:-1])] == [parent for _, parent in chain]


def test_the_loop_goes_on_while_a_thread_works(tmp_path: Path) -> None:
    """Work that waits for the loop would never end if it ran in the loop's own thread."""

    async def story() -> str:
        reached = threading.Event()
        work = asyncio.ensure_future(aio.in_thread(lambda: reached.wait(30)))
        await asyncio.sleep(0)
        reached.set()
        return "went on" if await work else "was held up"

    assert "went on" == asyncio.run(story())


def test_work_under_one_key_is_done_in_order_and_under_two_side_by_side() -> None:
    """The first of ``a`` waits until ``b`` has run; the second of ``a`` comes after the first."""

    async def story() -> list[str]:
        turns, done, other = aio.KeyedExecutor(), list[str](), threading.Event()

        def slow() -> None:
            other.wait(30)
            done.append("a1")

        def quick() -> None:
            done.append("b")
            other.set()

        await asyncio.gather(
            turns.run("a", slow), turns.run("a", lambda: done.append("a2")), turns.run("b", quick)
        )
        return done

    assert ["b", "a1", "a2"] == asyncio.run(story())


def test_a_cancelled_call_has_ended_when_the_cancellation_arrives() -> None:
    """The thread is waited for, also when cancelled twice; whoever waits behind it then runs."""

    async def story() -> list[str]:
        turns, done = aio.KeyedExecutor(), list[str]()
        started, go_on = threading.Event(), threading.Event()

        def work() -> None:
            started.set()
            go_on.wait(30)
            done.append("work")

        first = asyncio.ensure_future(turns.run("k", work))
        waiting = asyncio.ensure_future(turns.run("k", lambda: done.append("never")))
        last = asyncio.ensure_future(turns.run("k", lambda: done.append("last")))
        await asyncio.to_thread(started.wait, 30)
        for _ in range(2):
            first.cancel()
            await asyncio.sleep(0)
        waiting.cancel()
        assert not first.done()
        go_on.set()
        results = await asyncio.gather(first, waiting, last, return_exceptions=True)
        assert [True, True, False] == [isinstance(result, asyncio.CancelledError) for result in results]
        return done

    assert ["work", "last"] == asyncio.run(story())


def test_one_object_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    """A script may call ``asyncio.run`` many times, each time with calls that wait for each other."""
    turns = aio.KeyedExecutor()
    done: list[int] = []

    async def story(start: int) -> None:
        await asyncio.gather(*(turns.run("k", lambda n=n: done.append(n)) for n in range(start, start + 5)))  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    for start in (0, 5):
        asyncio.run(story(start))
    assert list(range(10)) == done


def test_a_listing_left_early_stops_reading() -> None:
    """Closing the stream closes the iterator that reads the disk."""
    closed: list[bool] = []

    def endless() -> Iterator[int]:
        try:
            yield from range(10_000)
        finally:
            closed.append(True)

    reading = endless()  # held here, so that only an explicit close can end it

    async def story() -> int:
        stream = streamed(reading)
        first = await anext(stream)
        await stream.aclose()
        return first

    assert (0, [True]) == (asyncio.run(story()), closed)
