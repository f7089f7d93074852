"""Every version of every file: from backups, writes, edits, reads and patches, in the order they happened."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from recollect.model.files.history import (
    FileVersion,
    VersionSource,
    absolute,
    backup_name,
    diff,
    file_versions,
    rewound,
    version_at,
)
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Entry

CWD = "/w"
A = "/w/a.txt"
Told = tuple[str, str | bytes | None, bool]


class Talk:
    """Lines of a made-up session: calls and results with ids and rising times."""

    def __init__(self, cwd: str = CWD) -> None:
        self.entries: list[Entry] = []
        self.cwd = cwd
        self._numbers = count(1)

    def line(self, **fields: Any) -> Entry:
        entry = decode(Line(json.dumps(fields).encode()))
        assert isinstance(entry, Entry)
        self.entries.append(entry)
        return entry

    def time(self, number: int) -> str:
        return f"2026-01-01T00:00:{number:02d}.000Z"

    def link(self, kind: str, content: object, **more: Any) -> Entry:
        number = next(self._numbers)
        message = {"role": kind, "content": content}
        return self.line(
            type=kind, uuid=f"u{number}", timestamp=self.time(number), cwd=self.cwd, message=message, **more
        )

    def prompt(self) -> str:
        return self.link("user", "Go on.").uuid or ""

    def call(self, name: str, **arguments: Any) -> str:
        entry = self.link(
            "assistant",
            [{"type": "tool_use", "id": f"t{len(self.entries)}", "name": name, "input": arguments}],
        )
        return entry.uuid or ""

    def result(self, rich: object = None, *, error: bool = False) -> str:
        block = {"type": "tool_result", "tool_use_id": f"t{len(self.entries) - 1}", "content": "done"}
        if error:
            block["is_error"] = True  # type: ignore[assignment]  # a block holds any JSON
        more = {} if rich is None else {"toolUseResult": rich}
        return self.link("user", [block], **more).uuid or ""

    def ran(self, name: str, rich: object, **arguments: Any) -> str:
        self.call(name, **arguments)
        return self.result(rich)

    def snapshot(
        self, owner: str, tracked: dict[str, Any], second: int, message_id: str | None = None
    ) -> None:
        taken = {"messageId": owner, "trackedFileBackups": tracked, "timestamp": self.time(second)}
        self.line(type="file-history-snapshot", messageId=message_id or owner, snapshot=taken)


def told(versions: Iterable[FileVersion]) -> list[Told]:
    """Who says it, what it says, and whether there was a file."""
    return [(version.source.value, version.content, version.existed) for version in versions]


def backed_up(name: str | None, version: int, time: str) -> dict[str, Any]:
    return {"backupFileName": name, "version": version, "backupTime": time}


def sample(transcripts: Path, pattern: str) -> tuple[list[Entry], Callable[[str], bytes | None]]:
    """A real session and the reader of its backups."""
    log = next((transcripts / "samples/claude-home").glob(pattern))
    backups = log.parents[2] / "file-history" / log.stem
    items = [decode(Line(line)) for line in log.read_bytes().split(b"\n")[:-1]]
    return [item for item in items if isinstance(item, Entry)], lambda name: (backups / name).read_bytes()


# ---- real sessions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        "2.0.76-interactive/.claude/projects/*/10b0*.jsonl",
        "2.1.325-interactive/.claude/projects/*/a9e2*.jsonl",
    ],
)
def test_an_everyday_session_has_five_versions_of_its_file(transcripts: Path, pattern: str) -> None:
    """It was not there, was written, put aside, edited and put aside again; repeated listings add nothing."""
    entries, body_of = sample(transcripts, pattern)

    (versions,) = file_versions(entries, body_of=body_of).values()

    assert [
        ("backup", None, False),
        ("write", "one\n", True),
        ("backup", b"one\n", True),
        ("edit", "two\n", True),
        ("backup", b"two\n", True),
    ] == told(versions)


def test_a_read_a_backup_and_two_edits(transcripts: Path) -> None:
    """The checkpoint sample reads "zero", which is put aside, and edits it twice."""
    entries, body_of = sample(transcripts, "2.1.325-print/.claude/projects/*sdk-checkpoint/*.jsonl")

    versions = file_versions(entries, body_of=body_of)

    assert {
        "/tmp/demo/w/sdk-checkpoint/a.txt": [
            ("read", "zero\n", True),
            ("backup", b"zero\n", True),
            ("edit", "one\n", True),
            ("edit", "two\n", True),
        ]
    } == {path: told(found) for path, found in versions.items()}


@pytest.mark.parametrize("client", ["1.0.24", "1.0.128", "2.0.28", "2.0.76", "2.1.30", "2.1.197", "2.1.325"])
def test_every_client_tells_of_a_write_and_an_edit(transcripts: Path, client: str) -> None:
    """The tools sample of each version: created with two lines, the second one edited."""
    found: list[list[Told]] = []
    for log in sorted(
        (transcripts / f"samples/claude-home/{client}-print/.claude/projects").glob("*tools/*.jsonl")
    ):
        if "server-tools" in log.parent.name:
            continue
        entries = [
            item for line in log.read_bytes().split(b"\n") if isinstance(item := decode(Line(line)), Entry)
        ]
        found += [
            told(versions) for path, versions in file_versions(entries).items() if path.endswith("/a.txt")
        ]

    assert [("found", None, False), ("write", "one\ntwo\n", True), ("edit", "one\nTWO\n", True)] == found[0][
        :3
    ]


# ---- results ---------------------------------------------------------------------------------------------


def test_a_change_from_outside_shows_where_the_next_edit_finds_it() -> None:
    """Somebody changed the file between two edits; nothing else tells of it."""
    talk = Talk()
    talk.ran("Write", {"type": "create", "filePath": A, "content": "one\n"})
    talk.ran("Edit", {"filePath": A, "oldString": "x", "newString": "y", "originalFile": "x\n"})

    assert [
        ("found", None, False),
        ("write", "one\n", True),
        ("found", "x\n", True),
        ("edit", "y\n", True),
    ] == told(file_versions(talk.entries)[A])


def test_an_edit_without_its_original_is_worked_out_from_what_is_known() -> None:
    """Clients leave ``originalFile`` null for large files."""
    talk = Talk()
    talk.ran("Write", {"type": "create", "filePath": A, "content": "one\ntwo\n"})
    talk.ran("Edit", {"filePath": A, "oldString": "two", "newString": "2", "originalFile": None})

    assert "one\n2\n" == file_versions(talk.entries)[A][-1].content


def test_several_edits_in_one_call() -> None:
    """MultiEdit keeps the original under another name."""
    talk = Talk()
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "c", "new_string": "d", "replace_all": True},
    ]
    hunk = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": ["-a", "-cc", "+b", "+dd"]}
    talk.ran(
        "MultiEdit",
        {"filePath": A, "edits": edits, "originalFileContents": "a\ncc\n", "structuredPatch": [hunk]},
    )

    assert [("found", "a\ncc\n", True), ("edit", "b\ndd\n", True)] == told(file_versions(talk.entries)[A])


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Write", {"file_path": A, "content": "new\n"}, ("write", "new\n", True)),
        ("Edit", {"file_path": A, "old_string": "old", "new_string": "new"}, ("edit", "new\n", True)),
        (
            "MultiEdit",
            {"file_path": A, "edits": [{"old_string": "old", "new_string": "new"}]},
            ("edit", "new\n", True),
        ),
        ("NotebookEdit", {"notebook_path": A, "new_source": "x"}, ("edit", None, True)),
    ],
)
def test_the_call_has_to_do_where_the_result_is_bare(
    name: str, arguments: dict[str, Any], expected: Told
) -> None:
    """Other writers keep no ``toolUseResult``; the input of the call says what was done."""
    talk = Talk()
    talk.ran("Write", None, file_path=A, content="old\n")
    talk.ran(name, None, **arguments)

    assert expected == told(file_versions(talk.entries)[A])[-1]


@pytest.mark.parametrize(
    "rich",
    ["Error: File has not been read yet.", "InputValidationError: [...]", None],
    ids=["text", "input", "flag"],
)
def test_a_call_that_failed_changed_nothing(rich: str | None) -> None:
    """Whether it is told by a flag or by the text of the result."""
    talk = Talk()
    talk.call("Write", file_path=A, content="x")
    talk.result(rich, error=rich is None)

    assert {} == file_versions(talk.entries)


# ---- reads -----------------------------------------------------------------------------------------------


def read_of(text: str, **more: Any) -> dict[str, Any]:
    lines = len(text.split("\n"))
    file = {"filePath": A, "content": text, "numLines": lines, "startLine": 1, "totalLines": lines, **more}
    return {"type": "text", "file": file}


def test_a_read_of_the_whole_file_is_a_version_once() -> None:
    """Reading the same text again says nothing new."""
    talk = Talk()
    talk.ran("Read", read_of("one\n"))
    talk.ran("Read", read_of("one\n"))

    assert [("read", "one\n", True)] == told(file_versions(talk.entries)[A])


@pytest.mark.parametrize(
    "rich",
    [
        read_of("one\n", totalLines=9),
        read_of("one\n", startLine=2),
        read_of("caf\ufffd\n"),
        {"type": "notebook", "file": {"filePath": A, "cells": []}},
    ],
    ids=["cut", "from the middle", "undecodable", "notebook"],
)
def test_a_read_that_is_not_the_whole_file_is_no_version(rich: object) -> None:
    """Parts, and text the client could not decode, do not tell what the file held."""
    talk = Talk()
    talk.ran("Read", rich)

    assert {} == file_versions(talk.entries)


# ---- backups ---------------------------------------------------------------------------------------------


def test_a_backup_stands_where_its_call_stands_wherever_its_line_is_written() -> None:
    """The delta's line comes after the edit's result, and its clock is wrong; the link decides (S11)."""
    talk = Talk()
    talk.prompt()
    call = talk.call("Edit")
    talk.result({"filePath": A, "oldString": "1", "newString": "2", "originalFile": "1\n"})
    talk.prompt()
    talk.line(
        type="file-history-delta",
        messageId=call,
        trackingPath="a.txt",
        backup=backed_up(backup_name(A, 1), 1, talk.time(59)),
    )

    versions = file_versions(talk.entries, body_of={backup_name(A, 1): b"1\n"}.get)[A]

    assert [("backup", b"1\n", True), ("edit", "2\n", True)] == told(versions)


@pytest.mark.parametrize(
    ("held", "text", "expected"),
    [
        (b"one\r\ntwo\r\n", "one\ntwo\n", b"one\r\nTWO\r\n"),
        ("\ufeffone\ntwo\n".encode("utf-16-le"), "\ufeffone\ntwo\n", "\ufeffone\nTWO\n".encode("utf-16-le")),
        (b"one\r\ntwo\n", "one\ntwo\n", "one\nTWO\n"),
        (b"one\ntwo\n", "one\ntwo\n", "one\nTWO\n"),
    ],
    ids=["CRLF", "UTF-16", "both ends", "plain"],
)
def test_an_edit_keeps_line_ends_and_encoding(held: bytes, text: str, expected: str | bytes) -> None:
    """Measured on 2.1.325: results are told in plain newlines, files keep their own."""
    talk = Talk()
    call = talk.call("Edit")
    talk.result({"filePath": A, "oldString": "two", "newString": "TWO", "originalFile": text})
    talk.line(
        type="file-history-delta",
        messageId=call,
        trackingPath="a.txt",
        backup=backed_up(backup_name(A, 1), 1, talk.time(1)),
    )

    versions = file_versions(talk.entries, body_of=lambda _: held)[A]

    assert [("backup", held, True), ("edit", expected, True)] == told(versions)


def test_a_session_that_changed_directory_is_understood_by_the_hash() -> None:
    """The path is relative to a directory the line does not name; the backup's name tells which."""
    talk = Talk(cwd="/elsewhere")
    talk.prompt()
    talk.cwd = CWD
    talk.snapshot(talk.prompt(), {"a.txt": backed_up(backup_name(A, 1), 1, talk.time(2))}, 2)

    assert [A] == list(file_versions(talk.entries))


def test_one_file_under_three_spellings_is_one_file() -> None:
    """Relative, with dots, absolute."""
    talk = Talk()
    for number, path in enumerate(["a.txt", "/w/x/../a.txt", A]):
        talk.ran("Write", {"type": "update", "filePath": path, "content": f"{number}"})

    assert {A: ["0", "1", "2"]} == {
        path: [version.content for version in found] for path, found in file_versions(talk.entries).items()
    }


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("a.txt", "/w", "/w/a.txt"),
        ("../a.txt", "/w/x", "/w/a.txt"),
        ("/b", "/w", "/b"),
        (r"src\a.go", r"D:\p", r"D:\p\src\a.go"),
        (r"D:\p\a.go", "/w", r"D:\p\a.go"),
        (r"\\host\share\a", r"D:\p", r"\\host\share\a"),
        (r"a\b", "/w", r"/w/a\b"),
    ],
)
def test_paths_of_both_worlds(path: str, cwd: str, expected: str) -> None:
    """A session may come from another system; its paths are read by that system's rules."""
    assert expected == absolute(path, cwd)


# ---- choosing --------------------------------------------------------------------------------------------


def three_versions() -> list[FileVersion]:
    talk = Talk()
    for text in ("1", "2", "3"):
        talk.ran("Write", {"type": "update", "filePath": A, "content": text})
    return file_versions(talk.entries)[A]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (dt.datetime(2026, 1, 1, 0, 0, 1, tzinfo=dt.UTC), None),
        (dt.datetime(2026, 1, 1, 0, 0, 5, tzinfo=dt.UTC), "2"),
        (dt.datetime(2027, 1, 1, tzinfo=dt.UTC), "3"),
        ("u4", "2"),
        ("u", "3"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_version_at_a_time_or_an_entry(when: dt.datetime | str, expected: str | None) -> None:
    """Results stand at 2, 4 and 6 seconds."""
    chosen = version_at(three_versions(), when)

    assert expected == (chosen.content if chosen else None)


def test_rewinding_takes_what_belongs_to_the_prompt_or_what_was_found_later() -> None:
    """A file first touched after the prompt goes back to how it was found, which may be: not at all."""
    talk = Talk()
    first = talk.prompt()
    talk.snapshot(first, {}, 1)
    talk.line(
        type="file-history-delta",
        messageId=first,
        snapshotMessageId=first,
        trackingPath="a.txt",
        backup=backed_up("aa@v1", 1, talk.time(1)),
    )
    second = talk.prompt()
    talk.snapshot(second, {"a.txt": backed_up("aa@v2", 2, talk.time(2))}, 2)
    talk.line(
        type="file-history-delta",
        messageId=second,
        snapshotMessageId=second,
        trackingPath="b.txt",
        backup=backed_up(None, 1, talk.time(2)),
    )

    def names(prompt: str) -> dict[str, str | None]:
        return {path: version.backup_name for path, version in rewound(talk.entries, prompt, CWD).items()}

    assert {A: "aa@v1", "/w/b.txt": None} == names(first)
    assert {A: "aa@v2", "/w/b.txt": None} == names(second)
    assert {} == names("unknown")


# ---- differences -----------------------------------------------------------------------------------------


def version_of(
    content: str | bytes | None, *, existed: bool = True, path: str = A, patch: str = ""
) -> FileVersion:
    return FileVersion(path=path, source=VersionSource.WRITE, content=content, existed=existed, patch=patch)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (version_of("a\nb\n"), version_of("a\nc\n"), "--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (None, version_of("a\n"), "--- /dev/null\n+++ b/w/a.txt\n@@ -0,0 +1 @@\n+a\n"),
        (version_of("a\n"), version_of(None, existed=False), "--- a/w/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        (version_of("a"), version_of("a\n"), "--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        (version_of("a\n"), version_of("a\n"), ""),
        (version_of(b"a\r\n"), version_of("a\n"), ""),
        (version_of(b"a\r\n"), version_of(b"a\n"), "--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1 +1 @@\n-a\r\n+a\n"),
        (version_of("a\u2028b\n"), version_of("a\u2028c\n"), "--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1 +1 @@\n-a\u2028b\n+a\u2028c\n"),
        (version_of(b"\xff\0"), version_of(b"\0"), "--- a/w/a.txt\n+++ b/w/a.txt\nBinary files differ\n"),
        (version_of(b"\xff"), version_of(b"\xff"), ""),
        (version_of(None), version_of(None, patch="@@ -1 +1 @@\n"), "--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1 +1 @@\n"),
    ],
    ids=[
        "changed", "created", "deleted", "last newline", "same", "line ends not known", "line ends", "odd separator",
        "binary", "same binary", "patch only",
    ],
)  # fmt: skip
def test_the_difference_of_two_versions(old: FileVersion | None, new: FileVersion, expected: str) -> None:
    """A unified diff as other tools print and read it."""
    assert expected == diff(old, new)


def test_a_name_cannot_forge_a_diff() -> None:
    """A newline in a path is made visible."""
    shown = diff(None, version_of("a\n", path="/w/x\n+++ b/etc/passwd"))

    assert "+++ b/w/x\\n+++ b/etc/passwd\n" == shown.splitlines(keepends=True)[1]


def test_every_real_edit_that_tells_its_original_is_worked_out(transcripts: Path) -> None:
    """In the corpus no such edit is left unknown: replacement and patch always lead to one text."""
    told_original: set[str] = set()
    worked_out: set[str | None] = set()
    for log in sorted((transcripts / "corpus").rglob("*.jsonl")):
        lines = log.read_bytes().split(b"\n")
        entries = [item for line in lines if isinstance(item := decode(Line(line)), Entry)]
        told_original |= {uuid for entry in entries if (uuid := _with_original(entry)) is not None}
        for versions in file_versions(entries).values():
            edits = [version for version in versions if version.source is VersionSource.EDIT]
            worked_out |= {edit.entry_uuid for edit in edits if edit.is_known}

    assert len(told_original) > 250
    assert set() == told_original - worked_out


def _with_original(entry: Entry) -> str | None:
    rich = entry.fields().get("toolUseResult")
    if not isinstance(rich, dict) or "oldString" not in rich or not isinstance(rich["originalFile"], str):
        return None
    return entry.uuid
