"""A worker process of ``system.pool``: takes tasks from stdin, writes pieces to stdout.

Started by ``system.pool_processes``. The first message names the job, so that a worker imports only
what its job needs. When stdin ends the caller has exited, and the worker exits at once.
"""

from __future__ import annotations

import importlib
import marshal
import os
import signal
import sys
from _thread import start_new_thread
from queue import SimpleQueue
from typing import IO, Any

_LENGTH_BYTES = 8
# A worker that holds the interpreter (a pattern that never ends) does not notice that the caller has exited.
# Then the system kills it, this long after the deadline.
_GRACE_SECONDS = 3.0


def main(source: IO[bytes] | None = None) -> None:
    """Do tasks until ``source`` ends, which is stdin where none is named."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # msgspec works without it, and starts sooner.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    # Other output must not mix with our answers.
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    messages: SimpleQueue[Any] = SimpleQueue()
    start_new_thread(_listen, (source or sys.stdin.buffer, messages))
    try:
        _work(messages, target)
    except BrokenPipeError:
        # Nothing is left to send. Python would try to flush once more, and complain.
        os._exit(0)


def _listen(source: IO[bytes], messages: SimpleQueue[Any]) -> None:
    """Read tasks as they arrive, so that the caller never blocks on sending one."""
    while (message := receive(source)) is not None:
        messages.put(message)
    os._exit(0)


def _work(messages: SimpleQueue[Any], target: IO[bytes]) -> None:
    module, name, setup, seconds = messages.get()
    if seconds is not None and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
    run = getattr(importlib.import_module(module), name)(setup)
    while True:
        task = messages.get()
        try:
            for piece in run(task):
                if piece is not None:
                    # At once: a buffered piece would be lost if the next one never ends.
                    send(target, ("piece", piece))
        except BrokenPipeError:
            raise
        except Unsendable as problem:
            send(target, ("unsendable", str(problem)))
        except Exception as problem:  # noqa: BLE001 - reported, and then it is the caller's
            send(target, ("end", f"{type(problem).__name__}: {problem}"))
        else:
            send(target, ("end",))


# Values between two processes of one interpreter: ``marshal`` with its length before it.


class Unsendable(Exception):
    """A mistake in a job: it sends a value of a type that another process cannot get."""


def send(stream: IO[bytes], value: Any) -> None:
    """Write one value. ``ValueError`` where it is too deep, ``Unsendable`` where such a value never can be sent."""
    try:
        data = marshal.dumps(value)
    except ValueError as problem:
        if "unmarshallable" in str(problem):
            raise Unsendable(
                f"a value of a type that cannot be sent to another process: {value!r:.200}"
            ) from None
        raise
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value; None at the end of the stream."""
    prefix = stream.read(_LENGTH_BYTES)
    if len(prefix) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(prefix, "big")
    data = stream.read(length)
    if len(data) < length:
        return None  # the writer died in the middle
    # Whatever comes here was written by the other end of our own pipe.
    return marshal.loads(data)  # noqa: S302
