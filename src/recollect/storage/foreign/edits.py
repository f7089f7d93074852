"""What the edit calls of other agents changed, in the fields of Claude Code's own results (``model/files/reports.py``).

Each dialect's module knows the names of its calls; here is what they have in common: whole texts, replacements,
unified diffs, and the patches of ``apply_patch``, which Codex and OpenCode share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from recollect.storage.foreign.lines import LineFields

CHANGED = "changedFiles"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_PATCH = re.compile(r"\*\*\* Begin Patch\n(.*?)(?:\n\*\*\* End Patch|\Z)", re.DOTALL)
_FILE = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to): (.+)")


def written(
    path: object, content: object, *, original: object = None, created: bool = False, diff: object = None
) -> list[LineFields]:
    """A file that has this content now; nothing where a path or a content is missing."""
    if not isinstance(path, str) or not path or not isinstance(content, str):
        return []
    found: LineFields = {"filePath": path, "content": content, "type": "create" if created else "update"}
    if isinstance(original, str) and not created:
        found["originalFile"] = original
    return [found | _patch(diff)]


def replaced(
    path: object, edits: Iterable[tuple[object, object, object]], *, diff: object = None
) -> list[LineFields]:
    """A file in which texts were replaced: old, new, and whether everywhere."""
    steps = [
        {"old_string": old, "new_string": new, "replace_all": everywhere is True}
        for old, new, everywhere in edits
        if isinstance(old, str) and isinstance(new, str)
    ]
    if not isinstance(path, str) or not path or not steps:
        return []
    return [{"filePath": path, "edits": steps} | _patch(diff)]


def shown(display: object) -> list[LineFields]:
    """What Gemini CLI and Qwen Code show of a change: both contents, and how they differ."""
    said = display if isinstance(display, dict) else {}
    before, after = said.get("originalContent"), said.get("newContent")
    created = said.get("isNewFile") is True or (
        before == "" and str(said.get("fileDiff")).count("\n@@ -0,0 ") > 0
    )
    return written(said.get("filePath"), after, original=before, created=created, diff=said.get("fileDiff"))


def in_patch(text: str, directory: str = "") -> list[LineFields]:
    """The files of an ``apply_patch`` text. Its pieces have no line numbers: each is a replacement."""
    found: list[LineFields] = []
    for patch in _PATCH.finditer(text):
        for verb, path, body in _sections(patch[1]):
            where = f"{directory.rstrip('/')}/{path}" if directory and not path.startswith("/") else path
            if verb == "Add File":
                lines = [line[1:] for line in body if line.startswith("+")]
                found += written(where, "".join(f"{line}\n" for line in lines), created=True)
            elif verb == "Delete File":
                found.append({"filePath": where, "type": "delete"})
            else:
                found += replaced(where, _pieces(body))
    return found


def with_changes(line: LineFields, changed: list[LineFields]) -> LineFields:
    """A result with what it changed. The id of the line does not depend on it."""
    return line | {"toolUseResult": {CHANGED: changed}} if changed else line


def _sections(text: str) -> Iterator[tuple[str, str, list[str]]]:
    verb, path, body = "", "", list[str]()
    for line in text.split("\n"):
        matched = _FILE.fullmatch(line.rstrip())
        if matched is None:
            body.append(line)
            continue
        if verb and not (matched[1] == "Move to" and verb == "Update File"):
            yield verb, path, body
        if matched[1] == "Move to":
            yield "Delete File", path, []
        verb, path, body = ("Update File" if matched[1] == "Move to" else matched[1]), matched[2], []
    if verb:
        yield verb, path, body


def _pieces(body: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Each piece as the text it expects and the text it leaves."""
    piece: list[str] = []
    for line in (*body, "@@"):
        if not line.startswith("@@"):
            piece.append(line)
            continue
        old = [one[1:] for one in piece if one[:1] in (" ", "-")]
        new = [one[1:] for one in piece if one[:1] in (" ", "+")]
        if old != new:
            yield "\n".join(old), "\n".join(new), False
        piece = []


def _patch(diff: object) -> LineFields:
    """The pieces of a unified diff."""
    hunks: list[LineFields] = []
    for line in diff.split("\n") if isinstance(diff, str) else ():
        matched = _HUNK.match(line)
        if matched is not None:
            names = ("oldStart", "oldLines", "newStart", "newLines")
            hunks.append(
                {name: int(n or 1) for name, n in zip(names, matched.groups(), strict=True)} | {"lines": []}
            )
        elif hunks and line[:1] in ("+", "-", " ", "\\"):
            hunks[-1]["lines"].append(line)
    return {"structuredPatch": hunks} if hunks else {}
