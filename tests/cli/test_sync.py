"""The commands sync and team, as people type them, against a real server."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from recollect.cli.main import main
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.wire import START, LineHits
from recollect.store.own_settings import SyncLogin, load_login, login_file
from tests import secret_home
from tests.agents.tiny_homes import CHANGED, UNTOUCHED, codex
from tests.server.world import reply as counted_reply
from tests.share.sync.conftest import Team, team
from tests.share.sync.machines import remote_log
from tests.small_home import ONE, TALK, TWO, lines, prompt, put

__all__ = ["team"]


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


class Account(NamedTuple):
    """An organisation of its own on the server, and the tokens of its two members."""

    url: str
    token: str
    colleague: str

    def log_in(self, monkeypatch: pytest.MonkeyPatch, *, as_colleague: bool = False) -> None:
        typed(monkeypatch, self.colleague if as_colleague else self.token)
        assert main(["team", "login", self.url]) == 0

    def stored(self) -> bytes:
        """All that the server would hand out of every session."""
        remote = HttpRemote(self.url, self.token)
        parts = []
        for listed in remote.sessions():
            detail = remote.session(listed.id)
            assert detail is not None
            parts.append(repr(detail).encode())
            parts += [piece for log in detail.logs for piece in remote.read(listed.id, log.key, START)]
            parts += [remote.file(listed.id, file.key) or b"" for file in detail.files]
        remote.close()
        return b"".join(parts)


@pytest.fixture
def account(
    team: Team, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Account:
    """Logged in to a server, with a home of two sessions."""
    put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", TWO, TALK)
    account = Account(team.url, *team.colleagues("ada", "bob"))
    account.log_in(monkeypatch)
    capsys.readouterr()
    return account


def elsewhere(monkeypatch: pytest.MonkeyPatch, place: Path) -> Path:
    """From now on this is another machine, with a home that has nothing; its home directory."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(place / name.lower()))
    home = place / "home" / ".claude"
    (home / "projects").mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    return home


def test_a_login_is_private_and_its_token_is_never_shown(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mode 0600, in the config directory; output and repr hold no token."""
    token = team.token("Ada")
    typed(monkeypatch, f"{token}\n")
    assert main(["team", "login", team.url, "--machine", "laptop"]) == 0
    said = capsys.readouterr()
    assert token not in said.out + said.err + repr(load_login())
    assert said.out.startswith("Ada of org ")
    assert stat.S_IMODE(login_file().stat().st_mode) == 0o600
    assert load_login() == SyncLogin(team.url, token, "laptop")


def test_a_wrong_token_is_not_kept(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is tried first; nothing is written, and it is not shown."""
    typed(monkeypatch, "rcl_not_this_one\n")
    assert main(["team", "login", team.url]) == 2
    assert "rcl_not_this_one" not in capsys.readouterr().err
    assert not login_file().exists()


def test_a_login_that_others_can_read_is_refused(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever opened it up is told, and nothing is sent."""
    login_file().chmod(0o644)
    assert main(["team", "push"]) == 2
    assert "other users may read it" in capsys.readouterr().err
    assert account.stored() == b""


def test_without_a_login_the_next_step_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, and the command to type."""
    assert main(["team", "push"]) == 3
    assert "recollect team login URL" in capsys.readouterr().err


def test_push_says_what_it_did(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """First everything, then nothing."""
    assert main(["team", "status"]) == 0
    assert "Waiting   2 sessions" in capsys.readouterr().out
    assert main(["team", "push"]) == 0
    assert capsys.readouterr().out.startswith("Sent 2 sessions: 8 lines, 0 files, ")
    assert main(["team", "push"]) == 0
    assert capsys.readouterr().out == "Nothing new to send.\n"
    assert main(["team", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["waiting"] == []


def test_the_lists_of_the_config_hold_projects_back(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """[sync] deny; a list that cannot be understood sends nothing at all."""
    config = login_file().with_name("config.toml")
    config.write_text('[sync]\ndeny = ["/srv"]\n')
    assert main(["team", "push", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["denied"] == 2
    for text in ('[sync]\ndeny = "/srv"\n', "[sync]\nskip = []\n", '[sync]\nallow = ["app"]\n'):
        config.write_text(text)
        assert main(["team", "push"]) == 2
    assert account.stored() == b""


def test_secrets_stay_here_unless_they_are_named(
    account: Account, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that reached the server holds one; --no-redact by name sends them."""
    secret_home.make(own_home / ".claude")
    assert main(["team", "push"]) == 0
    assert "secrets replaced" in capsys.readouterr().err
    stored = account.stored()
    assert secret_home.token("prompt").encode() not in stored
    assert secret_home.token("tool result").encode() not in stored
    assert secret_home.token("credentials", "anthropic-oauth-token").encode() not in stored


def test_pull_into_a_home_waits_for_apply(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan changes nothing; with --apply the sessions are where the client finds them."""
    assert main(["team", "push"]) == 0
    home = elsewhere(monkeypatch, tmp_path / "other")
    work = tmp_path / "work"
    work.mkdir()
    account.log_in(monkeypatch)
    capsys.readouterr()
    words = ["team", "pull", "--into-home", "--directory", str(work)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("Fetched 2 sessions: 8 lines")
    assert f"  new     {ONE}  /" in said
    assert list((home / "projects").iterdir()) == []
    assert main([*words, "--apply"]) == 0
    assert sorted(path.name for path in (home / "projects").glob("*/*")) == [f"{ONE}.jsonl", f"{TWO}.jsonl"]
    assert main(["team", "push"]) == 0
    assert capsys.readouterr().out.endswith("Nothing new to send.\n")


def test_a_sealed_push_makes_a_private_key(account: Account, own_home: Path) -> None:
    """The key lies in our directory, for its owner only; nothing readable is on the server."""
    pytest.importorskip("cryptography")
    assert main(["team", "push", "--encrypt"]) == 0
    key = own_home / "xdg-data" / "recollect" / "sync.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    stored = account.stored()
    assert b"/srv/app" not in stored
    assert key.read_bytes().strip() not in stored


def test_what_the_team_spent_is_asked_of_the_server(
    team: Team, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 tokens in and 10 out of a Sonnet: $0.003 + $0.00015, as table, JSON and CSV."""
    typed(monkeypatch, team.token("Ada"))
    assert main(["team", "login", team.url]) == 0
    log = own_home / ".claude" / "projects" / "-srv-app" / f"{ONE}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(counted_reply("m-1", cwd="/srv/app", gitBranch="main"))
    assert main(["team", "push"]) == 0
    capsys.readouterr()
    assert main(["team", "cost", "--by", "person,branch", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(row["keys"], row["usd"]) for row in report["rows"]] == [
        ({"person": "Ada", "branch": "main"}, "0.00315")
    ]
    assert main(["team", "cost", "--by", "person,repo", "--since", "20260101", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("Ada,")
    assert main(["team", "cost", "--by", "person"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert " ".join(table[0].split()) == "person responses input output cache write cache read cost"
    assert table[1].split() == ["Ada", "1", "1,000", "10", "0", "0", "$0.00"]
    assert main(["team", "cost", "--by", "colour"]) == 2


def test_watch_pushes_what_is_added_until_it_is_interrupted(account: Account, own_home: Path) -> None:
    """A line is sent soon after it is written; an interrupt is the ordinary end."""
    words = [sys.executable, "-m", "recollect", "team", "watch", "--every", "0.2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Sent 2 sessions: 8 lines")
        log = own_home / ".claude" / "projects" / "-srv-app" / f"{ONE}.jsonl"
        with log.open("ab") as file:
            file.write(lines([prompt(5, 4, "more")]))
        assert process.stdout.readline().startswith("Sent 1 session: 1 line")
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 130
        finally:
            process.kill()
    assert remote_log(HttpRemote(account.url, account.token)) == log.read_bytes()


def whole(path: Path) -> bytes:
    """A file's bytes; of a log, up to its last newline."""
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1] if path.suffix == ".jsonl" else data


def colleague(team: Team, admin: str, name: str) -> str:
    """The token of a new member of the admin's organisation."""
    bearer = {"Authorization": f"Bearer {admin}"}
    user = httpx.post(f"{team.url}/v1/users", json={"name": name}, headers=bearer).json()["id"]
    asked = {"user": user, "scopes": ["read", "write"]}
    token: str = httpx.post(f"{team.url}/v1/tokens", json=asked, headers=bearer).json()["token"]
    return token


def test_only_what_one_needs_is_pulled(
    team: Team,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    own_home: Path,
) -> None:
    """By person, repository, time and id; a pull of all afterwards fetches the rest."""
    ada = team.token("Ada")
    bob = colleague(team, ada, "Bob")
    typed(monkeypatch, f"{ada}\n")
    put(own_home / ".claude", ONE, TALK)
    assert main(["team", "login", team.url]) == 0
    assert main(["team", "push"]) == 0
    home = elsewhere(monkeypatch, tmp_path / "second")
    put(home, TWO, TALK)
    typed(monkeypatch, f"{bob}\n")
    assert main(["team", "login", team.url]) == 0
    capsys.readouterr()

    def pulled(*options: str) -> list[str]:
        status = main(["team", "pull", "--json", *options])
        text = capsys.readouterr().out
        return sorted(json.loads(text)["sessions"]) if status == 0 else [f"exit {status}"]

    assert pulled("--mine") == []
    assert pulled("--repo", "example.org/nowhere") == []
    assert pulled("--since", "2999-01-01") == []
    assert pulled("--session", "never-there") == ["exit 3"]
    assert pulled("--session", ONE[:8]) == [ONE]
    assert pulled() == []
    elsewhere(monkeypatch, tmp_path / "third")
    typed(monkeypatch, f"{bob}\n")
    assert main(["team", "login", team.url]) == 0
    capsys.readouterr()
    assert pulled("--mine") == []
    assert pulled() == [ONE]


def test_the_team_is_asked_from_the_command_line(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_home: Path
) -> None:
    """List, search, show and share; what became private is no longer found by others."""
    put(own_home / ".claude", ONE, TALK)
    ada = team.token("Ada")
    bob = colleague(team, ada, "Bob")
    typed(monkeypatch, f"{ada}\n")
    assert main(["team", "login", team.url]) == 0
    assert main(["team", "push"]) == 0
    capsys.readouterr()

    def asked(*words: str) -> tuple[int, str]:
        status = main(["team", *words])
        return status, capsys.readouterr().out

    listed = json.loads(asked("list", "--json")[1])["sessions"]
    word = "Q2"
    assert [one["id"] for one in listed] == [ONE]
    assert ONE in asked("list", "--person", "Ada")[1]
    assert asked("list", "--person", "Bob") == (0, "")
    assert ONE in asked("search", word)[1]
    assert asked("search", "nowhereatall")[0] == 1
    assert word.lower() in asked("show", ONE)[1].lower()
    assert asked("share", ONE, "private")[0] == 0
    assert ONE in asked("list")[1]
    typed(monkeypatch, f"{bob}\n")
    assert main(["team", "login", team.url]) == 0
    capsys.readouterr()
    assert asked("list") == (0, "")
    assert asked("search", word)[0] == 1
    assert asked("show", ONE)[0] == 3
    assert asked("share", ONE, "organisation")[0] != 0
    assert asked("share", ONE, "world")[0] == 2
    assert asked("show")[0] == 2


def test_a_search_that_ended_early_says_how_to_go_on(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it, no hits would read as: the words are nowhere."""
    typed(monkeypatch, f"{team.token('Ada')}\n")
    assert main(["team", "login", team.url]) == 0
    monkeypatch.setattr(HttpRemote, "search", lambda *_, **__: LineHits([], True, 1_769_860_800_500))
    assert main(["team", "search", "alpha"]) == 1
    said = capsys.readouterr().err
    assert "only those after 2026-01-31T12:00:00Z were all looked at" in said
    assert "--until 2026-01-31T12:00:01Z goes on" in said


def test_a_session_of_the_team_is_named_by_the_beginning_of_its_id(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_home: Path
) -> None:
    """As lists shorten it, for show and share."""
    put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", TWO, TALK)
    typed(monkeypatch, f"{team.token('Ada')}\n")
    assert main(["team", "login", team.url]) == 0
    assert main(["team", "push"]) == 0
    capsys.readouterr()
    short = ONE[: next(n for n in range(4, 37) if ONE[:n] != TWO[:n])]
    assert main(["team", "show", short]) == 0
    assert "q2" in capsys.readouterr().out.lower()
    assert main(["team", "share", short, "private"]) == 0
    assert f"{ONE}: seen by only you" in capsys.readouterr().out
    assert main(["team", "show", "0" * 30]) == 3
    assert "not on the server" in capsys.readouterr().err
    assert main(["team", "show", ONE[:3]]) == 2


def test_a_filter_that_fits_no_session_is_named(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_home: Path
) -> None:
    """A misspelt name would else read as: there is nothing new."""
    put(own_home / ".claude", ONE, TALK)
    typed(monkeypatch, f"{team.token('Ada')}\n")
    assert main(["team", "login", team.url]) == 0
    assert main(["team", "push"]) == 0
    capsys.readouterr()

    def told(*words: str) -> str:
        assert main(list(words)) == 0
        return capsys.readouterr().err

    assert "no session there fits --repo nope;" in told("team", "pull", "--repo", "nope")
    assert "no session there fits --since 2999-01-01;" in told("team", "pull", "--since", "2999-01-01")
    assert told("team", "pull", "--mine") == ""
    assert told("team", "pull") == ""
    assert "no session that you see fits --person Adda --since 7d;" in told(
        "team", "list", "--person", "Adda", "--since", "7d"
    )
    assert told("team", "list", "--person", "Ada", "--since", "7d", "--until", "today") == ""


def test_budgets_of_persons_are_among_what_a_team_is_asked(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_home: Path
) -> None:
    put(own_home / ".claude", ONE, TALK)
    typed(monkeypatch, f"{team.token('Ada')}\n")
    assert main(["team", "login", team.url]) == 0
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "recollect" / "config.toml"
    config.write_text("[budget.persons.Ada]\nday = 1\n")
    capsys.readouterr()
    assert main(["limits", "--team", "--json"]) == 0
    (budget,) = json.loads(capsys.readouterr().out)["budgets"]
    assert (budget["name"], budget["spent_usd"]) == ("Ada", "0")


def test_members_list_and_revoke_their_own_tokens(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as that of a lost machine; this machine's is named as such."""
    ada = team.token("Ada")
    bob, lost = colleague(team, ada, "Bob"), ""
    with httpx.Client(base_url=team.url, headers={"Authorization": f"Bearer {ada}"}) as admin:
        (user,) = [one["id"] for one in admin.get("/v1/users").json()["users"] if one["name"] == "Bob"]
        made = admin.post("/v1/tokens", json={"user": user, "scopes": ["read"], "machine": "phone"}).json()
        lost, number = made["token"], made["id"]
    typed(monkeypatch, f"{bob}\n")
    assert main(["team", "login", team.url]) == 0
    capsys.readouterr()
    assert main(["team", "tokens"]) == 0
    own, other = sorted(capsys.readouterr().out.splitlines(), key=lambda line: "phone" in line)
    assert own.endswith("(this machine)")
    assert number in other
    assert "never used, no end  read" in other
    assert main(["team", "revoke", number[:8]]) == 0
    assert f"{number} is revoked." in capsys.readouterr().out
    assert httpx.get(f"{team.url}/v1/whoami", headers={"Authorization": f"Bearer {lost}"}).status_code == 401
    assert main(["team", "revoke", number]) == 3
    assert main(["team", "revoke"]) == 2
    capsys.readouterr()
    assert main(["team", "tokens", "--json"]) == 0
    assert {one["revoked"] is None for one in json.loads(capsys.readouterr().out)["tokens"]} == {True, False}


def test_sessions_of_other_agents_stay_in_the_store(
    account: Account,
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A pull into a home leaves them out in one line; one that is named alone is fetched, and refused there."""
    codex(own_home / ".codex")
    assert main(["team", "push"]) == 0
    home = elsewhere(monkeypatch, tmp_path / "other")
    work = tmp_path / "work"
    work.mkdir()
    account.log_in(monkeypatch)
    capsys.readouterr()
    pull, words = ["team", "pull"], ["--into-home", "--directory", str(work)]
    for named in (["--session", CHANGED[:6]], [CHANGED]):
        assert main([*pull, *named, *words, "--apply"]) == 2
        told = capsys.readouterr().err
        assert f"session {CHANGED}: a session of codex, and a Claude home takes only Claude's" in told
        assert "export S --to claude" in told
    assert main([*pull, *words]) == 0
    told = capsys.readouterr().err
    assert "left out: 2 sessions of codex, since a Claude home takes only Claude's; " in told
    assert told.count("\n") == 1
    assert main([*pull, *words, "--apply", "--json"]) == 0
    left = json.loads(capsys.readouterr().out)["left"]
    assert {CHANGED, UNTOUCHED} == {session for session, _ in left}
    assert {f"{ONE}.jsonl", f"{TWO}.jsonl"} == {path.name for path in home.rglob("*.jsonl")}


def test_a_pull_of_one_session_puts_only_it_into_the_home(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others that were fetched before stay in the store; the command to repeat names the session too."""
    assert main(["team", "push"]) == 0
    elsewhere(monkeypatch, tmp_path / "other")
    account.log_in(monkeypatch)
    assert main(["team", "pull"]) == 0
    capsys.readouterr()
    assert main(["team", "pull", "--session", TWO[:6], "--into-home", "--directory", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert ONE not in told
    assert f"  new     {TWO}  " in told
    assert f"--session {TWO[:6]} --into-home" in told


def test_a_pull_of_chosen_sessions_puts_only_them_into_the_home(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What --mine and --since leave out stays in the store, fetched before or not; the command to repeat names them too."""
    assert main(["team", "push"]) == 0
    elsewhere(monkeypatch, tmp_path / "other")
    account.log_in(monkeypatch, as_colleague=True)
    assert main(["team", "pull"]) == 0
    capsys.readouterr()
    words = ["--into-home", "--directory", str(tmp_path)]
    assert main(["team", "pull", "--mine", *words]) == 0
    assert "Nothing to put into the home." in capsys.readouterr().out
    assert main(["team", "pull", "--since", "1d", *words]) == 0
    told = capsys.readouterr().out
    assert f"  new     {ONE}  " in told
    assert "team pull --since 1d --into-home" in told


def test_a_pull_into_a_home_means_the_one_of_claude(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The home of another agent on this machine is not a second one that could be meant."""
    assert main(["team", "push"]) == 0
    home = elsewhere(monkeypatch, tmp_path / "other")
    codex(home.parent / ".codex")
    account.log_in(monkeypatch)
    assert main(["team", "pull", "--into-home", "--directory", str(tmp_path), "--apply"]) == 0
    assert {f"{ONE}.jsonl", f"{TWO}.jsonl"} == {path.name for path in home.rglob("*.jsonl")}
