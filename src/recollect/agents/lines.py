"""The lines of a mirrored log: entries of our own model, each beside the bytes it was made from.

``foreign-source`` says which file of the foreign home the following bytes come from. Every line that was made from a
record carries that record's exact bytes, its newline included, as ``original`` (``originalBase64`` where they are not
UTF-8), so that the originals of a source joined are the source; ``fitting`` cuts what would be too long. A record that says nothing new is a
``foreign-record`` with nothing but its bytes. ``foreign-usage`` is one model call.

The id of a link is made from its parent's id and its content. So the same history always has the same ids: what a
fork copied is a copy for every reader, and mirroring twice adds nothing.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.lines.damage import DEFAULT_LIMITS, TOO_LONG, UNREADABLE
from recollect.model.lines.ids import uuid_of

SOURCE, RECORD, USAGE = "foreign-source", "foreign-record", "foreign-usage"
PLACE = ("sessionId", "timestamp", "isSidechain", "agentId", "ordinal")
ORIGINAL = ("original", "originalBase64")
COMPACTED = "compact_boundary"
IS_MIRRORED = "isMirrored"  # beside what says nothing else of its source
FROM_AGENT = "fromAgent"  # the sub-agent that wrote a message in the user's name
LineFields = dict[str, Any]

encode = msgspec.json.Encoder().encode
_sorted_encode = msgspec.json.Encoder(order="deterministic").encode
_REWOUND = "rewound"
# What ends an empty conversation: a note that follows no message would end none.
_NOT_SAID = {"isMeta": True, "isVisibleInTranscriptOnly": True}


class Voice(Struct, kw_only=True):
    """Where the next line is written: kept between two passes over a source."""

    session: str = ""
    agent: str | None = None  # the sub-agent whose log this is
    cwd: str = ""
    branch: str | None = None
    version: str | None = None
    at: str | None = None
    leaf: str | None = None  # the entry that the next one follows
    seed: str = ""  # of the first entry's id
    epoch: int = 0  # how often history was cut: what is said again after that is another entry
    copied_from: str | None = None  # the session whose lines these are copies of


def link(voice: Voice, kind: str, body: Mapping[str, object]) -> LineFields:
    """The next link of the conversation."""
    leaf = voice.leaf
    voice.leaf = uuid = link_id(voice, kind, body)
    return named_link(voice, kind, uuid, leaf, body)


def link_id(voice: Voice, kind: str, body: Mapping[str, object]) -> str:
    """The id of the next link, where its record has none."""
    above = f"{voice.epoch}\0{voice.leaf or voice.seed}\0{kind}\0".encode("utf-8", "replace")
    return uuid_of(above + _sorted_encode(body))


def named_link(
    voice: Voice, kind: str, uuid: str, parent: str | None, body: Mapping[str, object]
) -> LineFields:
    """A link of this id."""
    return {"type": kind, "uuid": uuid, "parentUuid": parent, **_place(voice, voice.cwd), **body}


def user(voice: Voice, content: object, **more: object) -> LineFields:
    """A prompt, a result or a note in the user's name."""
    return link(voice, "user", {"message": {"role": "user", "content": content}, **more})


def assistant(voice: Voice, model: str | None, *blocks: Mapping[str, object]) -> LineFields:
    """What the model said or called; each line is an answer of its own, its usage stands elsewhere.

    A model that the client does not name is none of Claude's.
    """
    message = {"role": "assistant", "model": model or "", "content": blocks}
    line = link(voice, "assistant", {"message": message})
    line["message"]["id"] = f"msg_{line['uuid']}"
    return line


def result(voice: Voice, call: str, content: object, *, is_error: bool = False, **more: object) -> LineFields:
    """What a tool returned."""
    block: LineFields = {"type": "tool_result", "tool_use_id": call, "content": content}
    return user(voice, [{**block, "is_error": True} if is_error else block], **more)


def note(voice: Voice, subtype: str, text: str, level: str = "info") -> LineFields:
    """A note of the client."""
    return link(voice, "system", {"subtype": subtype, "content": text, "level": level})


def compaction(
    voice: Voice, summary: str, trigger: str = "auto", kept: tuple[str, str] | None = None
) -> list[LineFields]:
    """A cut: what stands before it is no longer sent, the summary is; then what was ``kept``, from the first of its links to the last."""
    segment = {} if kept is None else {"headUuid": kept[0], "tailUuid": kept[1]}
    cut = boundary(voice, {"trigger": trigger, **({"preservedSegment": segment} if segment else {})})
    after = user(voice, summary, isCompactSummary=True)
    if segment:
        segment["anchorUuid"] = after["uuid"]
    return [cut, after]


def boundary(voice: Voice, about: LineFields, text: str = "Conversation compacted") -> LineFields:
    """A cut alone: what is sent from then on follows it."""
    before = voice.leaf
    said = {"subtype": COMPACTED, "content": text, "compactMetadata": about}
    return link(voice, "system", said) | {"parentUuid": None, "logicalParentUuid": before}


def usage(voice: Voice, key: str, model: str | None, counts: Mapping[str, int], **more: object) -> LineFields:
    """One model call. ``key`` is the same in every copy of it; ``counts`` are disjoint."""
    searches = counts.get("web_searches", 0)
    said: LineFields = {
        "input_tokens": counts.get("input", 0),
        "output_tokens": counts.get("output", 0),
        "cache_read_input_tokens": counts.get("cache_read", 0),
        "cache_creation_input_tokens": counts.get("cache_write", 0),
        **({"server_tool_use": {"web_search_requests": searches}} if searches else {}),
        **more,
    }
    message = {"role": "assistant", "id": key, "model": model, "usage": said}
    return {"type": USAGE, **_place(voice, voice.cwd), "message": message}


def titled(session: str, title: str) -> LineFields:
    """The name a user gave to a session."""
    return {"type": "custom-title", "customTitle": title, "sessionId": session}


def is_made(line: LineFields, agent: str) -> bool:
    """Whether a line of a mirror was made from its source; names and tags that were given here are not."""
    kind = line.get("type")
    is_translated = "uuid" in line or kind in (SOURCE, USAGE, RECORD) or IS_MIRRORED in line
    return is_translated or str(kind).startswith(f"{agent}:")


def record(voice: Voice, kind: str = RECORD, **more: object) -> LineFields:
    """A record that is kept and is no link; one of an unknown type goes by its own name."""
    return {"type": kind, **_place(voice), **more}


def source(agent: str, name: str, generation: int) -> LineFields:
    """Whose bytes follow. A file that was rewritten is another generation. The agent is for copies of the log elsewhere."""
    return {"type": SOURCE, "agent": agent, "source": name, "generation": generation}


def with_original(lines: list[LineFields], data: bytes) -> list[LineFields]:
    """The bytes of the record beside the first of its lines."""
    keep_original(lines[0], data)
    return lines


def keep_original(line: LineFields, data: bytes) -> None:
    """The bytes of a record beside its line."""
    try:
        line["original"] = data.decode()
    except UnicodeDecodeError:
        line["originalBase64"] = base64.b64encode(data).decode()


def id_of(line: LineFields) -> str | None:
    """The id of a link, a model call or a remark; None for other lines."""
    call = line["message"]["id"] if line.get("type") == USAGE else None
    name: str | None = line.get("uuid") or call or line.get("about")
    return name


def original_of(line: Mapping[str, Any]) -> bytes | None:
    """The bytes a line was made from; None where it is not the first line of a record."""
    if "original" in line:
        return str(line["original"]).encode()
    encoded = line.get("originalBase64")
    return None if encoded is None else base64.b64decode(encoded)


def mark_of(data: bytes) -> str:
    """What tells one state of a record from another."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def key_of(*parts: object) -> str:
    """A short name for a model call, the same wherever it was copied to."""
    return hashlib.blake2b(encode(parts), digest_size=15).hexdigest()


@lru_cache(maxsize=1024)  # every message of a store is asked twice
def moment(milliseconds: float | None) -> str | None:
    """Milliseconds since 1970 as the text all logs have."""
    if milliseconds is None:
        return None
    try:
        when = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return f"{when.isoformat(timespec='milliseconds')[:-6]}Z"


def _place(voice: Voice, cwd: str = "") -> LineFields:
    agent, branch, version = voice.agent, voice.branch, voice.version
    found: LineFields = {
        "sessionId": voice.session,
        "timestamp": voice.at,
        "isSidechain": agent is not None,
    }
    if agent is not None:
        found["agentId"] = agent
    if cwd:
        found["cwd"] = cwd
    if branch is not None:
        found["gitBranch"] = branch
    if version is not None:
        found["version"] = version
    if voice.copied_from is not None:
        found["forkedFrom"] = {"sessionId": voice.copied_from}
    return found


def record_marks(lines: Iterable[LineFields]) -> dict[str, str]:
    """What a log has last of each record that is a file or a row of its own, by source."""
    return {line["source"]: line["mark"] for line in lines if "mark" in line}


def known_ids(lines: Iterable[LineFields]) -> set[str]:
    """Entries, model calls and remarks that a log has already: for a source that is read again from its start."""
    return {name for line in lines if (name := id_of(line))}


def unsaid(lines: Iterable[LineFields], new: list[LineFields], redacted: list[bytes]) -> list[LineFields]:
    """Of lines that a log has already only the bytes of their records; what says something else under their ids, as it is.

    ``redacted``: the new lines as they would be written.
    """
    known = {name: _content(line) for line in lines if (name := id_of(line))}
    result = []
    for line, data in zip(new, redacted, strict=True):
        name = id_of(line)
        if name is None or known.get(name) != _content(msgspec.json.decode(data)):
            result.append(line)
        elif original_of(line) is not None:
            result.append({"type": RECORD} | {key: line[key] for key in (*PLACE, *ORIGINAL) if key in line})
    return result


def _content(line: LineFields) -> LineFields:
    """What a line says, wherever it stands."""
    return {key: value for key, value in line.items() if key not in (*PLACE, *ORIGINAL)}


def ended(
    lines: Iterable[LineFields], new: list[LineFields], voice: Voice, *, is_emptied: bool = False
) -> list[LineFields]:
    """New entries of a log that has to end where ``voice`` does.

    Where others follow that entry, a note after it says that the conversation goes on from there. ``is_emptied``:
    a voice that ends nowhere is one of which all was taken back, and not one that has said nothing yet.
    """
    seen: set[str] = set()
    # The last entry, and the last one that was new: what follows one that is written again stands before it.
    last = grown = None
    times = 0
    for line in (*lines, *new):
        if "uuid" in line:
            is_note = line.get("subtype") == _REWOUND
            times += is_note
            last = line.get("parentUuid") if is_note else line["uuid"]
            grown = grown if line["uuid"] in seen else last
            seen.add(line["uuid"])
            # That of the note: lists go by the last time of a log.
            voice.at = max(voice.at or "", str(line.get("timestamp") or "")) or None
    if voice.leaf == last == grown or (voice.leaf is None and not is_emptied):
        return new
    voice.epoch = times + 1
    if voice.leaf is None:
        return [*new, user(voice, "All messages were taken back", subtype=_REWOUND, **_NOT_SAID)]
    return [*new, note(voice, _REWOUND, "Earlier messages were taken back or written again")]


LONGEST = DEFAULT_LIMITS.line_bytes
PARTIAL = "partial"
# In JSON a byte takes six at most, so that a piece always fits.
_SHARE = 8
# Where a record is cut: a secret that stands in two pieces would not be found. The first is between two fields.
_CUTS, _WINDOW = (b'",', b" "), 1 << 16
# What the last line of a record that is a file, or a row, of its own has to say.
_OF_WHOLE = ("whole", "source", "mark")
_PLAIN = range(1, 1 << 12)


def fitting(line: LineFields, agent: str) -> list[bytes]:
    """A line, encoded; several where readers would not take it as one.

    Bytes of its record that do not fit are kept in pieces, each a ``foreign-record`` marked as ``partial``, before the line. Where
    what was made of the record does not fit either, a line ``<agent>:unreadable`` says so in its place.
    """
    encoded = encode(line)
    if len(encoded) <= LONGEST:
        return [encoded]
    del encoded
    data = original_of(line)
    place = _plain(line, PLACE)
    found = [_record(place | {PARTIAL: True}, piece) for piece in _pieces(data or b"")]
    end = {} if data is None else {"original": ""}
    shown = encode({key: value for key, value in line.items() if not key.startswith("original")} | end)
    if len(shown) <= LONGEST:
        return [*found, shown]
    if data is not None:
        found.append(_record(place | _plain(line, _OF_WHOLE), b""))
    size = len(shown if data is None else data)
    return [*found, encode({"type": f"{agent}{UNREADABLE}", **place, TOO_LONG: size})]


def _plain(line: LineFields, names: tuple[str, ...]) -> LineFields:
    """Fields of a line, unless one is too long itself."""
    return {name: line[name] for name in names if len(str(line.get(name, ""))) in _PLAIN}


def _record(place: LineFields, data: bytes) -> bytes:
    line = {"type": RECORD, **place}
    keep_original(line, data)
    return encode(line)


def _pieces(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = start + LONGEST // _SHARE
        end = _cut(data, start, end) if end < len(data) else len(data)
        yield data[start:end]
        start = end


def _cut(data: bytes, start: int, end: int) -> int:
    for mark in _CUTS:
        found = data.rfind(mark, max(start, end - _WINDOW), end)
        if found >= 0:
            return found + len(mark)
    # A character takes four bytes at most.
    return next((one for one in range(end, end - 4, -1) if data[one] & 0xC0 != 0x80), end)
