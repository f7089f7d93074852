"""One capability of the page at one look: a browser of a width and a theme, that keeps a picture of each step."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path
from typing import Any, NamedTuple

from tests.browser.chromium import Chromium, Server
from tests.surfaces.case import Case

IS_LONG_RUN = bool(os.environ.get("RECOLLECT_TORTURE"))
HEIGHTS = {1440: 900, 1024: 768, 390: 844}
# The widths that web/src decides by: a list beside the conversation, the outline as a drawer, changes in one column.
LISTED, DRAWER, ONE_COLUMN = 1180, 760, 900


class Look(NamedTuple):
    """A width and a theme of the page."""

    width: int
    scheme: str

    @property
    def is_phone(self) -> bool:
        return self.width <= DRAWER

    @property
    def is_listed(self) -> bool:
        return self.width >= LISTED


# By turns, so that capabilities that follow one another are seen at other widths and in the other theme.
LOOKS = [Look(tuple(HEIGHTS)[place % 3], ("light", "dark")[place % 2]) for place in range(6)]


def looks_of(place: int) -> list[Look]:
    """All six in the long run; otherwise one, another for each capability."""
    return LOOKS if IS_LONG_RUN else [LOOKS[place % len(LOOKS)]]


class Host:
    """The page of a home at an address that is kept, which can be ended and started again."""

    def __init__(self, home: Path, data: Path) -> None:
        self.home, self.data = home, data
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._server: Server | None = None
        self.base = f"http://127.0.0.1:{self._port}/"

    def start(self) -> str:
        """The address that lets a browser in."""
        server = Server(self.home, self.data, "--remember", "--port", str(self._port))
        self._server = server.__enter__()
        return server.url

    def end(self) -> None:
        if self._server is not None:
            self._server.__exit__(None, None, None)
            self._server = None

    def document(self, *words: str) -> Any:
        """What a command says of the same home, from the same index."""
        case = Case(self.home, self.data.parent)
        assert case.data == self.data
        return case.document(*words)


class Tour:
    """Steps through one capability."""

    def __init__(self, browser: Chromium, host: Host, look: Look, name: str) -> None:
        self.browser, self.host, self.look = browser, host, look
        self._name = name
        self._numbers = itertools.count(1)
        kept = os.environ.get("RECOLLECT_SCREENSHOTS")
        self._pictures = Path(kept) if kept else None

    def do(self, step: str, /, **args: object) -> Any:
        return self.browser.do(step, **args)

    def go(self, address: str, wait: str) -> None:
        """To a screen, by its address."""
        self.do("go", hash=address, wait=wait)

    def tap(self, selector: str, text: str = "") -> None:
        self.do("click", selector=selector, text=text)

    def wait(self, selector: str, text: str = "") -> str:
        found: str = self.do("wait", selector=selector, text=text)
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.do("texts", selector=selector)
        return found

    def seen(self, step: str) -> None:
        """A step is done: nothing is scrolled sideways; in the long run axe looks too. Its picture is kept where asked."""
        if IS_LONG_RUN or self._pictures:
            self.do("settle", ms=300)
        assert self.do("tooWide") <= 0, step
        if IS_LONG_RUN:
            problems = self.do("problems")
            assert problems == [], (step, problems)
        if self._pictures:
            self._pictures.mkdir(parents=True, exist_ok=True)
            name = f"{self._name}-{next(self._numbers)}-{step}-{self.look.width}-{self.look.scheme}.png"
            self.do("shot", path=str(self._pictures / name))

    def outline(self) -> None:
        """Show the outline: it stands beside the conversation, and on a phone it is a drawer."""
        if self.look.is_phone and not self.do("count", selector=".panel"):
            self.tap(".status .pill", "Prompts")
        self.wait(".panel .inside")

    def away(self) -> None:
        """Hide the outline again where it covers the conversation."""
        if self.look.is_phone:
            self.tap(".panel .hide")
            self.do("gone", selector=".panel", text="")
