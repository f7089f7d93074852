"""How much of one session is on a screen of 1440 x 900: messages and calls, beside agentsview. Not part of any other run.

python -m bench.density HOME SESSION: both pages show the same session in Chromium, with calls as one line each. A message
counts by its head line, a call by its own; each screen is counted from the top of the session to its end.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from bench.measured import Failed
from bench.peers import AgentsView, find_peers
from tests.browser.chromium import Chromium, Server, missing

_SCREENS = 40
OURS = (
    ".messages > div",
    "article > header, article.isWork > .prose, .call > .fold, .strip, .thinking > .fold",
)
THEIRS = (".message-list-scroll", ".message-header, .tool-header, .thinking-header")


def counted(home: Path, session: str, place: Path) -> dict[str, list[int]]:
    """Whole messages, calls and thoughts on each screen, in both pages."""
    peer = find_peers().agentsview
    if peer is None or missing() is not None:
        raise Failed(missing() or "agentsview is not here")
    found: dict[str, list[int]] = {}
    for name in ("data", "user", "av"):
        (place / name).mkdir()
    with Chromium() as page:
        page.do("size", width=1440, height=900)
        with Server(home, place / "data") as server:
            page.do("open", url=server.url)
            page.do("go", hash=f"#/s/{session}", wait=".messages[data-total]")
            page.do("press", keys=["x"])
            page.do("settle", ms=1_500)
            found["recollect"] = page.do("perScreen", list=OURS[0], items=OURS[1], most=_SCREENS)
        other = AgentsView(peer, home, place / "user", place / "av")
        other.sync()
        with other.serving() as served:
            page.do("visitAny", url=f"{served.url}/sessions/{session}", wait=THEIRS[0])
            page.do("settle", ms=3_000)
            found["agentsview"] = page.do("perScreen", list=THEIRS[0], items=THEIRS[1], most=_SCREENS)
    return found


def main(words: list[str]) -> int:
    home, session = Path(words[0]), words[1]
    with tempfile.TemporaryDirectory(prefix="recollect-density-") as name:
        for program, counts in counted(home, session, Path(name)).items():
            mean = statistics.fmean(counts)
            print(
                f"{program}: first screen {counts[0]}, mean {mean:.1f} over {len(counts)} screens: {counts}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
