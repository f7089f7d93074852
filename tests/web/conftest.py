"""A page over two short sessions, for every test of the room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.pages import Browser, served, two_sessions


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two sessions."""
    place = tmp_path / "claude"
    two_sessions(place)
    return place


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


@pytest.fixture
def browser(home: Path, data: Path) -> Iterator[Browser]:
    """A browser that was let in."""
    with Browser(served(home, data)) as one:
        yield one
