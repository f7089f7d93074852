"""Our locks on files of a Claude home, kept in our own house.

A home is someone else's: no lock file of ours may lie in it. So the lock of a log
is a file in our data directory, named after the log's real path; whoever of us
writes to that log takes this one. The client knows nothing of it (S9).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def lock_path(log: Path, data: Path) -> Path:
    """Where the lock of a log lies; two names of one file give one lock."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(log))).hexdigest()[:32]
    return data / "locks" / f"{name}.lock"
