"""Values between our own processes: length-prefixed ``marshal``, as both ends are the same interpreter.

Imports nothing of ours, so that a search without worker processes does not pay for them.
"""

from __future__ import annotations

import marshal
from typing import IO, Any

_LENGTH = 8


def send(stream: IO[bytes], value: Any) -> None:
    data = marshal.dumps(value)
    stream.write(len(data).to_bytes(_LENGTH, "big"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value; None at the end of the stream."""
    prefix = stream.read(_LENGTH)
    if len(prefix) < _LENGTH:
        return None
    length = int.from_bytes(prefix, "big")
    data = stream.read(length)
    if len(data) < length:
        return None  # the writer died in the middle
    # Only the other end of our own pipe writes here.
    return marshal.loads(data)  # noqa: S302
