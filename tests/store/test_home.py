"""A Claude home as others left it: every file found, nothing raised, nothing changed.

Counts of the sample homes were taken with ``find``; what ``--continue`` takes was measured with client 2.1.325.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.errors import InvalidId
from recollect.model.lines.ids import EntryId, ProjectKey, SessionId
from recollect.model.project_key import project_key
from recollect.store.home import ClaudeHome, LogContent, ProjectDir

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
THREE = "33333333-3333-4333-8333-333333333333"
TIME = "2026-01-31T10:00:00.000Z"


def line(kind: str = "user", **fields: object) -> bytes:
    return json.dumps({"type": kind, **fields}).encode() + b"\n"


def message(kind: str = "user", **fields: object) -> bytes:
    return line(kind, **{"uuid": "u", "timestamp": TIME, "message": {"content": "x"}, **fields})


def write(path: Path, *lines: bytes, at: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    if at is not None:
        os.utime(path, ns=(at * 10**9, at * 10**9))
    return path


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    """An empty home."""
    (tmp_path / ".claude").mkdir()
    return ClaudeHome(tmp_path / ".claude")


@pytest.fixture
def workdir(tmp_path: Path) -> str:
    """A working directory without links on the way to it."""
    (tmp_path / "work").mkdir()
    return os.path.realpath(tmp_path / "work")


def project(home: ClaudeHome, name: str = "-srv") -> ProjectDir:
    path = home.projects_dir / name
    path.mkdir(parents=True, exist_ok=True)
    return ProjectDir(ProjectKey(name), name, path)


def reasons(home: ClaudeHome) -> dict[str, str]:
    return {problem.path.name: problem.reason for problem in home.problems}


class TestPaths:
    def test_every_path_is_where_format_md_says(self) -> None:
        """The layout of docs/design/format.md, one path each."""
        home, key, session = ClaudeHome(Path("/h")), ProjectKey("-srv"), SessionId(ONE)

        assert [
            f"/h/projects/-srv/{ONE}.jsonl",
            f"/h/file-history/{ONE}",
            f"/h/tasks/{ONE}",
            f"/h/session-env/{ONE}",
            "/h/plans/three-word-slug.md",
            "/h/paste-cache/6c07d7fed8c0ae12.txt",
            "/h/todos",
            "/h/settings.json",
            "/h/history.jsonl",
            "/h/statsig",
            "/h/backups",
            "/h/sessions",
        ] == [
            path.as_posix()
            for path in (
                home.session_log(key, session),
                home.file_history_dir(session),
                home.tasks_dir(session),
                home.session_env_dir(session),
                home.plan_file(EntryId("three-word-slug")),
                home.paste_file(EntryId("6c07d7fed8c0ae12")),
                home.todos_dir,
                home.settings_file,
                home.history_file,
                home.statsig_dir,
                home.backups_dir,
                home.live_dir,
            )
        ]

    def test_side_files_lie_beside_their_log(self, home: ClaudeHome) -> None:
        """Sub-agents, tool results and title file in the directory named as the session; memory per project."""
        srv = project(home)
        write(srv.log(SessionId(ONE)))

        (session,) = home.sessions(srv)

        assert [srv.path / ONE / name for name in ("subagents", "tool-results", "custom-title.json")] == [
            session.subagents,
            session.tool_results,
            session.custom_title,
        ]
        assert srv.path / "memory" == srv.memory

    def test_a_name_that_is_no_id_builds_no_path(self, home: ClaudeHome) -> None:
        """Even when the type checker was not asked."""
        untyped: Callable[..., Path] = home.session_log

        with pytest.raises(InvalidId):
            untyped("-srv", "../../x")


class TestListing:
    def test_a_home_that_is_not_there_is_empty(self, tmp_path: Path) -> None:
        """No directory, no problem."""
        home = ClaudeHome(tmp_path / "none")

        found = [*home.projects(), *home.sessions(), *home.todos(), *home.task_lists(), *home.live_markers()]

        assert ([], [], (0, 0, 0)) == (found, home.problems, tuple_of(home))

    def test_weird_names_are_kept_without_an_id(self, home: ClaudeHome) -> None:
        """They can be read by path; the client would not list them."""
        directory = project(home).path
        for name in ("with space.jsonl", "2025-11-16.jsonl", ".hidden.jsonl", f"{ONE.upper()}a.jsonl"):
            write(directory / name)
        os.mkdir(os.fsencode(home.projects_dir) + b"/-\xff")
        write(Path(os.fsdecode(os.fsencode(home.projects_dir) + b"/-\xff/x\xfe.jsonl")))

        found = {ascii(session.path.stem): (session.id, session.is_uuid) for session in home.sessions()}

        assert {
            "'with space'": (None, False),
            "'2025-11-16'": ("2025-11-16", False),
            "'.hidden'": (None, False),
            f"'{ONE.upper()}a'": (f"{ONE.upper()}a", False),
            "'x\\udcfe'": (None, False),
        } == found
        assert {"-srv": "-srv", "-\udcff": None} == {found.name: found.key for found in home.projects()}

    @pytest.mark.no_root
    def test_a_directory_that_may_be_listed_but_not_entered_is_a_problem(self, home: ClaudeHome) -> None:
        """Its names are visible, its files are not."""
        srv = project(home)
        write(srv.log(SessionId(ONE)))
        srv.path.chmod(0o400)
        try:
            assert ([], {f"{ONE}.jsonl": "Permission denied"}) == (list(home.sessions()), reasons(home))
        finally:
            srv.path.chmod(0o700)

    def test_a_linked_log_is_read_through_and_keeps_its_name(self, home: ClaudeHome, tmp_path: Path) -> None:
        """A link stays a link; one that leads nowhere is a problem."""
        srv = project(home)
        write(tmp_path / "elsewhere", message(cwd="/srv"))
        srv.log(SessionId(ONE)).symlink_to(tmp_path / "elsewhere")
        srv.log(SessionId(TWO)).symlink_to(tmp_path / "nowhere")

        (session,) = home.sessions()

        assert (srv.log(SessionId(ONE)), "/srv") == (session.path, session.first_cwd())
        assert {f"{TWO}.jsonl": "link to a missing file"} == reasons(home)

    def test_a_linked_project_is_listed_once(self, home: ClaudeHome, tmp_path: Path) -> None:
        """A second name of a listed directory adds nothing; a directory elsewhere is followed."""
        write(project(home, "-real").log(SessionId(ONE)))
        write(tmp_path / "outside" / f"{TWO}.jsonl")
        (home.projects_dir / "-alias").symlink_to("-real")
        (home.projects_dir / "-moved").symlink_to(tmp_path / "outside")

        assert [("-real", False), ("-moved", True)] == [(p.name, p.is_link) for p in home.projects()]
        assert {ONE, TWO} == {session.id for session in home.sessions()}

    def test_links_that_lead_in_circles_end(self, home: ClaudeHome) -> None:
        """To themselves, to the listing, to above it: none is followed."""
        nested = project(home).path / ONE / "subagents"
        write(nested / "agent-a1.jsonl")
        (nested / "again").symlink_to(nested)
        (home.projects_dir / "-self").symlink_to("-self")
        (home.projects_dir / "-all").symlink_to(".")
        (home.projects_dir / "-up").symlink_to("..")
        write(home.history_file)

        assert (1, 0, 1) == tuple_of(home)
        assert {"-self", "-all", "-up"} == set(reasons(home))

    def test_two_names_of_one_log_count_once(self, home: ClaudeHome) -> None:
        """A hard link or a link to another project's log adds no bytes."""
        log = write(project(home, "-a").log(SessionId(ONE)), b"12345")
        os.link(log, project(home, "-b").log(SessionId(ONE)))
        project(home, "-c").log(SessionId(ONE)).symlink_to(log)

        assert (3, 1, 0) == tuple_of(home)


class TestAgents:
    def test_both_layouts_belong_to_their_session(self, home: ClaudeHome) -> None:
        """Nested by directory, workflows included; flat by the session id in the first entry."""
        srv = project(home)
        write(srv.log(SessionId(ONE)))
        write(srv.path / "agent-024fb80.jsonl", message(sessionId=ONE))
        write(srv.path / "agent-9999999.jsonl", message(sessionId=TWO))
        write(srv.path / ONE / "subagents" / "agent-a1.jsonl")
        meta = write(srv.path / ONE / "subagents" / "agent-a1.meta.json", b"{}")
        write(srv.path / ONE / "subagents" / "workflows" / "run" / "agent-a2.jsonl")

        (session,) = home.sessions(srv)

        assert [
            ("a1", "nested", ONE, meta),
            ("a2", "nested", ONE, None),
            ("024fb80", "flat", ONE, None),
        ] == [(a.agent_id, a.layout, a.owner(), a.meta_path) for a in home.agents(session)]

    def test_agents_of_a_deleted_session_are_still_in_their_project(self, home: ClaudeHome) -> None:
        """Their usage counts although the session's log is gone."""
        srv = project(home)
        write(srv.path / TWO / "subagents" / "agent-a1.jsonl")

        assert [("a1", TWO)] == [(agent.agent_id, agent.owner()) for agent in home.project_agents(srv)]

    def test_a_side_directory_may_be_a_link(self, home: ClaudeHome, tmp_path: Path) -> None:
        """Session by session and project by project the same agents are found."""
        srv = project(home)
        write(srv.log(SessionId(ONE)))
        write(tmp_path / "big disk" / "subagents" / "agent-a1.jsonl")
        (srv.path / ONE).symlink_to(tmp_path / "big disk")
        (session,) = home.sessions(srv)

        assert ["a1"] == [agent.agent_id for agent in home.agents(session)]
        assert list(home.agents(session)) == list(home.project_agents(srv))

    @pytest.mark.parametrize("head", [b"", b"garbage\n", message(sessionId=7), message(sessionId="../x")])
    def test_an_agent_whose_owner_cannot_be_known_has_none(self, home: ClaudeHome, head: bytes) -> None:
        """Empty, damaged, of a strange shape, or hostile."""
        srv = project(home)
        write(srv.path / "agent-.jsonl", head)

        (agent,) = home.project_agents(srv)

        assert (None, None) == (agent.agent_id, agent.owner())

    def test_a_thousand_directories_inside_one_another_end(self) -> None:
        """Depth is bounded by the system's path length, not by our stack.

        Outside the runner's own directory: what a killed run left there, the clean-up of every later run would try to
        remove, and fail, because it cannot go this deep.
        """
        top = Path(tempfile.mkdtemp())
        home = ClaudeHome(top)
        srv = project(home)
        levels = [srv.path / ONE / "subagents"]
        levels += [levels[0] / "/".join("d" * depth) for depth in range(1, 1200)]
        try:
            (srv.path / ONE).mkdir()
            for directory in levels:
                directory.mkdir()
            write(levels[-1] / "agent-a1.jsonl")

            assert ["a1"] == [agent.agent_id for agent in home.project_agents(srv)]
        finally:
            subprocess.run(["rm", "-r", str(top)], check=True)


class TestTodosAndTasks:
    def test_todo_names_hold_session_and_agent(self, home: ClaudeHome) -> None:
        """The main agent's list has the session's id twice; other names are listed without ids."""
        for name in (f"{ONE}-agent-{ONE}", f"{ONE}-agent-a1", f"{TWO}", "x y"):
            write(home.todos_dir / f"{name}.json", b"[]")

        assert [(ONE, ONE), (ONE, "a1"), (TWO, None), (None, None)] == [
            (todo.session, todo.agent) for todo in home.todos()
        ]

    def test_tasks_come_in_the_order_of_their_numbers(self, home: ClaudeHome) -> None:
        """Ten after nine, names that are no number last, the lock not at all."""
        for name in ("10.json", "9.json", "1.json", "x.json", ".lock"):
            write(home.tasks_dir(SessionId(ONE)) / name, b"{}")

        assert [1, 9, 10, None] == [task.number for task in home.tasks(SessionId(ONE))]
        assert [ONE] == list(home.task_lists())


class TestWorkingDirectory:
    def test_sessions_that_share_a_directory_are_told_apart_by_their_cwd(self, home: ClaudeHome) -> None:
        """Goal H6: /srv/a-b, /srv/a.b and /srv/a/b have one key, and three sessions."""
        cwds = {ONE: "/srv/a-b", TWO: "/srv/a.b", THREE: "/srv/a/b"}
        for session, cwd in cwds.items():
            write(project(home, "-srv-a-b").log(SessionId(session)), line("mode"), message(cwd=cwd))

        (transcripts,) = home.projects()

        assert cwds == {session.id: session.first_cwd() for session in home.sessions(transcripts)}

    @pytest.mark.parametrize(
        "content", [b"", b"garbage\n", line("summary"), message(cwd=""), message(cwd=["/"])]
    )
    def test_a_log_that_names_no_directory_has_none(self, home: ClaudeHome, content: bytes) -> None:
        """Empty, damaged, only a title, or of a strange shape."""
        write(project(home).log(SessionId(ONE)), content)

        assert [None] == [session.first_cwd() for session in home.sessions()]


NOT_TAKEN = {
    "sub-agent lines only": [message(isSidechain=True), message("assistant", isSidechain=True)],
    "metadata only": [line("summary", summary="x"), line("custom-title"), line("mode", timestamp=TIME)],
    "garbage": [b"not json\n", b"null\n", b"[]\n", b"\0\0\n", b"\n"],
    "a torn line": [message()[:-9]],
}
TAKEN_EMPTY = {
    LogContent.EMPTY: [],
    LogContent.NO_TIMESTAMPS: [
        message(timestamp=None),
        message(timestamp="yesterday"),
        message(isSidechain=True),
    ],
}


class TestLatest:
    """``claude --continue`` as measured on 2.1.325."""

    @pytest.fixture
    def own(self, home: ClaudeHome, workdir: str) -> ProjectDir:
        """The project of the working directory, with one ordinary session of middling age."""
        own = project(home, project_key(workdir))
        write(own.log(SessionId(ONE)), line("mode"), message(cwd="/elsewhere"), at=2000)
        return own

    def test_the_newest_file_wins_whatever_its_entries_say(
        self, home: ClaudeHome, workdir: str, own: ProjectDir
    ) -> None:
        """File time decides, not the entries' timestamps."""
        write(own.log(SessionId(TWO)), message(timestamp="1999-01-01T00:00:00Z"), at=3000)
        write(own.log(SessionId(THREE)), message(timestamp="2099-01-01T00:00:00Z"), at=1000)

        latest = home.latest_session(workdir)

        assert latest is not None
        assert (TWO, LogContent.CONVERSATION, False) == (latest.file.id, latest.content, latest.empty)

    @pytest.mark.parametrize("name", ["agent-024fb80", "notes", TWO.upper().replace("2", "A"), "2025-11-16"])
    def test_a_newer_file_of_another_name_is_passed_over(
        self, home: ClaudeHome, workdir: str, own: ProjectDir, name: str
    ) -> None:
        """Sub-agents, and whatever is no lower-case UUID."""
        write(own.path / f"{name}.jsonl", message(), at=3000)

        assert ONE == latest_id(home, workdir)

    @pytest.mark.parametrize("lines", NOT_TAKEN.values(), ids=NOT_TAKEN.keys())
    def test_a_newer_log_without_a_conversation_is_passed_over(
        self, home: ClaudeHome, workdir: str, own: ProjectDir, lines: list[bytes]
    ) -> None:
        """Sidechains, metadata, garbage."""
        write(own.log(SessionId(TWO)), *lines, at=3000)

        assert ONE == latest_id(home, workdir)

    @pytest.mark.parametrize(("is_there", "expected"), [(True, ONE), (False, TWO)])
    def test_a_newer_log_of_a_directory_with_the_same_key_is_passed_over(
        self, home: ClaudeHome, workdir: str, own: ProjectDir, is_there: bool, expected: str
    ) -> None:
        """``/a-b`` and ``/a/b`` share a folder; once the neighbour is gone, its sessions count as moved here."""
        twin = Path(f"{Path(workdir).parent}-{Path(workdir).name}")
        if is_there:
            twin.mkdir()
        write(own.log(SessionId(TWO)), message(cwd=str(twin)), at=3000)

        assert expected == latest_id(home, workdir)

    @pytest.mark.parametrize(
        ("content", "lines"), TAKEN_EMPTY.items(), ids=lambda value: getattr(value, "name", "")
    )
    def test_a_newer_log_that_yields_nothing_is_taken_and_reported(
        self, home: ClaudeHome, workdir: str, own: ProjectDir, content: LogContent, lines: list[bytes]
    ) -> None:
        """The client takes an empty file, or one without timestamps, and silently starts with no history."""
        write(own.log(SessionId(TWO)), *lines, at=3000)

        latest = home.latest_session(workdir)

        assert latest is not None
        assert (TWO, content, True) == (latest.file.id, latest.content, latest.empty)

    @pytest.mark.parametrize(
        "first",
        [
            message(isSidechain=True),
            message(timestamp=None),
            line("api-request-blob", data="x" * 9999),
            b"broken\n",
        ],
    )
    def test_a_conversation_counts_wherever_it_starts(
        self, home: ClaudeHome, workdir: str, own: ProjectDir, first: bytes
    ) -> None:
        """Behind sidechains, lines without time, metadata and damage."""
        write(own.log(SessionId(TWO)), first, message("assistant"), at=3000)

        latest = home.latest_session(workdir)

        assert latest is not None
        assert (TWO, LogContent.CONVERSATION) == (latest.file.id, latest.content)

    def test_the_sdks_directory_is_unknown_to_the_client(self, home: ClaudeHome, workdir: str) -> None:
        """A session that only the SDK's key leads to is not continued."""
        cwd, composed = workdir + "/e\u0301", workdir + "/\u00e9"
        write(project(home, project_key(composed)).log(SessionId(ONE)), message())

        assert None is latest_id(home, cwd)

    def test_another_hash_is_looked_at_only_where_the_right_one_is_missing(self, home: ClaudeHome) -> None:
        """Long paths: the exact directory, else those with the same beginning."""
        cwd = "/nowhere/" + "a" * 250
        key = project_key(cwd)
        write(project(home, key[:200] + "-0other").log(SessionId(ONE)), message(), at=3000)
        before = latest_id(home, cwd)
        write(project(home, key).log(SessionId(TWO)), message(), at=2000)

        assert (ONE, TWO) == (before, latest_id(home, cwd))

    def test_a_log_that_cannot_be_opened_is_passed_over(
        self, home: ClaudeHome, workdir: str, own: ProjectDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And named as a problem."""
        write(own.log(SessionId(TWO)), message(), at=3000)
        real = os.open

        def guarded(path: Path, flags: int) -> int:
            if path.stem == TWO:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, flags)

        monkeypatch.setattr(os, "open", guarded)

        assert (ONE, {f"{TWO}.jsonl": "Permission denied"}) == (latest_id(home, workdir), reasons(home))


class TestRealHomes:
    """The homes that seven real clients wrote."""

    @pytest.fixture
    def all_homes(self, log_homes: Path) -> dict[str, ClaudeHome]:
        """Made ones, too."""
        return {p.parent.name: ClaudeHome(p) for p in sorted(log_homes.glob("samples/claude-home/*/.claude"))}

    @pytest.fixture
    def homes(self, transcripts: Path) -> dict[str, ClaudeHome]:
        """One home per client version and mode."""
        return {
            p.parent.name: ClaudeHome(p) for p in sorted(transcripts.glob("samples/claude-home/*/.claude"))
        }

    def test_every_project_directory_is_named_by_our_key(self, all_homes: dict[str, ClaudeHome]) -> None:
        """Each is named as its sessions' working directory demands."""
        names = {
            (home.root, directory.name): {
                project_key(cwd)
                for log in (*home.sessions(directory), *home.project_agents(directory))
                if (cwd := log.first_cwd()) is not None
            }
            for home in all_homes.values()
            for directory in home.projects()
        }

        assert len(names) > 5
        assert {name: {name[1]} for name in names} == names

    def test_every_sub_agent_belongs_to_a_session_of_its_project(
        self, all_homes: dict[str, ClaudeHome]
    ) -> None:
        """Asking session by session finds each agent whose session has a log, and no other."""
        by_session = {a.path for h in all_homes.values() for s in h.sessions() for a in h.agents(s)}
        by_project = {
            agent.path
            for home in all_homes.values()
            for directory in home.projects()
            for ids in [{session.id for session in home.sessions(directory)}]
            for agent in home.project_agents(directory)
            if agent.owner() in ids
        }

        assert by_project == by_session
        assert len(by_session) > 5

    def test_no_real_home_has_a_problem(self, homes: dict[str, ClaudeHome]) -> None:
        """239 sessions and 169 agents over all versions, and nothing unreadable."""
        totals = [tuple_of(home) for home in homes.values()]

        assert (239, 169) == (sum(t[1] for t in totals), sum(t[2] for t in totals))
        assert [] == [problem for home in homes.values() for problem in home.problems]


def latest_id(home: ClaudeHome, cwd: str) -> str | None:
    latest = home.latest_session(cwd)
    return latest.file.id if latest else None


def tuple_of(home: ClaudeHome) -> tuple[int, int, int]:
    """How many projects, sessions and logs of sub-agents there are; a log with two names counts once."""
    logs = (
        [*home.sessions()],
        [agent for project in home.projects() for agent in home.project_agents(project)],
    )
    seen: set[tuple[int, int]] = set()
    counts = []
    for some in logs:
        new = {(one.device, one.inode) for one in some} - seen
        seen |= new
        counts.append(len(new))
    return (len([*home.projects()]), counts[0], counts[1])
