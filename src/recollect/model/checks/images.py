"""What the API checks about an image: whether it has data, whether that is base64, and whether it is too large.

Only the header is decoded, never the picture.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

# The API measures the encoded text.
MOST_BYTES = 5 * 1024 * 1024
MOST_PIXELS = 8000
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SPACE = b" \t\r\n"
_HEADER = 256 * 1024  # characters of base64; in a JPEG the size may come after an embedded thumbnail


def refusal(block: dict[str, Any]) -> str | None:
    """Why the API would refuse an image; None where it would not, or where it fetches the image itself."""
    source = block.get("source")
    if not isinstance(source, dict):
        return "the image has no source"
    if source.get("type") != "base64":
        return None
    data = source.get("data")
    if not isinstance(data, str) or not data.strip():
        return "the image is empty"
    if len(data) > MOST_BYTES:
        return f"the image has {len(data)} bytes, the API takes {MOST_BYTES}"
    if not is_base64(data):
        return "the data of the image is not base64"
    width, height = pixels(data)
    if max(width, height) > MOST_PIXELS:
        return f"the image has {width} x {height} pixels, the API takes {MOST_PIXELS}"
    return None


def is_base64(data: str) -> bool:
    """Whether data decodes: nothing but its letters, at most two ``=`` at the end, and a length that can be.

    White space and missing padding are taken: many decoders do.
    """
    text = data.encode("ascii", "replace").translate(None, _SPACE)
    padding = text.translate(None, _LETTERS)
    return padding in (b"", b"=", b"==") and text.endswith(padding) and (len(text) - len(padding)) % 4 != 1


def pixels(data: str) -> tuple[int, int]:
    """Width and height from the header of a PNG, GIF, JPEG or WebP; zero where they cannot be read."""
    try:
        head = base64.b64decode(data[:_HEADER][: len(data[:_HEADER]) // 4 * 4])
    except (binascii.Error, ValueError):
        return 0, 0
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith((b"GIF87a", b"GIF89a")):
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"\xff\xd8"):
        return _jpeg(head)
    return _webp(head) if head.startswith(b"RIFF") and head[8:12] == b"WEBP" else (0, 0)


def _jpeg(head: bytes) -> tuple[int, int]:
    position = 2
    while position + 9 < len(head) and head[position] == 0xFF:
        marker, length = head[position + 1], int.from_bytes(head[position + 2 : position + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[position + 7 : position + 9]), int.from_bytes(
                head[position + 5 : position + 7]
            )
        position += 2 + max(length, 2)
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return 0, 0
