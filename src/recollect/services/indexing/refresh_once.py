"""Refresh the index once, silently: ``python -m recollect.services.indexing.refresh_once HOME...``

For callers that want a fresh index soon but do not wait, such as the status line. It does not wait
for the lock: if another process holds it, there is nothing to do. Prints nothing and exits with 0
even if the refresh fails, because no one sees it; only a call without a home exits with 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

USAGE = "usage: python -m recollect.services.indexing.refresh_once [--cache DIR] HOME..."


def main(arguments: Sequence[str]) -> int:
    cache, homes = None, list(arguments)
    if homes[:1] == ["--cache"]:
        cache, homes = (Path(homes[1]) if len(homes) > 1 else None), homes[2:]
    if not homes or any(home.startswith("-") for home in homes):
        print(USAGE, file=sys.stderr)  # noqa: T201 - only a programmer sees a wrong call
        return 2
    try:
        from recollect.services.indexing.access import open_index

        with open_index([Path(home) for home in homes], cache=cache, patience=0.0):
            return 0
    except Exception:  # noqa: BLE001 - no one would see it, and the next query reports it
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
