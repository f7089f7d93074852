"""The end of a process that answered: its memory is given back as a whole.

Python would take everything apart first, object by object, which is a twentieth of what a short command takes. All
that others see of an end stays: the functions of ``atexit`` run, and what was printed is written.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End as ``sys.exit`` would. Not for a program that another one calls: nothing after it runs."""
    threads = sys.modules.get("threading")
    is_watched = sys.getprofile() is not None or sys.gettrace() is not None
    if not is_watched and (threads is None or threads.active_count() == 1):
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no other name for it
        if _are_flushed():
            os._exit(code)
    sys.exit(code)


def _are_flushed() -> bool:
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError, AttributeError):  # a full disk, a closed stream or none: Python says it
        return False
    return True
