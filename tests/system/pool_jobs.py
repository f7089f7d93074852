"""Jobs for the tests of the pool; a worker process imports this module by its name."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.system.pool import Run


def counting(setup: int) -> Run:
    """Each task is a number: so many pieces, the setup added."""
    return lambda task: (setup + number for number in range(task))


def doing(_: None) -> Run:
    """Each task says what is to happen."""
    return _done


def _done(task: tuple[Any, ...]) -> Iterator[Any]:
    what, *rest = task
    yield None
    if what == "raise":
        raise LookupError("not this one")
    if what == "die":
        yield "half"
        # Only a worker dies: whoever does it again comes through.
        if os.getpid() != rest[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    if what == "print":
        print("this is not an answer", flush=True)
    if what == "large":
        with Path(rest[1]).open("a") as begun:
            begun.write(".")
        yield b"x" * rest[0]
        return
    if what == "sleep":
        Path(rest[0]).write_text(str(os.getpid()))
        time.sleep(600)
    if what == "hold":
        Path(rest[0]).write_text(str(os.getpid()))
        re.search("(a+)+$", "a" * 60 + "!")
    yield ("whole", *rest[1:])
