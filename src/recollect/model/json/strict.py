"""JSON that represents exactly the given value, or is refused.

Ordinary encoders are permissive: NaN becomes null or a word that no other parser knows, half a surrogate pair
becomes invalid bytes. Data in a log is permanent, so here both are a ``UsageError`` before a byte is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from recollect.errors import UsageError
from recollect.model.blocks import Block, UnknownBlock


def json_of(what: str, value: object) -> Raw:
    """Any plain value as compact JSON. Refuses NaN, which the typed encoder would silently write as null."""
    if isinstance(value, Raw):
        return value
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return Raw(written.encode())
    except UnicodeEncodeError as problem:
        raise _not_utf8(problem) from None
    except (TypeError, ValueError, RecursionError) as problem:
        raise refusal(f"{what}: {problem}", "use text, finite numbers, lists and mappings") from None


def encoded(value: Any) -> bytes:
    """Our own types as compact JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as problem:
        raise _not_utf8(problem) from None
    except ValueError as problem:
        raise refusal(f"number: {problem}", "no count is that large; leave it out") from None


def block_json(block: Block) -> Raw:
    """A block as written in a line: fields without a value are left out."""
    if isinstance(block, UnknownBlock):
        return Raw(block.json)
    return Raw(encoded({"type": block.__struct_config__.tag, **given(block)}))


def block_list(blocks: Iterable[Block]) -> Raw:
    return Raw(b"[" + b",".join(bytes(block_json(block)) for block in blocks) + b"]")


def given(of: Struct) -> dict[str, Any]:
    """The fields that have a value, by their names on disk."""
    pairs = zip(of.__struct_encode_fields__, of.__struct_fields__, strict=True)
    values = {written: getattr(of, name) for written, name in pairs}
    return {
        name: given(value) if isinstance(value, Struct) else value
        for name, value in values.items()
        if value is not None and value is not UNSET
    }


def refusal(message: str, hint: str) -> UsageError:
    return UsageError(message, hint=hint)


def _not_utf8(problem: UnicodeEncodeError) -> UsageError:
    return refusal(
        f"text: character {problem.start} is half of a surrogate pair",
        "replace it, for example with U+FFFD; it cannot be written as UTF-8",
    )
