"""An exported page: the memory a 50 MB session takes, and how long its file takes to open.

Memory is the high-water mark of a fresh process. Opening is from the navigation to the end of the load event and to
the first paint of content, as the browser itself says, in a headless Chromium that is driven through a pipe. Without
Chromium that row is left out.
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

from bench.corpora import largest_log
from bench.report import Row, table

CPU_SECONDS, MEMORY_MB, OPEN_MS = 8, 200, 8_000

PROBE = """
import json, sys, time
from pathlib import Path
from recollect.share.export.export import Redactor
from recollect.ask.library import Home
from recollect.share.export.export import write_file
from recollect.share.export.page import session_page

log, target = Path(sys.argv[1]), Path(sys.argv[2])
start, cpu = time.perf_counter(), time.process_time()
session = Home(log.parent.parent.parent).session(log.stem)
written = write_file(target, session_page(session, Redactor(target.parent / "data")))
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1000
figures = {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu, "peak_mb": peak}
print(json.dumps({**figures, "bytes": written}))
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


def opening_ms(program: str, profile: Path, page: Path) -> tuple[float, float]:
    """Milliseconds to the end of loading and to the first paint, the second time."""
    browser = Browser(program, profile)
    try:
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.ask("Page.enable", session)
        _opened(browser, session, page)
        return _opened(browser, session, page)
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
        return _rows(largest_log(Path(place)), Path(place))


def _rows(log: Path, place: Path) -> list[Row]:
    page = place / "out.html"
    command = [sys.executable, "-c", PROBE, str(log), str(page)]
    done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"exporting {log.stat().st_size / 1e6:.0f} MB as {done['bytes'] / 1e6:.0f} MB of HTML"
    peak = done["peak_mb"]
    rows = [
        Row(f"{what}, CPU", f"{done['cpu']:.1f} s", f"<= {CPU_SECONDS} s", done["cpu"] <= CPU_SECONDS),
        Row("  resident memory of that process", f"{peak:.0f} MB", f"<= {MEMORY_MB} MB", peak <= MEMORY_MB),
    ]
    program = shutil.which("chromium")
    if program is None:
        return rows
    slowest = max(opening_ms(program, place / "profile", page))
    return [*rows, Row("opening it in Chromium", f"{slowest:.0f} ms", f"<= {OPEN_MS} ms", slowest <= OPEN_MS)]


if __name__ == "__main__":
    print(table("Exported pages", run()))
