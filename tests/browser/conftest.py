"""One browser and one server for all tests of this room; each test opens what it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.browser.chromium import Chromium, Server, missing
from tests.browser.home import LIVE, made_home
from tests.small_home import open_in_this_process


class Place(NamedTuple):
    """A page that a browser has open, and the home behind it."""

    chromium: Chromium
    home: Path
    base: str


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A browser, or a skip that says what is missing."""
    lack = missing()
    if lack is not None:
        pytest.skip(lack)
    with Chromium() as one:
        yield one


@pytest.fixture(scope="session")
def opened(chromium: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The page, let in once."""
    root = tmp_path_factory.mktemp("browser")
    home = root / "claude"
    made_home(home)
    open_in_this_process(home, LIVE)
    (root / "data").mkdir()
    with Server(home, root / "data") as server:
        chromium.do("open", url=server.url)
        yield Place(chromium, home, server.url.partition("#")[0])


@pytest.fixture
def page(opened: Place) -> Chromium:
    """The list of sessions, at the usual size."""
    opened.chromium.do("size", width=1280, height=820)
    opened.chromium.do("theme", scheme="light")
    opened.chromium.do("open", url=f"{opened.base}#/sessions")
    return opened.chromium


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures and figures are kept: outside git, by name where RECOLLECT_ARTEFACTS says so."""
    named = os.environ.get("RECOLLECT_ARTEFACTS")
    place = Path(named) if named else tmp_path_factory.mktemp("artefacts")
    place.mkdir(parents=True, exist_ok=True)
    return place
