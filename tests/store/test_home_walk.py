"""One walk finds what ``ClaudeHome`` lists: the same logs, sessions, agents and complaints, on any tree.

``ClaudeHome`` is the reference; it is tested by itself against docs/design/format.md and real homes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.store.home import AgentFile, ClaudeHome, SessionFile
from recollect.store.home_walk import FoundLog, scan_logs
from tests.memory import memory

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"

# What a directory may hold: a file of some size, a link, a pipe, or a directory.
Node = int | str | None | dict[str, "Node"]

NAMES = st.sampled_from(
    [
        "-srv",
        "-srv-app",
        ONE,
        TWO,
        f"{ONE}.jsonl",
        f"{TWO}.jsonl",
        "agent-a1.jsonl",
        "agent-a2.jsonl",
        "agent-.jsonl",
        "agent-a1.meta.json",
        "agent-x",
        ".jsonl",
        "plan.jsonl.bak",
        "a name with\nnewline.jsonl",
        "ünïcode.jsonl",
        "bad\udcff.jsonl",
        "subagents",
        "tool-results",
        "workflows",
        "folder.json",
        "folder.jsonl",
        "memory",
        "closed",
        "out.txt",
    ]
)
LINKS = st.sampled_from(
    [
        ".",
        "..",
        "../..",
        "../../..",
        "nowhere",
        "loop",
        f"{ONE}.jsonl",
        f"../-srv/{ONE}.jsonl",
        f"../-srv-app/{TWO}.jsonl",
        "../-srv",
        f"../-srv/{ONE}",
        f"{ONE}/subagents",
        "OUTSIDE",
        "OUTSIDE/agent-o.jsonl",
        f"OUTSIDE/{TWO}.jsonl",
    ]
)
LEAVES: st.SearchStrategy[Node] = st.one_of(st.integers(0, 9), LINKS, st.none())
NODES: st.SearchStrategy[Node] = st.recursive(
    LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=6), max_leaves=25
)
SIDES = st.dictionaries(st.sampled_from(["subagents", "tool-results"]) | NAMES, NODES, max_size=4)
PROJECTS = st.dictionaries(NAMES, st.one_of(LEAVES, SIDES), max_size=8)
TREES = st.dictionaries(NAMES, st.one_of(NODES, PROJECTS, PROJECTS), max_size=6)


def build(place: Path, tree: dict[str, Node], outside: Path) -> None:
    """Make the tree on disk; a name the system refuses is left out."""
    place.mkdir(exist_ok=True)
    for name, node in tree.items():
        path = place / name
        if isinstance(node, dict):
            build(path, node, outside)
        elif isinstance(node, str):
            path.symlink_to(node.replace("OUTSIDE", str(outside)))
        elif node is None:
            os.mkfifo(path)
        else:
            path.write_bytes(b"x" * node)


@contextmanager
def closed_directories() -> Iterator[None]:
    """Directories named ``closed`` cannot be listed, for root neither."""
    listed = os.scandir

    def guarded(path: str) -> object:
        if "closed" in Path(path).parts:
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    with mock.patch("os.scandir", guarded):
        yield


Row = tuple[str, str, str | None, str | None, int, int, int, int]


def by_home(root: Path) -> tuple[list[Row], set[str]]:
    """Every log ``ClaudeHome`` lists, and what it could not read."""
    home = ClaudeHome(root)
    rows: list[Row] = []
    for project in home.projects():
        rows += [_row(file) for file in home.sessions(project)]
        rows += [_row(file) for file in home.project_agents(project)]
    return rows, {str(problem.path) for problem in home.problems}


def _row(file: SessionFile | AgentFile) -> Row:
    place = (file.device, file.inode, file.size, file.mtime_ns)
    if isinstance(file, SessionFile):
        return (str(file.path), "session", file.path.name.removesuffix(".jsonl"), None, *place)
    # The directory's own name, also where it is no id: ``ClaudeHome`` gives None for those.
    session = None
    if file.layout == "nested":
        session = file.path.parts[file.path.parts.index("projects") + 2]
    name = file.path.name.removesuffix(".jsonl").removeprefix("agent-")
    return (str(file.path), "agent", session, name, *place)


def identity(row: Row) -> tuple[int, int]:
    return row[4], row[5]


@given(TREES)
@example({"-srv": "/"})
@example({"-srv": {ONE: {"subagents": {"folder.json": {"agent-a1.jsonl": 1}}}}})
@example({"-srv": {ONE: {"subagents": "OUTSIDE"}}})
@example({"-srv": {ONE: "loop"}, "loop": "loop"})
@example({"tool-results": {"-srv": "..", f"{TWO}.jsonl": 0}})
@example({"subagents": {"-srv": "..", f"{TWO}.jsonl": 0}})
def test_one_walk_finds_what_the_home_lists(tree: dict[str, Node]) -> None:
    """Links, pipes, odd names, closed directories: the same logs, each with the same session, agent and state.

    A file that several names lead to is listed once, under one of them.
    """
    with tempfile.TemporaryDirectory(dir=memory()) as base, closed_directories():
        outside = Path(base, "outside")
        build(outside, {"agent-o.jsonl": 1, f"{TWO}.jsonl": 2, "more": {"agent-p.jsonl": 3}}, outside)
        # Deep enough that no link above leads out of our own directory.
        root = Path(base, "1", "2", "3", "home")
        root.parent.mkdir(parents=True)
        build(root, {"projects": tree}, outside)
        problems: list[tuple[str, str]] = []

        found = [tuple(log) for log in scan_logs(root, problems) if log.role != "tool-output"]
        expected, complaints = by_home(root)

    assert {identity(row) for row in expected} == {(row[4], row[5]) for row in found}
    assert len(found) == len({(row[4], row[5]) for row in found})
    assert set(found) <= set(expected)
    # ``ClaudeHome`` lists no tool results, so it has nothing to say of them.
    said = {path for path, _ in problems if Path(path).parts[len(root.parts) + 3 :][:1] != ("tool-results",)}
    assert complaints == said


def write(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(found: list[FoundLog], root: Path) -> list[tuple[str, str, str | None, str | None]]:
    return sorted(
        (str(Path(log.path).relative_to(root / "projects")), log.role, log.session, log.agent)
        for log in found
    )


def test_every_kind_of_log_is_found_where_format_md_says(tmp_path: Path) -> None:
    """Sessions, agents flat and nested however deep, and tool results; nothing else."""
    for name in (
        f"-srv/{ONE}.jsonl",
        "-srv/agent-a1.jsonl",
        f"-srv/{ONE}/subagents/agent-a2.jsonl",
        f"-srv/{ONE}/subagents/agent-a2.meta.json",
        f"-srv/{ONE}/subagents/workflows/run/agent-a3.jsonl",
        f"-srv/{ONE}/subagents/notes.jsonl",
        f"-srv/{ONE}/tool-results/out.txt",
        f"-srv/{ONE}/custom-title.json",
        "-srv/memory/note.md",
        "loose.jsonl",
    ):
        write(tmp_path / "projects" / name)

    found = scan_logs(tmp_path)

    assert [
        (f"-srv/{ONE}.jsonl", "session", ONE, None),
        (f"-srv/{ONE}/subagents/agent-a2.jsonl", "agent", ONE, "a2"),
        (f"-srv/{ONE}/subagents/workflows/run/agent-a3.jsonl", "agent", ONE, "a3"),
        (f"-srv/{ONE}/tool-results/out.txt", "tool-output", ONE, None),
        ("-srv/agent-a1.jsonl", "agent", None, "a1"),
    ] == names(found, tmp_path)


def test_a_log_is_listed_with_what_the_system_says_of_it(tmp_path: Path) -> None:
    """Device, inode, size and time to the nanosecond: what a refresh compares."""
    log = write(tmp_path / "projects" / "-srv" / f"{ONE}.jsonl", b"12345")
    os.utime(log, ns=(1, 1_234_567_890_123_456_789))
    state = log.stat()

    (found,) = scan_logs(tmp_path)

    assert (state.st_dev, state.st_ino, 5, 1_234_567_890_123_456_789) == found[4:]


def test_a_log_with_two_names_is_found_once(tmp_path: Path) -> None:
    """A hard link and a link are no second log: nothing may be counted twice."""
    log = write(tmp_path / "projects" / "-a" / f"{ONE}.jsonl")
    (tmp_path / "projects" / "-b").mkdir()
    os.link(log, tmp_path / "projects" / "-b" / f"{TWO}.jsonl")
    (tmp_path / "projects" / "-b" / "linked.jsonl").symlink_to(log)

    assert [(f"-a/{ONE}.jsonl", "session", ONE, None)] == names(scan_logs(tmp_path), tmp_path)


def test_a_result_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """A tool's output may be planted: a link there could lead to any file of the machine."""
    results = tmp_path / "projects" / "-srv" / ONE / "tool-results"
    results.mkdir(parents=True)
    (results / "out.txt").symlink_to(write(tmp_path / "secret"))
    problems: list[tuple[str, str]] = []

    assert ([], [(str(results / "out.txt"), "not a regular file")]) == (
        scan_logs(tmp_path, problems),
        problems,
    )


@pytest.mark.parametrize("name", ["subagents", "tool-results"])
def test_a_linked_side_directory_is_said_and_not_walked(name: str, tmp_path: Path) -> None:
    """It could lead to the root of the file system, at every question."""
    side = tmp_path / "projects" / "-srv" / ONE
    side.mkdir(parents=True)
    (side / name).symlink_to("/")
    problems: list[tuple[str, str]] = []

    found = scan_logs(tmp_path, problems)

    assert ([], [(str(side / name), "a link or a file in the place of a directory")]) == (found, problems)


def test_a_name_that_is_no_text_is_kept_as_the_system_has_it(tmp_path: Path) -> None:
    """The path opens the file, whatever bytes its name is made of."""
    name = os.fsdecode(b"\xff\xfe.jsonl")
    write(tmp_path / "projects" / "-srv" / name)

    (found,) = scan_logs(tmp_path)

    assert b"x" == Path(found.path).read_bytes()


def test_a_file_that_vanishes_during_the_walk_was_never_there(tmp_path: Path) -> None:
    """Between listing and looking the client may have cleaned up; that is no problem to speak of."""
    log = write(tmp_path / "projects" / "-srv" / f"{ONE}.jsonl")
    listed = os.scandir

    def racing(path: str) -> object:
        with listed(path) as entries:
            kept = list(entries)
        if Path(path).name == "-srv":
            log.unlink()
        return _Listing(kept)

    problems: list[tuple[str, str]] = []
    with mock.patch("os.scandir", racing):
        assert ([], []) == (scan_logs(tmp_path, problems), problems)


class _Listing:
    """The answer of scandir, kept."""

    def __init__(self, entries: list[os.DirEntry[str]]) -> None:
        self._entries = entries

    def __enter__(self) -> Iterator[os.DirEntry[str]]:
        return iter(self._entries)

    def __exit__(self, *_: object) -> None:
        return None


# Root may list anything, so it becomes nobody first.
AS_NOBODY = """
import os, sys
from pathlib import Path
from recollect.store.home_walk import scan_logs
if os.geteuid() == 0:
    os.setuid(65534)
problems = []
found = scan_logs(Path(sys.argv[1]), problems)
print([Path(log.path).name for log in found], [(Path(path).name, reason) for path, reason in problems])
"""


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes on Windows")
def test_a_closed_directory_is_said_and_hides_nothing_else(tmp_path: Path) -> None:
    """A project of another user costs itself and no other."""
    write(tmp_path / "projects" / "-closed" / f"{ONE}.jsonl")
    write(tmp_path / "projects" / "-open" / f"{TWO}.jsonl")
    (tmp_path / "projects" / "-closed").chmod(0)
    for place in (*tmp_path.parents, tmp_path):
        if place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o755)
    ran = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (f"['{TWO}.jsonl'] [('-closed', 'Permission denied')]\n", "") == (ran.stdout, ran.stderr)
