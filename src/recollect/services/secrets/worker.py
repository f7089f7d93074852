"""A process that looks through files for secrets, so that every core is of use.

Started by ``services.secret_processes``. The key of the fingerprints and then one file after the other come
in on stdin, what each holds goes out on stdout; no secret leaves the process. It ends when stdin does,
so it cannot outlive whoever started it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import IO

import msgspec

from recollect.services.secrets.file_scan import PlaceScan, scan_place
from recollect.services.secrets.places import SecretPlace

_LENGTH = 8


def send(stream: IO[bytes], data: bytes) -> None:
    """Write one message."""
    stream.write(len(data).to_bytes(_LENGTH, "big") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None at the end of the stream, or where whoever wrote it died in the middle."""
    prefix = stream.read(_LENGTH)
    length = int.from_bytes(prefix, "big")
    data = stream.read(length) if len(prefix) == _LENGTH else b""
    return data if data and len(data) == length else None


def packed(value: SecretPlace | PlaceScan) -> bytes:
    """As it is sent."""
    return msgspec.msgpack.encode(value, enc_hook=str)


def unpacked_place(data: bytes) -> SecretPlace:
    """A place as it was received."""
    return msgspec.msgpack.decode(data, type=SecretPlace, dec_hook=lambda kind, value: kind(value))


def main() -> None:
    """Answer every place with what it holds."""
    # Ctrl-C is sent to us as well; whoever started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    key = receive(source)
    if key is None:
        return
    try:
        while (place := receive(source)) is not None:
            send(target, packed(scan_place(unpacked_place(place), key)))
    except BrokenPipeError:
        # Nobody is left to tell. Python would try to write the rest once more, and complain.
        os._exit(0)


if __name__ == "__main__":
    main()
