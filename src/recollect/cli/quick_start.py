"""Faster start and exit for commands that run often. Import it before anything that imports msgspec.

Half the time of such a command is Python itself. Three costs are avoided:

- msgspec imports typing_extensions if it is installed, although ``typing`` has the same names
  since Python 3.11; that loads a large part of the standard library. It is hidden from msgspec
  only: later imports find it.
- The garbage collector scans all imported objects repeatedly during imports.
- At exit it scans everything once more, just before the process gives back its memory.
"""

from __future__ import annotations

import atexit
import gc
import sys

_HIDDEN_MODULE = "typing_extensions"
# New objects between two collections: more than a start creates, a few megabytes at most.
_COLLECTION_THRESHOLD = 100_000

gc.set_threshold(_COLLECTION_THRESHOLD)
atexit.register(gc.freeze)

if "msgspec" not in sys.modules and _HIDDEN_MODULE not in sys.modules:
    sys.modules[_HIDDEN_MODULE] = None  # type: ignore[assignment]  # None makes an import fail
    try:
        import msgspec  # noqa: F401 - imported here so that later imports find it loaded
    finally:
        del sys.modules[_HIDDEN_MODULE]
