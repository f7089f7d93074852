"""Both ways to search."""

from __future__ import annotations

import pytest

from recollect.model.secrets import prefilter


def search_with(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search blocks with the scan engine, however little was searched before, or with ``re``."""
    monkeypatch.setattr(prefilter, "_WORTH_THE_ENGINE", 0)
    if way == "re":
        monkeypatch.setattr(prefilter, "scan_engine", lambda: None)
    elif prefilter.scan_engine() is None:
        pytest.skip("no wheel of hyperscan for this platform")
