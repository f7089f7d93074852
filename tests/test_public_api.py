"""The front door: what is public, and what opening it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import recollect


def test_every_public_name_is_there_and_documented() -> None:
    """``__all__`` is what the table of rooms exports, and each name says what it is."""
    assert {"__version__", *recollect._ROOM_OF} == set(recollect.__all__)
    undocumented = [
        name for name in recollect._ROOM_OF if not (getattr(recollect, name).__doc__ or "").strip()
    ]
    assert undocumented == []


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="Stoer"):
        _ = recollect.Stoer  # type: ignore[attr-defined]


def test_the_porch_modules_are_there_without_an_import_of_their_own() -> None:
    """``recollect.aio``, ``recollect.provider`` and ``recollect.sdk`` work as the README shows them."""
    code = "import recollect; print(recollect.aio.Store, recollect.provider.ChatMessage, recollect.sdk.SessionStore)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 3 == ran.stdout.count("<class")
