"""Start and end sooner, for commands that are asked often and answer fast. Import it before what imports msgspec.

Half of what such a command takes is Python itself, and three of its habits can be left out:

- msgspec takes two names from typing_extensions where that is installed, although ``typing`` has
  the same ones since Python 3.11; the detour loads half of the standard library's compiler tools.
  It is kept out for msgspec only: later imports find it as ever.
- The collector of reference cycles looks at all that was imported, again and again, while more is.
- At the end it looks at everything once more, right before the system takes all memory back.
"""

from __future__ import annotations

import atexit
import gc
import sys

_DETOUR = "typing_extensions"
# New objects between two looks for cycles: more than a start makes, and a few megabytes at most.
_SELDOM = 100_000

gc.set_threshold(_SELDOM)
atexit.register(gc.freeze)

if "msgspec" not in sys.modules and _DETOUR not in sys.modules:
    sys.modules[_DETOUR] = None  # type: ignore[assignment]  # how an import is told that there is no such module
    try:
        import msgspec  # noqa: F401 - for those who come after
    finally:
        del sys.modules[_DETOUR]
