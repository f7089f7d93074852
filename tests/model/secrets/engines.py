"""The engine of this process."""

from __future__ import annotations

from recollect.model.secrets import scan_engine


def release_engine() -> None:
    """Work without it again, as a process in which it was never taken into use."""
    vars(scan_engine)["_engine"] = None
