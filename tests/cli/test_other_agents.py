"""Commands on homes of other agents, beside Claude's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.agents import tiny_homes
from tests.agents.samples import codex_samples, other_samples, tree_state
from tests.cli.session_logs import SESSION, SessionLog
from tests.made_corpora import make_agents
from tests.needs import MADE_AND_REAL, TRANSCRIPTS

CODEX = "01a1e3a3-cb77-7553-9b0b-b31340aa040a"


@pytest.fixture(params=MADE_AND_REAL)
def machine(request: pytest.FixtureRequest, own_home: Path, tmp_path: Path) -> Path:
    """One home of Claude, Codex, Gemini, Qwen and OpenCode each, where their clients keep them."""
    SessionLog().prompt("k1", "Why is it red?").write(own_home / ".claude")
    if request.param == "made":
        agents = make_agents(tmp_path / "agents").homes
    else:
        agents = {
            "codex": next(one.home for one in codex_samples(TRANSCRIPTS) if one.name == "0.166.0/agents_v2")
        }
        for name in ("gemini-0.61.0", "qwen-0.24.4", "opencode-1.2.27"):
            agent = name.partition("-")[0]
            agents[agent] = next(one.home for one in other_samples(TRANSCRIPTS, agent) if one.name == name)
    for agent in ("codex", "gemini", "qwen"):
        shutil.copytree(agents[agent], own_home / f".{agent}")
    shutil.copytree(agents["opencode"], Path(os.environ["XDG_DATA_HOME"], "opencode"))
    return own_home


@pytest.fixture
def codex(machine: Path) -> str:
    """A session of Codex."""
    logs = sorted((machine / ".codex").rglob("rollout-*.jsonl"), key=lambda log: CODEX not in log.name)
    return logs[0].stem[-36:]


def rollouts_of(machine: Path, session: str) -> list[Path]:
    """The files of a session and its sub-agents, which name it; its own first."""
    files = [path for path in (machine / ".codex/sessions").rglob("*.jsonl") if session in path.read_text()]
    return sorted(files, key=lambda path: session not in path.name)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json"]) in (0, 1)
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def test_sessions_of_all_agents_are_listed_priced_and_found(
    machine: Path, codex: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command each; no home but ours changes."""
    chat = next((machine / ".gemini/tmp").glob("*/chats/session-*.jsonl"))
    shutil.copy(
        chat, chat.with_name(f"session-2026-11-18T09-00-{chat.stem[-8:]}.jsonl")
    )  # as resuming leaves it
    opencode = Path(os.environ["XDG_DATA_HOME"], "opencode")
    homes = [*(machine / name for name in (".claude", ".codex", ".gemini", ".qwen")), opencode]
    before = [tree_state(home) for home in homes]
    listed = told(capsys, "list")["sessions"]
    assert isinstance(listed, list)
    assert {one["agent"] for one in listed} == {"claude", "codex", "gemini", "qwen", "opencode"}
    assert {one["id"] for one in listed} >= {SESSION, codex}

    only = told(capsys, "--agent", "codex,qwen", "list")["sessions"]
    assert isinstance(only, list)
    assert {one["agent"] for one in only} == {"codex", "qwen"}

    rows = told(capsys, "cost", "--by", "client")["rows"]
    assert isinstance(rows, list)
    assert {row["client"] for row in rows} == {"codex", "gemini", "qwen", "opencode"}
    (row,) = (row for row in rows if row["client"] == "codex")
    assert row["cost_usd"] != "0"

    hits = told(capsys, "search", "fork OR error", "--agent", "qwen")["hits"]
    assert isinstance(hits, list)
    assert {hit["session"] for hit in hits} <= {one["id"] for one in only if one["agent"] == "qwen"}
    assert hits

    overview = told(
        capsys,
    )
    assert {home["agent"] for home in overview["homes"]} == {"claude", "codex", "gemini", "qwen", "opencode"}  # type: ignore[attr-defined]
    assert "Gemini CLI 0.61 deletes" in str(overview["problems"])
    assert [tree_state(home) for home in homes] == before


def test_tools_of_calls_that_no_log_ties_to_them_are_not_said_to_be_none(
    machine: Path, codex: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the session is a copy in a directory of its own."""
    assert main(["protect", "now", codex]) == 0
    assert main(["protect", "restore", codex, "--to", str(machine / "back"), "--apply"]) == 0
    capsys.readouterr()
    for homes in ([], ["--home", str(machine / "back")]):
        rows = told(capsys, *homes, "cost", "--by", "client,tool")["rows"]
        assert isinstance(rows, list)
        assert {row["tool"] for row in rows if row["client"] != "claude"} == {"(not recorded)"}
        rows = told(capsys, *homes, "cost", "--by", "tool")["rows"]
        assert isinstance(rows, list)
        assert "(not recorded)" in {row["tool"] for row in rows}


def test_resume_runs_the_clients_own_command(
    machine: Path, codex: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = told(capsys, "resume", codex, "--print")
    assert answer["command"] == f"codex resume {codex}"
    first = json.loads(rollouts_of(machine, codex)[0].read_text().splitlines()[0])
    assert answer["cwd"] == first["payload"]["cwd"]


def test_what_codex_sends_on_resume_is_shown(
    machine: Path, codex: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = told(capsys, "show", codex, "--api")
    messages = answer["messages"]
    assert isinstance(messages, list)
    assert {"message", "function_call", "function_call_output"} <= {item["type"] for item in messages}


def test_original_files_are_written_into_a_directory(machine: Path, codex: str, tmp_path: Path) -> None:
    target = tmp_path / "back"
    assert main(["export", codex, "--format", "original", "--no-redact", "--output", str(target)]) == 0
    for path in rollouts_of(machine, codex):
        assert (target / path.relative_to(machine / ".codex")).read_bytes() == path.read_bytes()


def test_models_without_a_price_cost_an_unknown_amount_and_not_0(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_homes.qwen(own_home / ".qwen")
    (own_home / ".claude").mkdir()
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert "unknown: no price for qwen3" in printed
    assert "$0.00" not in printed


def test_a_session_without_usage_has_an_unknown_cost(
    own_home: Path, transcripts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Codex 0.20 wrote no usage: null, and a note; never 0."""
    sample = next(one for one in codex_samples(transcripts) if one.name == "0.20.0/plain")
    listed = told(capsys, "--home", str(sample.home), "list")["sessions"]
    assert isinstance(listed, list)
    assert {one["cost_usd"] for one in listed} == {None}
    assert main(["--home", str(sample.home), "cost"]) == 0
    assert "no usage recorded" in "".join(capsys.readouterr())


def test_sessions_of_other_agents_are_archived_and_come_back_byte_for_byte(
    machine: Path, codex: str, tmp_path: Path
) -> None:
    """Into a directory: the mirror's logs, and out of them the client's own file."""
    import recollect
    from recollect.ask.sessions.originals import original_files

    assert main(["--agent", "codex", "protect", "now"]) == 0
    assert main(["protect", "verify"]) == 0
    target = tmp_path / "restored"
    assert main(["protect", "restore", codex, "--to", str(target), "--apply"]) == 0
    (log,) = target.rglob(f"{codex}.jsonl")
    (mirror,) = (machine / "xdg-data" / "recollect" / "agents").glob("codex-*")
    assert log.read_bytes() == next(mirror.rglob(f"{codex}.jsonl")).read_bytes()
    shutil.rmtree(mirror / "projects")
    count = len(rollouts_of(machine, codex))
    shutil.rmtree(machine / ".codex" / "sessions")
    (machine / ".codex" / "archived_sessions").mkdir()
    session = recollect.Home(machine / ".codex").session(codex)
    assert session.is_archived
    assert len(original_files(session)) == count


@pytest.mark.parametrize(
    ("make", "name", "told_of"),
    [
        (tiny_homes.opencode_files, "ses_0a", "Not mirrored, so not in it: storage/session_diff/"),
        (tiny_homes.qwen, tiny_homes.CHANGED, ""),
    ],
)
def test_an_export_of_originals_says_what_the_mirror_does_not_keep(
    make: Callable[[Path], Path],
    name: str,
    told_of: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make(tmp_path / "opencode")
    places = ["--home", str(tmp_path / "opencode"), "--data", str(tmp_path / "data")]
    words = ["export", name, "--format", "original", "--no-redact", "--output", str(tmp_path / "out")]
    assert main([*places, *words]) == 0
    said = capsys.readouterr().err
    assert told_of in said
    assert ("Not mirrored" in said) == bool(told_of)


@pytest.mark.parametrize("gone", ["tmp", "."])
def test_a_session_that_its_client_deleted_is_still_listed_found_and_priced(
    own_home: Path, capsys: pytest.CaptureFixture[str], gone: str
) -> None:
    """The mirror is there for this case: with all files of the client gone, or its whole home."""
    (own_home / ".claude").mkdir()
    tiny_homes.gemini_lines(own_home / ".gemini")
    commands = {"sessions": ["list"], "hits": ["search", "ask"], "rows": ["cost", "--by", "session"]}
    before = [told(capsys, *words)[part] for part, words in commands.items()]
    assert [len(found) for found in before] == [2, 2, 2]  # type: ignore[arg-type]
    shutil.rmtree(own_home / ".gemini" / gone)
    assert [told(capsys, *words)[part] for part, words in commands.items()] == before
    homes = told(
        capsys,
    )["homes"]
    assert [(home["agent"], home["sessions"]) for home in homes] == [("claude", 0), ("gemini", 2)]  # type: ignore[attr-defined]
    assert main([]) == 0
    assert "~/.gemini, deleted, gemini, read through a mirror" in capsys.readouterr().out
    assert main(["show", tiny_homes.CHANGED]) == 0


def test_a_mirror_of_a_directory_named_once_is_in_no_later_list(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_home / ".claude").mkdir()
    tiny_homes.gemini_lines(tmp_path / "old")
    assert len(told(capsys, "--home", str(tmp_path / "old"), "list")["sessions"]) == 2  # type: ignore[arg-type]
    tiny_homes.qwen(own_home / ".qwen")
    listed = told(capsys, "list")["sessions"]
    assert {one["agent"] for one in listed} == {"qwen"}  # type: ignore[attr-defined]


def test_fix_leaves_other_agents_alone(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "--agent", "codex,claude", "doctor", "--fix")
    assert "/home/dev/proj" not in json.dumps(answer)


@pytest.mark.parametrize("command", ["list", "cost", "doctor", "search x", "", "secrets", "report"])
def test_an_agent_without_a_home_is_said_and_no_other_home_is_read(
    own_home: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """An empty choice must not become the default choice, the homes of Claude."""
    SessionLog().prompt("k1", "Why is it red?").write(own_home / ".claude")
    assert main(["--agent", "codex,qwen", *command.split()]) == 3
    printed = capsys.readouterr()
    assert "no home of codex or qwen was found" in printed.err
    assert not printed.out


@pytest.mark.parametrize("words", [["--agent", "xyzzy", "list"], ["list", "--agent=codex,xyzzy"]])
def test_an_unknown_agent_is_named_with_the_command_and_those_that_are_known(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Before and after the command alike; the usage of the command is not printed for it."""
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "--agent xyzzy: no such agent\n" in said
    assert "claude, codex, opencode, gemini, qwen" in said
    assert "usage" not in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "--agent", "codx"], "codx: no such agent: did you mean codex?"),
        (["--agent=", "list"], "--agent: needs the name of an agent"),
        (["list", "--agent"], "--agent: needs the name of an agent"),
    ],
)
def test_a_mistyped_agent_is_told_what_it_may_be(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_spaces_and_capitals_in_names_of_agents_do_not_matter(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SessionLog().prompt("k1", "Why is it red?").write(own_home / ".claude")
    assert main(["--agent", "Codex, CLAUDE", "list"]) == 0
    assert "Why is it red?" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sample", "session", "error"),
    [
        ("codex/0.166.0/faults/.codex", "01a1e395-43d5-7c41-9975-c602d8bd5c7f", '"message": "stub error"}}'),
        ("opencode-1.18.33/data/opencode", "42c590cd-f7c8-44f0-a573-b71d8050e58e", "stub says no"),
        ("qwen-0.24.4/.qwen", "1e2b7fd8-d9fa-4290-804e-042fef0797b4", "400 stub says no"),
    ],
)
def test_a_turn_that_ended_with_an_error_says_so(
    transcripts: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sample: str,
    session: str,
    error: str,
) -> None:
    """Wherever people read it; what the client resumes with has no word of it."""
    home = tmp_path / Path(sample).name
    shutil.copytree(transcripts / "dialects/samples" / sample, home)

    def said(*words: str) -> str:
        assert main([*words, "--home", str(home), "--data", str(tmp_path / "data")]) == 0
        return capsys.readouterr().out

    for way in ((), ("--all-branches",)):
        heading, text = said("show", session, *way).rstrip().splitlines()[-2:]
        assert heading.startswith("Error  ")
        assert error in text
    last = json.loads(said("show", session, "--json"))["messages"][-1]
    assert last["role"] == "system"
    assert error in last["blocks"][0]["text"]
    heading, _, text = said("export", session, "--format", "md").rstrip().splitlines()[-3:]
    assert heading.startswith("## Error (")
    assert error in text
    assert "\nError, " in said("export", session, "--format", "html")
    assert last["uuid"] not in said("show", session, "--api")
    assert json.loads(said("show", session, "--api").splitlines()[-1])["role"] == "user"
