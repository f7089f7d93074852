"""Values between our own processes: length-prefixed ``marshal``, as both ends are the same interpreter.

Imports nothing of ours, because a search that starts no process must not pay for one.
"""

from __future__ import annotations

import marshal
from typing import IO, Any

_LENGTH = 8


def send(stream: IO[bytes], value: Any) -> None:
    """Write one value."""
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
        return None  # whoever wrote it died in the middle
    # Whatever comes here was written by the other end of our own pipe.
    return marshal.loads(data)  # noqa: S302
