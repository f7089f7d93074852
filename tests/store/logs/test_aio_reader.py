"""Reading beside an event loop: the same answers, and no descriptor left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from recollect.model.lines.entry import Entry
from recollect.store.logs.aio_log import async_follow
from recollect.store.logs.follow import Followed, Reset


def line(number: int) -> bytes:
    return b'{"type":"user","uuid":"u%d","message":{"content":"hello"}}\n' % number


def test_following_gives_what_is_appended_and_resets(tmp_path: Path) -> None:
    """Waits only when there is nothing, and ends when told to."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(line(1))
    steps: list[Callable[[], object]] = [
        lambda: log.write_bytes(line(1) + line(2)),
        lambda: log.write_bytes(line(3)),
        log.unlink,
    ]

    async def run() -> list[Followed]:
        stop = asyncio.Event()

        async def wait(_seconds: float) -> None:
            if steps:
                steps.pop(0)()
            else:
                stop.set()

        return [item async for item in async_follow(log, stop=stop, wait=wait)]

    told = [item.reason if isinstance(item, Reset) else item for item in asyncio.run(run())]
    names = [item.uuid if isinstance(item, Entry) else item for item in told]
    assert ["u1", "u2", "truncated", "u3", "vanished"] == names
