"""The page in a real Chromium: how soon it lists, opens a 50 MB session, shows its home screen and a line that was just
written; and how evenly it scrolls 20,000 messages.

"For the first time" is in a server that was just started, over an index that is up to date and a log that an earlier
server has read; "for the first time ever" has neither. The first list comes after the home screen, which the printed
address opens; by its own address it is what a bookmark opens. Frames are those of a machine without a graphics card: Chromium draws them in software, on the cores that also serve.
Without Chromium, Node.js or the installed driver there are no rows.
"""

from __future__ import annotations

import gzip
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.corpora import corpus, largest_log
from bench.report import Row, table
from recollect.index.access import open_index
from tests.browser.chromium import STATIC, Chromium, Server, missing
from tests.browser.home import LIVE, LONG, appended, long, own
from tests.small_home import open_in_this_process, prompt, put, reply, said

FIRST_PAINT_MS, OPEN_MS, LIST_MS, FRAME_MS, WEIGHT_KB = 1_000, 300, 1_000, 16.8, 250
HOME_MS, LIVE_MS, HEAP_MB = 300, 500, 25
SESSIONS, FRESH, LINES = 10_000, 3, 9


def run() -> list[Row]:
    """All rows."""
    rows = [_weight()] if STATIC.is_dir() else []
    if (reason := missing()) is not None:
        return [*rows, Row(f"left out: {reason}", "", "", None)]
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as name:
        place = Path(name)
        put(place / "long", LONG, long(), cwd="/srv/long")
        rows += _scrolling(place) + _listing(place) + _living(place) + _answering(place)
        return rows + _opening(place, largest_log(place))


def _weight() -> Row:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    size = sum(len(gzip.compress(path.read_bytes(), 9)) for path in files) / 1000
    return Row("the whole page, gzip", f"{size:.0f} KB", f"<= {WEIGHT_KB} KB", size <= WEIGHT_KB)


@contextmanager
def _opened(home: Path, data: Path) -> Iterator[Chromium]:
    data.mkdir(exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(Server(home, data))
        page = stack.enter_context(Chromium())
        page.do("open", url=server.url)
        page.do("go", hash="#/sessions", wait="[data-session]")
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


def _listing(place: Path) -> list[Row]:
    """From the address to rows, in fresh servers."""
    home, data = place / "many", place / "many-data"
    for number in range(SESSIONS):
        name = f"{number:08x}-0000-4000-8000-{number:012d}"
        talk = [prompt(1, None, f"Question {number}", sessionId=name), reply(2, 1, said("A"), answer=name)]
        put(home, name, talk, cwd=f"/srv/project{number % 50}")
    with open_index([home], cache=data / "cache"):
        through, alone = [], []
    with Chromium() as page:
        for _ in range(FRESH):
            with Server(home, data) as server:
                through.append(_listed_after(page, server.url))
        _let_in(page, home, data)
        for _ in range(FRESH):
            with Server(home, data, "--remember") as server:
                alone.append(_listed_after(page, _bookmark(server)))
    what = f"a list of {SESSIONS:,} sessions, for the first time"
    medians = statistics.median(through), statistics.median(alone)
    return [
        Row(what, f"{medians[0]:.0f} ms", f"<= {LIST_MS} ms", medians[0] <= LIST_MS),
        Row("  by its own address", f"{medians[1]:.0f} ms", f"<= {LIST_MS} ms", medians[1] <= LIST_MS),
    ]


def _let_in(page: Chromium, home: Path, data: Path) -> None:
    """The browser may from now on open bookmarks of any server of this home that remembers."""
    with Server(home, data, "--remember") as server:
        page.do("open", url=server.url)


def _bookmark(server: Server) -> str:
    """The list, without the home screen before it."""
    return server.url.partition("#")[0] + "#/sessions"


def _listed_after(page: Chromium, address: str) -> float:
    begun = time.perf_counter()
    page.do("open", url=address)
    page.do("go", hash="#/sessions", wait="[data-session]")
    return (time.perf_counter() - begun) * 1000


def _living(place: Path) -> list[Row]:
    """From the write of a client until its line is on the screen, and until the head has counted and priced it."""
    home, data = place / "live", place / "live-data"
    begun = [prompt(1, None, "Begin"), reply(2, 1, said("Begun"))]
    put(home, LIVE, [own(entry, "live") for entry in begun], cwd="/srv/live")
    open_in_this_process(home, LIVE)
    shown, counted = [], []
    with _opened(home, data) as page:
        page.do("go", hash=f"#/s/{LIVE}", wait=".message")
        page.do("wait", selector=".head .sum", text="$0.0003")
        for number in range(3, 3 + 2 * LINES, 2):
            page.do("settle", ms=700 + 37 * number)  # not in step with whatever looks for it
            talk = [prompt(number, number - 1, "More"), reply(number + 1, number, said(f"Line {number}."))]
            at = time.perf_counter()
            appended(home, LIVE, *(own(entry, "live") for entry in talk))
            page.do("wait", selector=".message", text=f"Line {number}.")
            shown.append((time.perf_counter() - at) * 1000)
            page.do("wait", selector=".head .about", text=f"{number + 1} messages")
            exact = f"{Decimal(33 * (number + 1) // 2).scaleb(-5).normalize():f}"
            page.do("wait", selector=f".head .sum [title='exactly ${exact}']")
            counted.append((time.perf_counter() - at) * 1000)
    line, head = statistics.median(shown), statistics.median(counted)
    return [
        Row(
            "a line of a running session is shown after",
            f"{line:.0f} ms",
            f"<= {LIVE_MS} ms",
            line <= LIVE_MS,
        ),
        Row("  its head is right after", f"{head:.0f} ms", f"<= {LIVE_MS} ms", head <= LIVE_MS),
        Row("  longest", f"{max(counted):.0f} ms", "", None),
    ]


def _answering(place: Path) -> list[Row]:
    """The home screen over 1 GB of logs, from a click, in a server that has not shown it yet; the index is up to date."""
    logs = corpus("c1000")
    data = place / "gigabyte-data"
    took: dict[str, list[float]] = {"#/home": [], "#/home?since=all": []}
    with open_index([logs.path], cache=data / "cache"):
        size = logs.truth["bytes"] / 1e9
    with Chromium() as page:
        _let_in(page, logs.path, data)
        for address, times in [*took.items()] * FRESH:
            with Server(logs.path, data, "--remember") as server:
                page.do("open", url=_bookmark(server))
                page.do("settle", ms=3_000)
                times.append(page.do("timed", hash=address, selector=".home .figure"))
    usual, ever = (statistics.median(times) for times in took.values())
    return [
        Row(f"the home screen over {size:.1f} GB", f"{usual:.0f} ms", f"<= {HOME_MS} ms", usual <= HOME_MS),
        Row("  of all time", f"{ever:.0f} ms", f"<= {HOME_MS} ms", ever <= HOME_MS),
    ]


def _opening(place: Path, log: Path) -> list[Row]:
    session, home, data = log.stem, log.parent.parent.parent, place / "big-data"
    with _opened(home, data) as page:
        ever = page.do("timed", hash=f"#/s/{session}", selector=".message")
        page.do("settle", ms=4_000)
    with open_index([home], cache=data / "cache"):
        paints, first, again = [], [], []
    for _ in range(FRESH):
        with _opened(home, data) as page:
            page.do("settle", ms=2_000)
            first.append(_open_once(page, session))
            again.append(_open_once(page, session))
            paints.append(page.do("paint", selector="[data-session]")["first"])
            heap = _heap_after_scrolling(page, session)
    rows = _opening_rows(log, ever, [statistics.median(one) for one in (paints, first, again)])
    return [*rows, Row("  heap after scrolling it", f"{heap:.1f} MB", f"<= {HEAP_MB} MB", heap <= HEAP_MB)]


def _heap_after_scrolling(page: Chromium, session: str) -> float:
    page.do("go", hash=f"#/s/{session}", wait=".message")
    page.do("settle", ms=2_000)
    page.do("scroll", frames=300, pixels=700)
    page.do("settle", ms=2_000)
    return float(page.do("heap")) / 1e6


def _opening_rows(log: Path, ever: float, medians: list[float]) -> list[Row]:
    paint, first, again = medians
    label = f"opening a session of {log.stat().st_size / 1e6:.0f} MB"
    return [
        Row("first paint of the list", f"{paint:.0f} ms", f"<= {FIRST_PAINT_MS} ms", paint <= FIRST_PAINT_MS),
        Row(f"{label}, for the first time ever", f"{ever:.0f} ms", "", None),
        Row(f"{label}, for the first time", f"{first:.0f} ms", f"<= {OPEN_MS} ms", first <= OPEN_MS),
        Row(f"{label}, again", f"{again:.0f} ms", f"<= {OPEN_MS} ms", again <= OPEN_MS),
    ]


def _open_once(page: Chromium, session: str) -> Any:
    took = page.do("timed", hash=f"#/s/{session}", selector=".message")
    page.do("go", hash="#/sessions", wait="[data-session]")
    page.do("settle", ms=1_500)
    return took


if __name__ == "__main__":
    print(table("The page in Chromium", run()))
