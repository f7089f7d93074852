"""The internals guide, section by section; docs/design/seeds.md has the table.

Its blocks are the data here, word for word. Where client and guide differ about a fact, the client counts;
shapes that only the guide has are ours to read and to serve.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import recollect
from recollect.change.settings.settings import loaded
from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.guard.mcp.servers import project_servers
from recollect.guard.permissions.engine import permit
from recollect.model.project_key import project_key
from recollect.share.sync.sync import session_of
from recollect.store.home import ClaudeHome
from recollect.system.locations import HomeRoot
from tests.guard.agent.workshop import Script, Workshop, call
from tests.guard.mcp.project import Project, hostile
from tests.share.sync.conftest import Team, team
from tests.share.sync.machines import repository
from tests.small_home import ONE, TALK, TWO, lines, prompt, put, reply, said

__all__ = ["team"]

# ---- 1. Storage layout -------------------------------------------------------------------------------------


def test_1_1_path_sanitization() -> None:
    """Every character outside letters and digits becomes a hyphen."""
    assert "-Users-alice-dev-backend-api" == project_key("/Users/alice/dev/backend-api")


def test_1_2_session_resolution(tmp_path: Path, own_home: Path) -> None:
    """The newest ``.jsonl`` by its time on disk, in the directory of the working directory's key."""
    home = own_home / ".claude"
    older, newer = put(home, ONE, TALK, str(tmp_path)), put(home, TWO, TALK, str(tmp_path))
    put(home, "7c1d9c1e-0000-4000-8000-000000000003", TALK, "/elsewhere")
    os.utime(newer, (2_000_000_000, 2_000_000_000))
    os.utime(older, (1_900_000_000, 1_900_000_000))

    latest = recollect.Home(home).latest(tmp_path)

    assert latest is not None
    assert TWO == latest.id


# ---- 2. File formats ---------------------------------------------------------------------------------------

COMMON = {"timestamp": "2026-01-15T10:00:00.000Z", "session_id": ONE}
EVENTS: list[dict[str, Any]] = [
    {"type": "user", "message": {"role": "user", "content": "List files in src/"}},
    {"type": "tool_use", "tool_use_id": "toolu_01", "name": "ls", "input": {"path": "src/"}},
    {"type": "tool_result", "tool_use_id": "toolu_01", "content": "index.ts\nutils.ts..."},
    {"type": "assistant", "message": {"role": "assistant", "content": "Two files."}},
    {"type": "system", "message": {"role": "system", "content": "Done"}},
]


@pytest.fixture
def events(tmp_path: Path) -> recollect.Session:
    """A session of the guide's events, each with its common fields."""
    entries = [{**event, **COMMON, "uuid": f"e{number}"} for number, event in enumerate(EVENTS)]
    path = tmp_path / "home" / "projects" / "-srv-app" / f"{ONE}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(entries))
    return recollect.Home(tmp_path / "home").session(ONE)


def test_2_1_session_logs_common_fields(events: recollect.Session) -> None:
    """Type, time, id and session of every event are read; none is damage."""
    entries = list(events.entries())

    assert [event["type"] for event in EVENTS] == [
        {"tool_call": "tool_use"}.get(entry.kind, entry.kind)
        for entry in entries
        if isinstance(entry, recollect.Entry)
    ]
    assert {(ONE, "2026-01-15T10:00:00+00:00")} == {
        (entry.session_id, entry.at.isoformat() if entry.at else "")
        for entry in entries
        if isinstance(entry, recollect.Entry)
    }
    assert [] == events.damage()


def test_2_1_event_types(events: recollect.Session) -> None:
    """The call knows its name and input, the result its call."""
    (made,) = events.tool_calls()

    assert ("ls", "toolu_01", {"path": "src/"}) == (made.name, made.id, json.loads(made.input))
    assert "index.ts\nutils.ts..." == made.text


# ---- 2.2 config.json ---------------------------------------------------------------------------------------


def config_of(directory: Path) -> dict[str, Any]:
    """A ``Config`` of the guide's interface, every field of it."""
    return {
        "userSettings": {
            "model": "claude-3-5-sonnet-20241022",
            "alwaysThinkingEnabled": True,
            "theme": "dark",
        },
        "projects": {
            str(directory): {
                "hasTrustDialogAccepted": True,
                "allowedTools": ["Bash(make:*)"],
                "mcpServers": {"sqlite": {"command": "docker", "args": ["run", "-i", "--rm", "mcp/sqlite"]}},
                "projectOnboardingSeenCount": 3,
            }
        },
    }


@pytest.fixture
def configured(tmp_path: Path, own_home: Path) -> tuple[ClaudeHome, Path]:
    """A home with a ``config.json``, and the project it is about."""
    project = (tmp_path / "app").resolve()
    project.mkdir()
    home = ClaudeHome(own_home / ".claude", own_home / ".claude.json")
    home.root.mkdir()
    (home.root / "config.json").write_text(json.dumps(config_of(project), indent=2))
    return home, project


def test_2_2_configuration_is_a_live_layer(configured: tuple[ClaudeHome, Path]) -> None:
    """User settings and rules are effective, with file and line, and a change counts at the next look."""
    home, project = configured

    found = loaded(home, project, managed=project / "none", with_config=True)

    assert ("claude-3-5-sonnet-20241022", True, "dark") == tuple(
        found.settings.value(name) for name in ("model", "alwaysThinkingEnabled", "theme")
    )
    (rule,) = found.settings.of("permissions", "allow")
    assert ("Bash(make:*)", "config", True) == (rule.value, rule.origin.scope, found.project.trusted)
    (home.root / "config.json").write_text('{"userSettings": {"theme": "light"}, "projects": {}}')
    again = loaded(home, project, managed=project / "none", with_config=True)
    assert ("light", None, False) == (
        again.settings.value("theme"),
        again.settings.value("model"),
        again.project.trusted,
    )


def test_2_2_configuration_is_the_weakest_layer(configured: tuple[ClaudeHome, Path]) -> None:
    """Any settings file is stronger; a wrong value is left out alone, and said."""
    home, project = configured
    home.settings_file.write_text('{"theme": "light"}')
    config = {"userSettings": {"theme": "dark", "alwaysThinkingEnabled": "yes", "model": "m"}}
    (home.root / "config.json").write_text(json.dumps(config))

    found = loaded(home, project, managed=project / "none", with_config=True)

    assert ("light", "m", None) == tuple(
        found.settings.value(name) for name in ("theme", "model", "alwaysThinkingEnabled")
    )
    assert ["alwaysThinkingEnabled"] == [problem.key for problem in found.problems]


def test_2_2_configuration_of_projects_counts_for_our_own_runs_only(
    configured: tuple[ClaudeHome, Path],
) -> None:
    """Our own runs use the rules; what tells how the client decides leaves them out, as no client reads them."""
    home, project = configured
    asked = ("Bash", {"command": "make test"})

    ours = permit(home, project, managed=project / "none", with_config=True).decide(*asked)
    clients = permit(home, project, managed=project / "none").decide(*asked)

    assert ("allow", "ask") == (ours.verdict, clients.verdict)
    assert ours.source is not None
    assert str(home.root / "config.json") == ours.source.path


def test_2_2_configuration_is_shown(
    configured: tuple[ClaudeHome, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """``settings show`` names the layer and the line."""
    home, project = configured

    assert 0 == main(["rules", "settings", "show", "theme", "--cwd", str(project), "--json"])

    (row,) = json.loads(capsys.readouterr().out)["values"]
    assert ("theme", "dark", "config", str(home.root / "config.json"), 5) == tuple(
        row[name] for name in ("key", "value", "scope", "file", "line")
    )


def test_2_2_configuration_names_servers(configured: tuple[ClaudeHome, Path], tmp_path: Path) -> None:
    """A project's servers are known, and not started before someone trusts them, whatever the file says."""
    home, project = configured
    config = home.root.with_name(".claude.json")

    known = project_servers(project, [HomeRoot(home.root, config, "test", True)], data=tmp_path)

    (server,) = known.servers
    assert ("sqlite", "untrusted", home.root / "config.json") == (server.name, server.state, server.source)


def test_2_2_configuration_trusts_only_by_a_plain_yes(configured: tuple[ClaudeHome, Path]) -> None:
    """A text or a number is not consent."""
    home, project = configured
    for value in ("true", 1, None):
        entry = {"hasTrustDialogAccepted": value}
        (home.root / "config.json").write_text(json.dumps({"projects": {str(project): entry}}))

        assert False is loaded(home, project, managed=project / "none", with_config=True).project.trusted


@pytest.mark.parametrize("text", ["{broken", "[]", '{"other": 1}', ""])
def test_2_2_another_config_json_changes_nothing(configured: tuple[ClaudeHome, Path], text: str) -> None:
    """Other programs have such a file too."""
    home, project = configured
    (home.root / "config.json").write_text(text)

    found = loaded(home, project, managed=project / "none", with_config=True)

    assert ((), False, []) == (found.settings.values, found.project.trusted, found.unreadable)


# ---- 3. Remote synchronization -----------------------------------------------------------------------------


def asked(
    team: Team, token: str, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, bytes]:
    """One request to the server, in the guide's terms."""
    connection = http.client.HTTPConnection(urlsplit(team.url).netloc, timeout=120)
    sent = {
        "Authorization": f"Bearer {token}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection.request(method, path, body or None, sent)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_3_1_egress(team: Team) -> None:
    """PUT with a bearer token, the organisation and ``Last-Uuid``: appended once, refused where another was faster."""
    token, path = team.token(), f"/v1/sessions/{ONE}/log"
    organization = json.loads(asked(team, token, "GET", "/v1/whoami")[1])["organization"]
    first, rest = lines(TALK[:1]), lines(TALK[1:])
    head = {"X_Organization_Uuid": organization}

    assert 200 == asked(team, token, "PUT", path, first, Last_Uuid="", **head)[0]
    assert 200 == asked(team, token, "PUT", path, rest, Last_Uuid=TALK[0]["uuid"], **head)[0]
    late = asked(team, token, "PUT", path, lines([prompt(9, 1, "late")]), Last_Uuid=TALK[0]["uuid"], **head)
    assert (409, first + rest) == (late[0], asked(team, token, "GET", path, **head)[1])
    assert 401 == asked(team, "rcl_wrong", "PUT", path, first, Last_Uuid="")[0]


def logged_in(team: Team, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token}\n"))
    assert 0 == main(["team", "login", team.url])


@pytest.fixture
def shared_session(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[str, Path, Path]:
    """A session that another machine pushed: its address, the repository here, and the home here."""
    token = team.token("Ada")
    there = repository(tmp_path / "alice" / "shop", "git@github.com:acme/shop.git")
    here = repository(tmp_path / "bob" / "shop-copy", "https://github.com/acme/shop")
    for machine in ("a", "b"):
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(name, str(tmp_path / machine / name.lower()))
        home = tmp_path / machine / "home" / ".claude"
        (home / "projects").mkdir(parents=True)
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
        logged_in(team, token, monkeypatch)
        if machine == "a":
            put(home, ONE, TALK, str(there))
            assert 0 == main(["team", "push"])
    put(home, TWO, TALK, str(here))
    capsys.readouterr()
    return f"{team.url}/v1/sessions/{ONE}", here, home


def test_3_2_ingress_lists_sessions(
    shared_session: tuple[str, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """GET /v1/sessions is what a pull reads; the history arrives byte for byte."""
    assert 0 == main(["team", "pull", "--json"])
    assert [ONE] == json.loads(capsys.readouterr().out)["sessions"]


def test_3_2_resume_via_url(shared_session: tuple[str, Path, Path], tmp_path: Path) -> None:
    """The session is fetched, installed for the repository's directory here, and the client continues it there."""
    url, here, home = shared_session
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\necho "$PWD|$*"\n')
    program.chmod(0o755)

    run = subprocess.run(
        [sys.executable, "-m", "recollect", "resume", url],
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stderr
    (log,) = home.glob(f"projects/*/{ONE}.jsonl")
    assert (0, f"{here}|--resume {ONE}\n") == (run.returncode, run.stdout), run.stderr
    assert "Undo with: recollect undo " in run.stderr
    assert ({str(here)}, 4) == (
        {json.loads(line)["cwd"] for line in log.read_bytes().splitlines()},
        len(log.read_bytes().splitlines()),
    )


def test_3_2_resume_via_url_only_printed(
    shared_session: tuple[str, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """--json fetches into our own store and says the command; the home stays as it is."""
    url, here, home = shared_session

    assert 0 == main(["resume", url, "--json"])

    document = json.loads(capsys.readouterr().out)
    assert (ONE, str(here), f"claude --resume {ONE}") == tuple(
        document[key] for key in ("session", "cwd", "command")
    )
    assert [] == list(home.glob(f"projects/*/{ONE}.jsonl"))


@pytest.mark.parametrize(
    ("url", "said_about"),
    [
        (f"https://evil.example/base/v1/sessions/{ONE}", "not the server you are logged in to"),
        (f"http://team.example/base/v1/sessions/{ONE}", "not the server you are logged in to"),
        (f"https://team.example/basement/v1/sessions/{ONE}", "not the server you are logged in to"),
        ("https://team.example/base/v1/sessions/", "names no single session"),
        (f"https://team.example/base/{ONE}/{TWO}", "names no single session"),
    ],
)
def test_3_2_resume_via_url_asks_no_other_server(url: str, said_about: str) -> None:
    """The token goes to the server of the login and nowhere else."""
    assert ONE == session_of(f"https://team.example/base/#/session/{ONE}", "https://team.example/base")
    with pytest.raises(UsageError, match=said_about):
        session_of(url, "https://team.example/base")


def test_3_2_resume_via_url_of_nothing(
    shared_session: tuple[str, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A session that is not there is not found: exit 3."""
    url, _, _ = shared_session

    assert 3 == main(["resume", url.replace(ONE, "00000000-0000-4000-8000-00000000000f")])
    assert "not on the server" in capsys.readouterr().err


# ---- 4. MCP ------------------------------------------------------------------------------------------------


def test_4_mcp_configuration(tmp_path: Path) -> None:
    """The guide's ``.mcp.json`` is read; nothing is started before it is trusted."""
    written = {"command": "docker", "args": ["run", "-i", "--rm", "mcp/sqlite"]}

    (server,) = Project(tmp_path, sqlite=written).known().servers

    assert ("sqlite", "untrusted") == (server.name, server.state)
    assert ("docker", ("run", "-i", "--rm", "mcp/sqlite")) == (
        getattr(server.config, "command", None),
        tuple(getattr(server.config, "args", ())),
    )


def test_4_mcp_host(tmp_path: Path) -> None:
    """A trusted server is a subprocess over stdio, and tool calls are passed on to it."""
    project = Project(tmp_path, one=hostile("fine")).trust()

    assert "hi" == project.ask(lambda host: host.call("mcp__one__echo", {"text": "hi"})).text


# ---- 5. Sub-agents -----------------------------------------------------------------------------------------


def test_5_sub_agents_planner_and_executor(tmp_path: Path) -> None:
    """The main session delegates to a planner and then to an executor; each has a log of its own."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    made = str(workshop.project / "made.txt")
    script = Script(
        [call("Agent", {"description": "Plan", "prompt": "Plan it", "subagent_type": "Plan"}, "t1")],
        "1. Write made.txt",
        [call("Agent", {"description": "Do", "prompt": "Write made.txt"}, "t2")],
        [call("Write", {"file_path": made, "content": "x"}, "t3")],
        "Written.",
        "All done.",
    )

    result = workshop.agent(script).run("Make a file")

    session = workshop.read_back()
    assert ("success", "x") == (result.ending, Path(made).read_text())
    assert 2 == len([agent for agent in session.agents() if agent.path.name.startswith("agent-a")])


def test_5_sub_agents_correlation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The main log names each agent's id at its call, and the agent's note names the call."""
    workshop = Workshop(tmp_path)
    task = {"description": "Look", "prompt": "Look around", "subagent_type": "Explore"}
    workshop.agent(Script([call("Agent", task, "toolu_7")], "Seen.", "Done.")).run("Go")

    assert 0 == main(
        ["--home", str(workshop.home.root), "show", str(workshop.session.log.id), "--sub-agents", "--json"]
    )

    (agent,) = json.loads(capsys.readouterr().out)["agents"]
    named = next(line for line in workshop.lines() if isinstance(line.get("toolUseResult"), dict))
    assert ("toolu_7", named["toolUseResult"]["agentId"]) == (agent["tool_use_id"], agent["id"])


def test_5_sub_agents_work_in_the_background(tmp_path: Path) -> None:
    """The call is answered before the agent is done; the end comes as a message, so a UI can show a spinner."""
    workshop = Workshop(tmp_path)
    task = {"description": "Later", "prompt": "Later", "run_in_background": True}
    agent = [said("Late.")]

    class _Answers(Script):
        """By who asks: threads would race for one list."""

        def ask(self, request: Any, cancelled: Any) -> Any:
            text = json.dumps(request["messages"])
            if "toolu_b" not in text and "Later" in text:
                return self.answer(agent, "end_turn")
            self.asked.append(request)
            first = [call("Agent", task, "toolu_b")]
            return self.answer(
                first if len(self.asked) == 1 else [said("Told.")],
                "end_turn" if self.asked[1:] else "tool_use",
            )

    workshop.agent(_Answers()).run("Go")

    kinds = [
        (line.get("toolUseResult") or {}).get("status") or (line.get("origin") or {}).get("kind")
        for line in workshop.lines()
    ]
    assert ["async_launched", "task-notification"] == [kind for kind in kinds if kind]


def test_5_flat_agent_logs_are_read(tmp_path: Path) -> None:
    """``agent-{UUID}.jsonl`` beside the session, as the guide has it."""
    log = put(tmp_path, ONE, TALK)
    side = {**prompt(11, None, "Inner"), "isSidechain": True, "agentId": TWO, "sessionId": ONE}
    answer = {**reply(12, 11, said("Inner answer")), "isSidechain": True, "agentId": TWO, "sessionId": ONE}
    (log.parent / f"agent-{TWO}.jsonl").write_bytes(lines([side, answer]))

    (agent,) = recollect.Home(tmp_path).session(ONE).agents()

    assert TWO == str(agent.agent_id)
