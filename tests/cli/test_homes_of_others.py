"""What commands do with sessions of other agents: every command leaves the homes of their clients as they are."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

import recollect
from recollect.ask.library import Home
from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.system.paths import AGENTS
from tests.agents import tiny_homes
from tests.agents.samples import codex_samples, other_samples, tree_state
from tests.cli.session_logs import OTHER, SESSION, SessionLog
from tests.made_corpora import make_agents
from tests.needs import MADE_AND_REAL, TRANSCRIPTS

# A session with tools in each sample: its agent, id and a start of the id that people type.
SESSIONS = {
    "codex": "01a1e394-fe4b-76d3-b40a-90bd3af77600",
    "gemini": "139b23b9-882a-4bea-8cf4-48981d85c0e3",
    "qwen": "d501abe0-f3b7-4e15-8c8f-959973b6f466",
    "opencode": "33844d26-bea5-4b97-b4bc-154e5820ebe3",
}
EVERYTHING = (
    *("", "list --all", "cost", "cost --by client", "cost --explain", "report", "doctor", "secrets"),
    *(
        "show --todos",
        "show --prompts",
        "show --plan",
        "data index status",
        "protect",
        "protect --run",
        "doctor --fix",
        "search echo",
    ),
    *(
        "protect tidy --older-than 0d --apply",
        "mv /home/dev/proj /srv/new --apply",
        "data migrate --to flat --all --apply",
    ),
    "protect now",
    "protect verify",
)
ABOUT_ONE = (
    *(
        "show S",
        "show S --api",
        "show S --tree",
        "show S --sub-agents",
        "files S",
        "show S --todos",
        "resume S --print",
    ),
    *("export S --format md", "export S --format html -o OUT.html", "export S --format json"),
    *("export S --format jsonl", "export S --format flat", "export S --format original --no-redact -o OUT"),
    *(
        "export S --to claude",
        "secrets remove S --apply",
        "secrets remove S --everywhere --apply",
        "doctor S",
    ),
    *("rename S Other", "tag S hold", "fork S", "doctor S --fix --apply"),
    *("protect now S", "protect restore S --to OUT.back --apply", "rm S --apply"),
)


@pytest.fixture(params=MADE_AND_REAL)
def homes(request: pytest.FixtureRequest, own_home: Path, tmp_path: Path) -> dict[str, Path]:
    """One home of each other agent beside Claude's, where their clients keep them; a credential in one."""
    agents = make_agents(tmp_path / "agents").homes if request.param == "made" else real_homes()
    return placed(own_home, agents)


@pytest.fixture
def samples(own_home: Path, transcripts: Path) -> dict[str, Path]:
    """The real ones of these alone."""
    return placed(own_home, real_homes())


def real_homes() -> dict[str, Path]:
    """The homes that hold SESSIONS."""
    found = {"codex": next(one.home for one in codex_samples(TRANSCRIPTS) if one.name == "0.166.0/tools")}
    names = {"gemini": "gemini-0.61.0", "qwen": "qwen-0.24.4", "opencode": "opencode-1.18.33"}
    for agent, name in names.items():
        found[agent] = next(one.home for one in other_samples(TRANSCRIPTS, agent) if one.name == name)
    return found


def placed(own_home: Path, sources: dict[str, Path]) -> dict[str, Path]:
    """Copies of homes where their clients keep them."""
    SessionLog().prompt("k1", "Why is it red?").write(own_home / ".claude")
    places = {agent: own_home / f".{agent}" for agent in ("codex", "gemini", "qwen")}
    places["opencode"] = Path(os.environ["XDG_DATA_HOME"], "opencode")
    for agent, place in places.items():
        shutil.copytree(sources[agent], place)
    logs = sorted(places["codex"].rglob("*.jsonl"))
    log = next((log for log in logs if SESSIONS["codex"] in log.name), logs[0])
    said = [{"type": "input_text", "text": f"my token is ghp_{'aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5'}"}]
    item = {"type": "message", "role": "user", "content": said}
    line = {"timestamp": "2026-11-16T10:00:00.000Z", "ordinal": 99, "type": "response_item", "payload": item}
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return places


@pytest.fixture
def chosen(homes: dict[str, Path], tmp_path: Path) -> dict[str, str]:
    """A session with tools in each home; that of Codex holds the credential."""
    found = {}
    for agent, place in homes.items():
        ids = sorted(one.id for one in recollect.Home(place, data=tmp_path / "ids", index=False).sessions())
        found[agent] = SESSIONS[agent] if SESSIONS[agent] in ids else ids[0]
    logs = [log for log in homes["codex"].rglob("*.jsonl") if b"ghp_" in log.read_bytes()]
    return found | {"codex": logs[0].stem[-36:]}


def seen(homes: dict[str, Path]) -> dict[str, object]:
    """All that could change, content included."""
    content = {
        str(path): hashlib.blake2b(path.read_bytes()).hexdigest()
        for home in homes.values()
        for path in home.rglob("*")
        if path.is_file()
    }
    return {agent: tree_state(home) for agent, home in homes.items()} | {"content": content}


@pytest.mark.parametrize("place", [".codex", ".gemini", ".qwen", "elsewhere"])
def test_nothing_is_restored_into_the_home_of_another_agent(
    own_home: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """With a session in it, or only with the settings of its client; the plan refuses it too."""
    SessionLog().prompt("k1", "Why is it red?").write(own_home / ".claude")
    assert main(["protect", "now"]) == 0
    tiny_homes.codex(own_home / "elsewhere")
    (own_home / place).mkdir(exist_ok=True)
    (own_home / place / "config.toml").write_text("")
    before = tree_state(own_home / place)
    for words in (["--apply"], []):
        capsys.readouterr()
        where = ["--to", str(own_home / place)]
        assert main(["protect", "restore", SESSION, *where, *words]) == 2
        assert "where recollect writes nothing" in capsys.readouterr().err
    assert tree_state(own_home / place) == before


def test_a_home_is_known_by_what_its_client_may_have_in_it(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rollouts directly in sessions/, as the first clients of Codex wrote them; a database of another channel."""
    file = tiny_homes.codex(tmp_path / "codex")
    (tmp_path / "flat" / "sessions").mkdir(parents=True)
    file.rename(tmp_path / "flat" / "sessions" / file.name)
    tiny_homes.opencode_database(tmp_path / "data").rename(tmp_path / "data" / "opencode-dev.db")
    for place, agent in (("flat", "codex"), ("data", "opencode")):
        assert main(["--home", str(tmp_path / place), "list", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)["sessions"]
        assert {one["agent"] for one in listed} == {agent}


@pytest.mark.parametrize("words", [["doctor", "--fix"], ["mv", "/w", "/v"]])
def test_a_command_for_homes_of_claude_names_the_others_it_was_given(
    own_home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    tiny_homes.codex(own_home / ".codex")
    assert main(["--home", str(own_home / ".codex"), *words]) == 3
    told = capsys.readouterr().err
    assert (
        f"leaves sessions of other agents as they are, and found no Claude home beside {own_home}/.codex"
        in told
    )


def test_cleanup_says_whose_sessions_it_leaves_alone(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_home / ".claude").mkdir()
    tiny_homes.codex(own_home / ".codex")
    assert main(["protect", "tidy", "--older-than", "0d"]) == 0
    assert "Sessions of codex are left alone" in capsys.readouterr().err


WITHOUT_A_HOME = [
    "list",
    "cost",
    "report",
    "search x",
    "secrets",
    "doctor",
    "show --todos",
    "show --prompts",
    "show --plan",
]


@pytest.mark.parametrize("command", [*WITHOUT_A_HOME, "protect tidy", "protect now", "data index status"])
def test_where_there_is_no_home_every_command_says_once_where_it_looked(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """No secrets were found there either: that would be true, and mislead."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert main(command.split()) == 0
    told = capsys.readouterr().err
    assert (
        told.count(
            "No home of an agent was found: looked in ~/.claude, ~/.config/claude and the usual places of"
        )
        == 1
    )
    assert f"codex, {', '.join(list(AGENTS)[1:-1])} and {list(AGENTS)[-1]}. Name one with --home DIR" in told
    (own_home / ".claude" / "projects").mkdir(parents=True)
    assert main(command.split()) == 0
    assert "No home" not in capsys.readouterr().err


def test_a_place_that_a_variable_names_is_told_by_its_name(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(own_home / "data"))
    assert main(["list"]) == 0
    assert "codex, $XDG_DATA_HOME/opencode, gemini" in capsys.readouterr().err


READING = ["list", "cost", "search x", "show @last", "report", "secrets", "doctor", "export @last"]


@pytest.mark.parametrize("command", [one for one in READING if one != "doctor"] + ["doctor @last"])
def test_a_damaged_database_that_a_variable_names_is_told_by_every_command(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Which file, why, and what to do next; never only the name of our own copy."""
    (own_home / ".claude").mkdir()
    damaged = own_home / "my.db"
    damaged.write_bytes(b"this is no database" * 100)
    monkeypatch.setenv("OPENCODE_DB", str(damaged))
    main(command.split())
    told = capsys.readouterr().err
    assert f"could not be read: {damaged} ($OPENCODE_DB): file is not a database" in told
    assert "correct the variable or unset it" in told
    assert "/agents/opencode-" not in told
    assert told.count("could not be read") == 1


def test_check_lists_what_could_not_be_read_of_another_agent_once(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a finding with the reason and the next step, and not as a note beside it."""
    (own_home / ".claude").mkdir()
    damaged = own_home / "my.db"
    damaged.write_bytes(b"this is no database" * 100)
    monkeypatch.setenv("OPENCODE_DB", str(damaged))
    cut = tiny_homes.codex_compressed(own_home / ".codex")
    cut.write_bytes(b"this is no frame")
    assert main(["doctor", "--json", "--no-secrets"]) == 4
    told = capsys.readouterr()
    assert told.err == ""
    found = {one["path"]: one for one in json.loads(told.out)["findings"] if one["code"] == "unreadable"}
    assert found.keys() == {str(damaged), str(cut)}
    assert found[str(damaged)]["what"] == "left out: file is not a database"
    assert (
        found[str(damaged)]["fix"]
        == f"{damaged} is what $OPENCODE_DB names: correct the variable or unset it"
    )
    assert found[str(cut)]["fix"] == "mend the file or put it aside"


@pytest.mark.parametrize("command", READING)
def test_a_database_that_a_variable_names_must_exist(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """As a home that $CLAUDE_CONFIG_DIR names; a home that --home names is read all the same."""
    SessionLog().prompt("k1", "Why is it red?").write(own_home / ".claude")
    monkeypatch.setenv("OPENCODE_DB", str(own_home / "mistyped.db"))
    assert main(command.split()) == 3
    told = capsys.readouterr().err
    assert f"opencode: no file {own_home / 'mistyped.db'}, but $OPENCODE_DB names it" in told
    assert "correct the variable or unset it" in told
    assert main(["--home", str(own_home / ".claude"), "list"]) == 0
    assert main(["--agent", "claude", "list"]) == 0


def test_the_overview_names_a_database_that_is_missing(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_home / ".claude").mkdir()
    monkeypatch.setenv("OPENCODE_DB", str(own_home / "mistyped.db"))
    assert main([]) == 0
    assert f"{own_home / 'mistyped.db'}, but $OPENCODE_DB names it" in capsys.readouterr().err


def test_a_database_in_memory_is_no_file(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_home / ".claude").mkdir()
    monkeypatch.setenv("OPENCODE_DB", ":memory:")
    assert main(["list"]) == 0


def test_no_command_changes_the_home_of_another_agent(
    homes: dict[str, Path], chosen: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of them, those that change something with --apply, on a session of each agent."""
    before = seen(homes)
    for number, (agent, session) in enumerate(chosen.items()):
        for command in ABOUT_ONE:
            words = command.replace("OUT", str(tmp_path / f"{agent}{number}")).split()
            main([session if word == "S" else word for word in words])
            assert seen(homes) == before, (agent, command, capsys.readouterr())
    for command in EVERYTHING:
        main(command.split())
        assert seen(homes) == before, (command, capsys.readouterr())


@pytest.mark.parametrize("command", ["fork", "doctor --fix", "data migrate --to flat"])
@pytest.mark.parametrize("agent", SESSIONS)
def test_what_no_client_would_see_is_refused_with_the_way_to_it(
    homes: dict[str, Path],
    chosen: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    command: str,
    agent: str,
) -> None:
    """A fork in a mirror could not be resumed: its client does not know it."""
    apply = [] if command == "fork" else ["--apply"]
    assert main([*command.split(), chosen[agent], *apply]) == 2
    said = capsys.readouterr().err
    assert f"it belongs to {agent}, whose sessions recollect only reads" in said
    assert f"recollect export {chosen[agent]} --to claude" in said


def test_moving_cleaning_up_and_migrating_all_mean_the_homes_of_claude(
    homes: dict[str, Path], chosen: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A mirror follows the home it mirrors: a log that was moved away would be written again."""
    assert main(["mv", "/home/dev/proj", "/srv/new", "--json"]) in (0, 3)
    assert chosen["codex"] not in capsys.readouterr().out
    assert main(["protect", "tidy", "--older-than", "0d", "--json"]) == 0
    assert not {one for one in chosen.values() if one in capsys.readouterr().out}
    assert main(["data", "migrate", "--to", "flat", "--all", "--json"]) in (0, 1)
    assert not {one for one in chosen.values() if one in capsys.readouterr().out}


def test_sessions_are_imported_into_the_home_of_claude(
    homes: dict[str, Path], own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Homes of other agents are no choice: with one of Claude there is nothing to ask."""
    other = tmp_path / "other"
    SessionLog().prompt("k1", "From elsewhere").write(other)
    assert main(["import", str(other), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["to"] == str(own_home / ".claude")


def test_only_our_copy_of_a_session_is_redacted_or_removed_and_that_is_said(
    homes: dict[str, Path], chosen: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("secrets remove", "rm"):
        assert main([command, chosen["codex"]]) == 0
        assert "the files of codex itself stay as they are" in capsys.readouterr().err
    assert main(["secrets", "remove", chosen["gemini"]]) == 0
    assert "stay as they are" not in capsys.readouterr().err  # nothing to redact
    for agent, says_so in (("codex", True), ("gemini", False)):
        assert main(["secrets", chosen[agent]]) == int(says_so)
        assert says_so == (
            f"the files of {agent} itself stay as they are, and have" in capsys.readouterr().err
        )


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        ("codex", "→ exec_command  echo alpha; exit 3"),
        ("opencode", "→ read  /home/user/proj/src/a.txt"),
        ("gemini", "→ run_shell_command  echo out; echo err >&2"),
        ("qwen", "→ read_file  /home/user/My Proj.x/src/a.txt"),
    ],
)
def test_a_call_is_shown_by_what_it_is_about(
    samples: dict[str, Path], capsys: pytest.CaptureFixture[str], agent: str, line: str
) -> None:
    """Every agent has names of its own for a command and a path."""
    assert main(["show", SESSIONS[agent]]) == 0
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(("agent", "edits"), [("opencode", 3), ("gemini", 2), ("qwen", 2)])
def test_changes_of_files_are_counted_whatever_the_tool_is_called(
    samples: dict[str, Path], capsys: pytest.CaptureFixture[str], agent: str, edits: int
) -> None:
    assert main(["report", "--agent", agent, "--figures"]) == 0
    periods = json.loads(capsys.readouterr().out)["periods"]
    assert {one["name"]: one["edits"] for one in periods}["all_time"] == edits


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_home_that_was_named_once_is_read_also_when_it_is_gone(
    is_emptied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its client deleted all of it, or someone the directory itself: the mirror has it, and only that."""
    home = tmp_path / "home"
    tiny_homes.codex(home)
    words = ["--home", str(home), "--data", str(tmp_path / "data"), "list", "--json"]
    assert main(words) == 0
    before = {one["id"] for one in json.loads(capsys.readouterr().out)["sessions"]}
    shutil.rmtree(home)
    if is_emptied:
        home.mkdir()
    assert main(words) == 0
    assert {one["id"] for one in json.loads(capsys.readouterr().out)["sessions"]} == before
    words[1] = str(tmp_path / "other")
    assert main(words) == 3
    assert "no such directory" in capsys.readouterr().err


def test_a_file_is_not_called_missing_where_a_home_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["--home", str(tmp_path / "file"), "--data", str(tmp_path / "data"), "list"]) == 3
    assert "file: a file and no directory" in capsys.readouterr().err


@pytest.mark.parametrize("gone", ["the file", "the home"])
@pytest.mark.parametrize(
    ("agent", "damage"), [("codex_compressed", b"this is no frame"), ("opencode_database", b"no" * 600)]
)
def test_a_file_that_was_put_aside_is_called_unreadable_no_more(
    agent: str, damage: bytes, gone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the file, or with all of its home; what was read of it before stays."""
    home = tmp_path / "home"
    damaged: Path = getattr(tiny_homes, agent)(home)
    where = ["--home", str(home), "--data", str(tmp_path / "data")]
    assert main([*where, "list", "--all"]) == 0
    before = capsys.readouterr()
    damaged.write_bytes(damage)
    assert main([*where, "list", "--all"]) == 0
    assert f"could not be read: {damaged}" in capsys.readouterr().err
    shutil.move(damaged if gone == "the file" else home, tmp_path / "aside")
    for command in ("list --all", "", "doctor --no-secrets"):
        main([*where, *command.split()])
        told = capsys.readouterr()
        assert "could not be read" not in told.err + told.out
        assert str(damaged) not in told.out
        assert command != "list --all" or told == before


WRITERS = (
    *(
        "export S -o IN/talk.md",
        "export S --format html -o IN/talk.html",
        "export S --format html -o IN/pages",
    ),
    *("export S --format jsonl -o IN/talk.jsonl", "export S --format original --no-redact -o IN/files"),
    *("export --project /w --format html -o IN/project", "data parquet --to IN/lake"),
    *("export --bundle IN/all.tar", "protect restore S --to IN/back --apply", "list --data IN/data"),
    *("limits statusline --data IN/data", "limits --hook --data IN/data", "agent -p hello --store IN/store"),
)


@pytest.mark.parametrize("place", ["usual", "elsewhere"])
@pytest.mark.parametrize("agent", ["codex", "gemini_lines", "qwen", "opencode_database"])
def test_no_path_that_a_user_names_leads_into_the_home_of_another_agent(
    own_home: Path,
    agent: str,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where its client keeps it, or wherever it is; the error names the home and what to do."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    (own_home / ".claude").mkdir()
    name = agent.partition("_")[0]
    usual = Path(os.environ["XDG_DATA_HOME"], name) if name == "opencode" else own_home / f".{name}"
    home = usual if place == "usual" else own_home / "elsewhere" / "copy"
    getattr(tiny_homes, agent)(home)
    where = ["--home", str(home)]
    assert main([*where, "protect", "now"]) == 0
    assert main([*where, "list", "--json"]) == 0
    session = json.loads(capsys.readouterr().out.partition("\n")[2])["sessions"][0]["id"]
    (home / "inside").mkdir()
    before = tree_state(home)
    for command in WRITERS:
        words = [
            session if word == "S" else word.replace("IN", str(home / "inside")) for word in command.split()
        ]
        assert main([*where, *words]) == 2, command
        told = capsys.readouterr().err
        assert f"lies in {home}, the home of {name}, where recollect writes nothing" in told, command
        assert "name another place with" in told
        assert tree_state(home) == before, command


def test_our_own_directory_in_the_home_of_another_agent_is_refused_by_the_library_too(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_home / ".claude").mkdir()
    (own_home / ".codex").mkdir()
    with pytest.raises(UsageError, match="where recollect writes nothing"):
        Home(own_home / ".claude", data=own_home / ".codex" / "data")
    monkeypatch.setenv("RECOLLECT_DATA", str(own_home / ".codex" / "data"))
    assert main(["list"]) == 2
    assert not [*(own_home / ".codex").iterdir()]


def test_a_directory_that_only_looks_like_a_home_is_written_to(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names that a client's home has, above the target, and no session in them."""
    SessionLog().prompt("k1", "Why is it red?").write(own_home / ".claude")
    for name in ("projects/x/chats", "tmp/x/chats", "storage/message", "archived_sessions"):
        (own_home / "work" / name).mkdir(parents=True)
    (own_home / "work" / "out").mkdir()
    assert main(["export", SESSION, "-o", str(own_home / "work" / "out" / "talk.md")]) == 0


def test_what_is_laid_out_like_a_home_is_no_home_of_a_client(own_home: Path, tmp_path: Path) -> None:
    """Original files of two sessions, and two converted ones, go into one directory."""
    tiny_homes.codex(own_home / ".codex")
    for session in (SESSION, OTHER):
        SessionLog(session).prompt("k1", "Why is it red?").write(own_home / ".claude")
        assert main(["export", session, "--to", "codex"]) == 0
    for session in (tiny_homes.CHANGED, tiny_homes.UNTOUCHED):
        words = ["--format", "original", "--no-redact", "-o", str(tmp_path / "files")]
        assert main(["export", session, *words]) == 0
    assert len([*(tmp_path / "files").rglob("*.jsonl")]) == 2
