"""A document as JSON bytes."""

from __future__ import annotations

import msgspec
from msgspec import Raw


def encoded(document: object) -> bytes:
    """A document as JSON. Text that UTF-8 cannot encode (half a surrogate pair) is escaped."""
    try:
        return msgspec.json.encode(document, enc_hook=str)
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(document, enc_hook=_plain, str_keys=True)).encode()


def _plain(value: object) -> object:
    return msgspec.json.decode(value) if isinstance(value, Raw) else str(value)
