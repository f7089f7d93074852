"""Our locks on files of a Claude home, stored in our own directory.

No lock file of ours may be in a home. So the lock of a log is a file in our data directory, named after the
log's real path; every process of ours that writes to that log takes it. The client does not know it (S9).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def lock_path(log: Path, data: Path) -> Path:
    """The lock file of a log; two names of one file give one lock."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(log))).hexdigest()[:32]
    return data / "locks" / f"{name}.lock"
