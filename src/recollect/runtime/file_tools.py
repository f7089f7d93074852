"""Read, Write and Edit, with the client's rules and messages.

An existing file is changed only if the session has read its current content; an edit replaces exactly
the given text. Files are UTF-8; CRLF is kept and not shown in a file that uses it throughout. A file
that is not text is not edited. Before its first change in a turn, a file is saved to the file history.
"""

from __future__ import annotations

import base64
from typing import Any

from recollect.runtime import guarded_files, words
from recollect.runtime.file_history import FileHistory
from recollect.runtime.gate import PermissionGate
from recollect.runtime.guarded_files import FileSnapshot
from recollect.runtime.outcome import ApprovedCall, ToolFailed, ToolOutcome
from recollect.runtime.patches import structured_patch

_LINES, _LINE_CHARACTERS, _READ_BYTES, _IMAGE_BYTES = 2_000, 2_000, 256 * 1024, 3_750_000
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


class FileTools:
    """The files of one session: which were read, and in which state."""

    def __init__(self, gate: PermissionGate, history: FileHistory) -> None:
        self._gate, self._history = gate, history
        self._seen: dict[str, FileSnapshot] = {}
        self._seen_in_part: set[str] = set()

    # ---- Read --------------------------------------------------------------------------------------------

    def read(self, call: ApprovedCall) -> ToolOutcome:
        """A file's text with line numbers, or an image."""
        path, real, seen = self._opened(call)
        if seen is None:
            raise ToolFailed(words.missing(call.cwd))
        self._seen[real] = seen
        kind = next((kind for start, kind in _IMAGES.items() if seen.data.startswith(start)), None)
        if kind is not None:
            return _picture(seen.data, kind)
        text = _shown(seen.data)
        lines = text.split("\n")
        first = max(_number(call, "offset", 1), 1)
        limit = max(_number(call, "limit", _LINES), 1)
        chosen = lines[first - 1 : first - 1 + limit]
        (self._seen_in_part.discard if len(chosen) == len(lines) else self._seen_in_part.add)(real)
        content = "\n".join(chosen)
        if len(content.encode("utf-8", "replace")) > _READ_BYTES:
            raise ToolFailed(
                f"File content ({len(content):,} characters) exceeds maximum allowed size ({_READ_BYTES // 1024}KB). "
                "Use offset and limit parameters to read specific portions of the file."
            )
        file = {
            "filePath": path,
            "content": content,
            "numLines": len(chosen),
            "startLine": first,
            "totalLines": len(lines),
        }
        return ToolOutcome(_numbered(text, chosen, first, len(lines)), {"type": "text", "file": file})

    # ---- Write -------------------------------------------------------------------------------------------

    def write(self, call: ApprovedCall) -> ToolOutcome:
        content = _text(call, "content")
        path, real, before = self._opened(call)
        if before is not None:
            self._require_known(real, before)
        old = None if before is None else _shown(before.data)
        ending = "\r\n" if before is not None and _has_crlf(before.data) else "\n"
        self._replace(call, path, real, before, _bytes(content, ending))
        self._seen_in_part.discard(real)
        rich = {
            "type": "create" if before is None else "update",
            "filePath": path,
            "content": content,
            "structuredPatch": [] if old is None else structured_patch(old, content),
            "originalFile": old,
            "userModified": False,
        }
        return ToolOutcome(words.created(path) if before is None else words.updated(path), rich)

    # ---- Edit --------------------------------------------------------------------------------------------

    def edit(self, call: ApprovedCall) -> ToolOutcome:
        old, new = _text(call, "old_string"), _text(call, "new_string")
        everywhere = call.arguments.get("replace_all") is True
        if old == new:
            raise ToolFailed(words.NO_CHANGE, refused=True)
        path, real, before = self._opened(call)
        text = self._editable(call, real, before, old)
        times = text.count(old) if old else 1
        if not times:
            raise ToolFailed(words.not_found_in_file(old), refused=True)
        if times > 1 and not everywhere:
            raise ToolFailed(words.found_often(times, old), refused=True)
        edited = text.replace(old, new) if old else new
        ending = "\r\n" if before is not None and _has_crlf(before.data) else "\n"
        self._replace(call, path, real, before, _bytes(edited, ending))
        known = real not in self._seen_in_part
        rich = {
            "filePath": path,
            "oldString": old,
            "newString": new,
            "originalFile": text,
            "structuredPatch": structured_patch(text, edited),
            "userModified": False,
            "replaceAll": everywhere,
        }
        if not known:
            rich["contentNotInModelContext"] = True
        return ToolOutcome(words.updated(path, everywhere=everywhere, known=known), rich)

    def _editable(self, call: ApprovedCall, real: str, before: FileSnapshot | None, old: str) -> str:
        if before is None:
            if old:
                raise ToolFailed(words.missing(call.cwd), refused=True)
            return ""
        self._require_known(real, before)
        if not old and before.data:
            raise ToolFailed("Cannot create new file - file already exists.", refused=True)
        try:
            text = before.data.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolFailed("The file is not UTF-8 text, so it cannot be edited.", refused=True) from None
        return text.replace("\r\n", "\n") if _has_crlf(before.data) else text

    # ---- both --------------------------------------------------------------------------------------------

    def _opened(self, call: ApprovedCall) -> tuple[str, str, FileSnapshot | None]:
        """Path, resolved path and file; the decision is checked again after the file was opened."""
        path = _text(call, "file_path")
        real = self._gate.world.resolved(path)
        seen = guarded_files.read(real)
        call.require_still_allowed()
        if self._gate.world.identity(path) != (None if seen is None else seen.identity):
            raise ToolFailed("The file changed between the decision and the call. Nothing was done.")
        return path, real, seen

    def _require_known(self, real: str, now: FileSnapshot) -> None:
        known = self._seen.get(real)
        if known is None:
            raise ToolFailed(words.NOT_READ, refused=True)
        if known.data != now.data:
            raise ToolFailed(words.CHANGED, refused=True)

    def _replace(
        self, call: ApprovedCall, path: str, real: str, before: FileSnapshot | None, data: bytes
    ) -> None:
        self._history.before_change(path, None if before is None else before.data, call.asked_by)
        call.require_still_allowed()
        self._seen[real] = guarded_files.write(real, data, before)


def _text(call: ApprovedCall, name: str) -> str:
    value = call.arguments.get(name)
    if not isinstance(value, str):
        problem = "is missing" if value is None else "is not a string"
        raise ToolFailed(words.invalid(call.tool, f"The required parameter `{name}` {problem}"), refused=True)
    return value


def _number(call: ApprovedCall, name: str, default: int) -> int:
    value = call.arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _has_crlf(data: bytes) -> bool:
    """True only if all line ends are CRLF: a file with both kinds is left as it is."""
    return b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n")


def _shown(data: bytes) -> str:
    if data.startswith(b"\xff\xfe"):
        return data.decode("utf-16", "replace").replace("\r\n", "\n")
    if b"\0" in data[:8192]:
        raise ToolFailed("This tool cannot read binary files.")
    text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n") if _has_crlf(data) else text


def _bytes(text: str, ending: str) -> bytes:
    try:
        return (text.replace("\r\n", "\n").replace("\n", ending) if ending != "\n" else text).encode()
    except UnicodeEncodeError:
        raise ToolFailed(
            "The text has half a surrogate pair, which no file can hold.", refused=True
        ) from None


def _numbered(text: str, lines: list[str], first: int, total: int) -> str:
    if not text:
        return words.EMPTY_FILE
    if not lines:
        return (
            "<system-reminder>Warning: the file exists but is shorter than the provided offset "
            f"({first}). The file has {total} lines.</system-reminder>"
        )
    return "\n".join(f"{number}\t{line[:_LINE_CHARACTERS]}" for number, line in enumerate(lines, first))


def _picture(data: bytes, kind: str) -> ToolOutcome:
    if len(data) > _IMAGE_BYTES:
        raise ToolFailed(f"The image has {len(data):,} bytes; at most {_IMAGE_BYTES:,} can be shown.")
    encoded = base64.b64encode(data).decode("ascii")
    block: dict[str, Any] = {
        "type": "image",
        "source": {"type": "base64", "media_type": kind, "data": encoded},
    }
    return ToolOutcome(
        [block], {"type": "image", "file": {"base64": encoded, "type": kind, "originalSize": len(data)}}
    )
