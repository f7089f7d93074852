"""A process that turns logs into frames, so that the index is written while the next log is read.

Started by ``services.workers``. Jobs come in on stdin, frames go out on stdout, both through
``services.pipes``. It ends when stdin does,
so it cannot outlive whoever started it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import IO

from recollect.services.indexing.extraction import frames
from recollect.services.indexing.session_listing import ExtractionJob
from recollect.system.pipes import receive, send


def main() -> None:
    """Answer every job with its frames and a mark that it is done."""
    # Ctrl-C is sent to us as well; whoever started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _answer(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # Nobody is left to tell. Python would try to write the rest once more, and complain.
        os._exit(0)


def _answer(source: IO[bytes], target: IO[bytes]) -> None:
    while (message := receive(source)) is not None:
        number, job = message
        for frame in frames(ExtractionJob(*job)):
            rows = ([tuple(row) for row in frame.messages], [tuple(row) for row in frame.usage])
            send(target, (number, (*frame[:2], *rows, *frame[4:])))
        send(target, (number, None))


if __name__ == "__main__":
    main()
