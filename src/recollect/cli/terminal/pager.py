"""Long output on a terminal goes through the user's pager, piece by piece.

Only a terminal is paged. ``less`` exits at once if everything fits on one screen, and passes
on colours only. Text must be safe before it comes here. Quitting the pager is not an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.cli.terminal import output


@contextmanager
def paged(*, enabled: bool = True) -> Iterator[Callable[[str], None]]:
    """A function that writes text: to a pager on a terminal, else to stdout."""
    command = _command() if enabled and sys.stdout.isatty() else []
    if not command:
        yield _straight
        return
    import subprocess

    environment = {**os.environ, "LESS": os.environ.get("LESS", "FRX")}
    sys.stdout.flush()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8", errors="replace"
    ) as pager:
        pipe = pager.stdin
        if pipe is None:
            raise AssertionError("stdin was asked for")

        def write(text: str) -> None:
            pipe.write(_fitted(text) + "\n")
            pipe.flush()

        try:
            yield write
            pipe.close()
        except BrokenPipeError:
            _give_up(pipe.close)
        except KeyboardInterrupt:
            # The pager keeps showing what it has until the user quits it; only the writing ends.
            _give_up(pipe.close)
            _wait_patiently(pager.wait)
            raise


def _straight(text: str) -> None:
    # Flush at once, so that a reader of the pipe does not wait for a long session.
    sys.stdout.write(_fitted(text) + "\n")
    sys.stdout.flush()


def _fitted(text: str) -> str:
    """Text broken between words where the terminal would break it anywhere. A pipe gets it as it is."""
    room = output.columns()
    if room is None:
        return text
    from recollect.cli.terminal.layout import fitted

    return "\n".join(row for line in text.split("\n") for row in fitted(line, room, is_text=True))


def _give_up(close: Callable[[], None]) -> None:
    """Closing flushes once more into a pipe that has no reader."""
    import contextlib

    with contextlib.suppress(BrokenPipeError):
        close()


def _wait_patiently(wait: Callable[[], int]) -> None:
    import signal

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _command() -> list[str]:
    import shlex
    import shutil

    try:
        words = shlex.split(os.environ.get("PAGER") or "less")
    except ValueError:
        return []
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return []
    is_less = Path(words[0]).name == "less"
    return [*words, "-R"] if is_less else words
