"""The page in a real Chromium: how soon it paints, opens a 50 MB session, and how evenly it scrolls 20,000 messages.

Frames are those of a machine without a graphics card: Chromium draws them in software, on the cores that also serve.
Without Chromium, Node.js or the installed driver there are no rows.
"""

from __future__ import annotations

import gzip
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.reading import big_session
from bench.report import Row, table
from tests.browser.chromium import STATIC, Chromium, Server, missing
from tests.browser.home import LONG, long
from tests.small_home import put

FIRST_PAINT_MS, OPEN_MS, FRAME_MS, WEIGHT_KB = 1_000, 300, 16.8, 250


def run() -> list[Row]:
    """All rows."""
    rows = [_weight()] if STATIC.is_dir() else []
    if missing() is not None:
        return rows
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as name:
        place = Path(name)
        put(place / "long", LONG, long(), cwd="/srv/long")
        rows += _scrolling(place)
        log = big_session(place)
        return rows if log is None else rows + _opening(place, log)


def _weight() -> Row:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    size = sum(len(gzip.compress(path.read_bytes(), 9)) for path in files) / 1000
    return Row("the whole page, gzip", f"{size:.0f} KB", f"<= {WEIGHT_KB} KB", size <= WEIGHT_KB)


@contextmanager
def _opened(home: Path, data: Path) -> Iterator[Chromium]:
    data.mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(Server(home, data))
        page = stack.enter_context(Chromium())
        page.do("open", url=server.url)
        page.do("wait", selector="[data-session]")
        yield page


def _scrolling(place: Path) -> list[Row]:
    with _opened(place / "long", place / "long-data") as page:
        page.do("go", hash=f"#/s/{LONG}", wait=".message")
        page.do("settle", ms=4_000)
        times = sorted(page.do("scroll", frames=600, pixels=60)["times"])
    middle, late = statistics.median(times), times[len(times) * 95 // 100]
    return [
        Row(
            "scrolling 20,000 messages, median frame",
            f"{middle:.1f} ms",
            f"<= {FRAME_MS} ms",
            middle <= FRAME_MS,
        ),
        Row("  95 of 100 frames within", f"{late:.1f} ms", "", None),
        Row("  longest frame", f"{times[-1]:.1f} ms", "", None),
    ]


def _opening(place: Path, log: Path) -> list[Row]:
    session = log.stem
    with _opened(log.parent.parent.parent, place / "big-data") as page:
        paints = [page.do("paint", selector="[data-session]") for _ in range(5)]
        opened = [_open_once(page, session) for _ in range(6)]
    first = statistics.median(paint["first"] for paint in paints)
    size = log.stat().st_size / 1e6
    again = statistics.median(opened[1:])
    label = f"opening a session of {size:.0f} MB"
    return [
        Row("first paint of the list", f"{first:.0f} ms", f"<= {FIRST_PAINT_MS} ms", first <= FIRST_PAINT_MS),
        Row(f"{label}, for the first time", f"{opened[0]:.0f} ms", "", None),
        Row(f"{label}, again", f"{again:.0f} ms", f"<= {OPEN_MS} ms", again <= OPEN_MS),
    ]


def _open_once(page: Chromium, session: str) -> Any:
    took = page.do("timed", hash=f"#/s/{session}", selector=".message")
    page.do("go", hash="#/sessions", wait="[data-session]")
    page.do("settle", ms=1_500)
    return took


if __name__ == "__main__":
    print(table("The page in Chromium", run()))
