"""Goal I1: a name that was accepted as an id stays in the directory it is joined to."""

from __future__ import annotations

import random
from pathlib import PurePath, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import InvalidId
from recollect.model.lines.ids import AgentId, EntryId, ProjectKey, SessionId, is_uuid, short_id

IdType = type[SessionId] | type[AgentId] | type[ProjectKey] | type[EntryId]
TYPES: list[IdType] = [SessionId, AgentId, ProjectKey, EntryId]
DIRECTORIES: list[PurePath] = [PurePosixPath("/store/projects/-srv"), PureWindowsPath("C:\\store\\-srv")]

STEPS = [
    "..",
    "../",
    "..\\",
    "../x",
    "..\\x",
    "x/..",
    "x/../y",
    "../../etc/passwd",
    "a..b",
    "..a",
    "a..",
    "...",
]
SEPARATORS = [
    "/",
    "\\",
    "//",
    "/etc/passwd",
    "\\\\host\\share",
    "a/b",
    "a\\b",
    "/a",
    "a/",
    "\u2215",
    "\u2044",
]
SEPARATORS += ["\uff0f", "\uff3c", "a\u2044b", "a\uff0fb", "\u29f8", "\u29f9"]
ESCAPES = [
    "%2e%2e",
    "%2e%2e%2f",
    "%2f",
    "%5c",
    "%00",
    "..%2f",
    "%c0%af",
    "%252e",
    "&#46;&#46;",
    "\\u002e",
    "\\x2e",
]
DOTS = [".", "..", "a.", "a..", ".a", ".git", ".ssh", ".jsonl", "\u2024\u2024", "\uff0e\uff0e", "\u3002"]
DEVICES = [
    "CON",
    "con",
    "Prn",
    "AUX",
    "NUL",
    "nul.txt",
    "con.jsonl",
    "aux.a.b",
    "CONIN$",
    "CONOUT$",
    "CLOCK$",
]
DEVICES += [f"{port}{n}" for port in ("COM", "lpt") for n in range(10)]
DEVICES += [f"{port}{n}.log" for port in ("com", "LPT") for n in range(10)] + [
    "COM¹",
    "LPT²",
    "NUL ",
    "nul.",
    "nul:",
]
DRIVES = [
    "C:",
    "c:x",
    "C:\\x",
    "C:/x",
    "\\\\?\\C:\\x",
    "\\\\.\\pipe\\x",
    "a:stream",
    "x::$DATA",
    "file:///x",
    "~",
    "~root",
]
SPACES = [
    "",
    " ",
    "a b",
    " a",
    "a ",
    "\t",
    "a\n",
    "\na",
    "a\r",
    "a\r\nb",
    "\u00a0",
    "\u2028",
    "\u2029",
    "\u0085",
    "\ufeff",
]
SHELL = [
    "*",
    "?",
    "$HOME",
    "`id`",
    "$(id)",
    ";",
    "|",
    "&",
    "<",
    ">",
    '"',
    "'",
    "!",
    "#",
    "{}",
    "[]",
    "()",
    "^",
    "=",
    "@",
]
CONTROLS = [f"a{chr(n)}b" for n in (*range(32), *range(127, 160))]
INVISIBLE = [
    f"a{chr(n)}b" for n in (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xAD)
]
LETTERS = [
    "é",
    "e\u0301",
    "а",
    "ａ",
    "١",
    "²",
    "ß",
    "İ",
    "ſ",
    "😀",
    "\ud800",
    "\udcff",
    "研究",
    "\U000e0041",
    "\ufffd",
]
LONG = ["a" * 241, "a" * 300, "a" * 5000, "-" * 241, "a." * 200]
HOSTILE = list(
    dict.fromkeys(
        STEPS + SEPARATORS + ESCAPES + DOTS + DEVICES + DRIVES + SPACES + SHELL
        + CONTROLS + INVISIBLE + LETTERS + LONG
    )
)  # fmt: skip


def accepted(kind: IdType, text: str) -> str | None:
    try:
        return kind(text)
    except InvalidId:
        return None


def escapes(name: str) -> list[PurePath]:
    """The paths made of ``name`` that are not directly in their directory, on either kind of system."""
    joined = [
        (base, base / part) for base in DIRECTORIES for part in (name, f"{name}.jsonl", f"agent-{name}.jsonl")
    ]
    return [path for base, path in joined if path.parent != base or ".." in path.parts]


@pytest.mark.parametrize("kind", TYPES)
def test_every_hostile_name_is_refused(kind: IdType) -> None:
    """Steps up, separators in any script, escapes, devices, drives, controls, look-alikes, long names."""
    assert len(HOSTILE) >= 200
    assert [] == [text for text in HOSTILE if accepted(kind, text) is not None]


@given(st.sampled_from(TYPES), st.text(st.characters(exclude_categories=())))
def test_an_accepted_name_stays_in_its_directory(kind: IdType, text: str) -> None:
    """Any text at all: refused with InvalidId, or a plain component of a path."""
    name = accepted(kind, text)

    assert name is None or (name == text and escapes(name) == [])


@given(st.sampled_from(TYPES), st.text("aZ09-_.", min_size=1, max_size=250))
def test_an_accepted_name_of_safe_characters_stays_in_its_directory(kind: IdType, text: str) -> None:
    """The characters alone do not decide: dots at the end or in a row are refused."""
    name = accepted(kind, text)

    assert name is None or escapes(name) == []


def test_hostile_pieces_in_any_combination_stay_in_their_directory() -> None:
    """20,000 names put together from hostile and harmless pieces, each as all four types."""
    pieces = [*HOSTILE, "a", "3f2a9c1e", "-", "_", ".", "com", "1", "jsonl", "agent-"]
    chance = random.Random(20260131)
    names = ["".join(chance.choices(pieces, k=chance.randint(1, 3))) for _ in range(20_000)]

    kept = [name for text in names for kind in TYPES if (name := accepted(kind, text)) is not None]

    assert [] == [name for name in kept if escapes(name)]
    assert len(kept) > 100


def test_real_names_are_accepted() -> None:
    """What clients of every version, and the flat layout, call their files."""
    assert SessionId("0b5e9c3a-1f2d-4e5f-8a9b-0c1d2e3f4a5b").is_uuid
    assert not SessionId("2025-11-16").is_uuid
    assert ["024fb80", "a1407db69709a6f72", "test-hash-123"] == [
        AgentId("024fb80"),
        AgentId("a1407db69709a6f72"),
        AgentId("test-hash-123"),
    ]
    assert "-tmp-demo-w-git-repo-sub-dir-1-x" == ProjectKey("-tmp-demo-w-git-repo-sub-dir-1-x")


def test_an_upper_case_uuid_is_not_one_to_the_client() -> None:
    """The client compares ids case-sensitively and writes lower case."""
    lower = "0b5e9c3a-1f2d-4e5f-8a9b-0c1d2e3f4a5b"

    assert [True, False, False] == [is_uuid(lower), is_uuid(lower.upper()), is_uuid(lower + "\n")]


def test_sessions_of_one_minute_can_be_told_apart_by_their_short_names() -> None:
    """Ids of version 7 begin with the time: eight characters are those of every session of about a minute."""
    one, other = "01a1e394-fe4b-76d3-b40a-90bd3af77600", "01a1e394-f0ab-7c11-8f44-2b3c4d5e6f70"
    assert short_id(one) == "01a1e394-fe4b" != short_id(other)
    assert short_id("6ada00ba-1111-4111-8111-111111111111") == "6ada00ba"
    assert (short_id("notes"), short_id("")) == ("notes", "")
