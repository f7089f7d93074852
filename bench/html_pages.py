"""Exported pages: the memory a 50 MB session takes, and how long its largest pages take to open.

Memory is the high-water mark of a fresh process. Opening is from the navigation to the end of the load event and to
the first paint of content, as the browser itself says, in a headless Chromium that is driven through a pipe; the slowest
of the largest pages counts. Without Chromium those rows are left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.reading import big_session
from bench.report import Row, table

CPU_SECONDS, MEMORY_MB, OPEN_MS = 5, 200, 1_000
LARGEST = 5

PROBE = """
import json, sys, time
from pathlib import Path
from recollect.services.export.export import Redactor
from recollect.services.homes import Home
from recollect.services.export.html_export import export_session

log, target = Path(sys.argv[1]), Path(sys.argv[2])
start, cpu = time.perf_counter(), time.process_time()
session = Home(log.parent.parent.parent).session(log.stem)
done = export_session(session, target, Redactor(target.parent / "data"), whole=True)
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1000
figures = {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu, "peak_mb": peak}
print(json.dumps({**figures, "files": done.files, "bytes": done.bytes}))
"""
TIMES = """(() => {
  const load = performance.getEntriesByType("navigation")[0];
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return JSON.stringify([load.loadEventEnd, paint ? paint.startTime : 0]);
})()"""


class Browser:
    """A headless Chromium at the other end of two pipes."""

    def __init__(self, program: str, profile: Path) -> None:
        (inside, self._write), (self._read, outside) = os.pipe(), os.pipe()
        # Chromium reads its orders from descriptor 3 and answers on 4.
        switches = f"--headless --no-sandbox --disable-gpu --remote-debugging-pipe --user-data-dir={profile}"
        command = f'exec "{program}" {switches} about:blank 3<&{inside} 4>&{outside}'
        self.process = subprocess.Popen(
            ["bash", "-c", command], pass_fds=(inside, outside), stderr=subprocess.DEVNULL
        )
        os.close(inside)
        os.close(outside)
        self._number, self._rest = 0, b""

    def ask(self, method: str, session: str = "", **given: Any) -> dict[str, Any]:
        """The answer to one order."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": given}
        order |= {"sessionId": session} if session else {}
        os.write(self._write, json.dumps(order).encode() + b"\0")
        return next(one for one in self._messages() if one.get("id") == self._number)["result"]  # type: ignore[no-any-return]  # JSON

    def wait(self, event: str) -> None:
        """Until something has happened."""
        next(one for one in self._messages() if one.get("method") == event)

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" not in self._rest:
                piece = os.read(self._read, 1 << 16)
                if not piece:
                    raise OSError("the browser has gone")
                self._rest += piece
            message, _, self._rest = self._rest.partition(b"\0")
            yield json.loads(message)

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError, KeyError):
            self.ask("Browser.close")
        self.process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)


def opening_ms(program: str, profile: Path, pages: list[Path]) -> dict[Path, tuple[float, float]]:
    """Milliseconds to the end of loading and to the first paint, of each page, twice; the second time counts."""
    browser = Browser(program, profile)
    try:
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.ask("Page.enable", session)
        return {page: _opened(browser, session, page) for page in [pages[0], *pages]}
    finally:
        browser.close()


def _opened(browser: Browser, session: str, page: Path) -> tuple[float, float]:
    browser.ask("Page.navigate", session, url=page.as_uri())
    browser.wait("Page.loadEventFired")
    time.sleep(0.5)  # the first paint may come after the load event
    load, paint = json.loads(browser.ask("Runtime.evaluate", session, expression=TIMES)["result"]["value"])
    return load, paint


def run() -> list[Row]:
    """All rows."""
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as place:
        log = big_session(Path(place))
        return [] if log is None else _rows(log, Path(place))


def _rows(log: Path, place: Path) -> list[Row]:
    command = [sys.executable, "-c", PROBE, str(log), str(place / "out")]
    done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"exporting {log.stat().st_size / 1e6:.0f} MB as {done['files']:,} files of HTML"
    peak = done["peak_mb"]
    rows = [
        Row(f"{what}, CPU", f"{done['cpu']:.1f} s", f"<= {CPU_SECONDS} s", done["cpu"] <= CPU_SECONDS),
        Row("  resident memory of that process", f"{peak:.0f} MB", f"<= {MEMORY_MB} MB", peak <= MEMORY_MB),
    ]
    program = shutil.which("chromium")
    if program is None:
        return rows
    pages = sorted((place / "out").rglob("*.html"), key=lambda page: page.stat().st_size)[-LARGEST:]
    times = opening_ms(program, place / "profile", pages)
    slowest = max(max(both) for both in times.values())
    size = max(page.stat().st_size for page in pages) / 1e6
    label = f"opening a page of {size:.1f} MB in Chromium, the slowest of {len(pages)}"
    return [*rows, Row(label, f"{slowest:.0f} ms", f"<= {OPEN_MS} ms", slowest <= OPEN_MS)]


if __name__ == "__main__":
    print(table("Exported pages", run()))
