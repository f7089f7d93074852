"""The plugin in the real client: valid, installed from the checkout, loaded, and off where it is not asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.archive import archive_at
from recollect.cli.main import main
from recollect.store.archive.restore import take_out
from tests.oracle.conftest import command_of
from tests.oracle.test_files_and_tasks import ScriptedStub
from tests.oracle.test_hook import Hooked
from tests.oracle.tool_client import running

MARKETPLACE = Path(__file__).resolve().parents[2] / "plugin"
COMMANDS = {"recollect:ask-the-past", "recollect:cost", "recollect:resume", "recollect:search"}


class PatientClient(Hooked):
    """Gives the hooks at the end of a session as long as they take."""

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS": "120000"}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooked]:
    """Client 2.1.325 that finds our program."""
    own = tmp_path / "bin"
    own.mkdir()
    program = own / "recollect"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m recollect "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(own), prepend=":")
    with running(ScriptedStub()) as stub:
        yield PatientClient("2.1.325", command_of("2.1.325"), tmp_path, stub)


def said(client: Hooked, *words: str) -> str:
    done = client.started(*words)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def loaded(client: Hooked) -> dict[str, Any]:
    """What the client says of itself when a session starts."""
    done = client.ask("Hello.", "--output-format", "stream-json", "--verbose")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return next(line for line in lines if line.get("subtype") == "init")


def install(client: Hooked, *words: str) -> None:
    client.config.mkdir(parents=True, exist_ok=True)
    data = str(client.config.parent / ".local" / "share" / "recollect")
    assert 0 == main(
        ["--home", str(client.config), "--data", data, "mcp", "plugin", "install", *words, "--apply"]
    )


def ours(found: dict[str, Any]) -> tuple[set[str], set[str], set[str]]:
    """Our plugins, commands and servers."""
    return (
        {one["name"] for one in found["plugins"] if "recollect" in one["name"]},
        {name for name in found["slash_commands"] if "recollect" in name},
        {one["name"] for one in found["mcp_servers"] if "recollect" in one["name"]},
    )


def test_every_manifest_is_valid_without_a_warning_and_installs_from_the_checkout(client: Hooked) -> None:
    """As a user would: validate, add the directory as a marketplace, install."""
    assert "✔ Validation passed\n" in said(client, "plugin", "validate", str(MARKETPLACE))
    said(client, "plugin", "marketplace", "add", str(MARKETPLACE))
    said(client, "plugin", "install", "recollect@recollect")

    assert ({"recollect"}, COMMANDS, {"plugin:recollect:recollect"}) == ours(loaded(client))


def test_our_install_is_loaded_archives_when_asked_to_and_is_gone_after_removal(client: Hooked) -> None:
    """Two keys of the settings are enough; without --archive no hook runs."""
    archive = archive_at(client.config.parent / ".local" / "share" / "recollect")
    install(client)
    assert ({"recollect"}, COMMANDS, {"plugin:recollect:recollect"}) == ours(loaded(client))
    assert [] == archive.manifests()

    install(client, "--archive")
    session = loaded(client)["session_id"]
    assert [session] == [one.session for one in archive.manifests()]

    install(client, "--remove")
    assert (set(), set(), set()) == ours(loaded(client))


WATCHED = """#!{python}
import json, subprocess, sys
from pathlib import Path

own, place = Path({own!r}), Path({place!r})
command = [sys.executable, "-m", "recollect", *sys.argv[1:]]
if sys.argv[1:4] != ["mcp", "plugin", "archive"]:
    sys.exit(subprocess.run(command).returncode)
request = sys.stdin.buffer.read()
status = subprocess.run(command, input=request).returncode
asked = json.loads(request)
kept = {{}}
from recollect.ask.archive import archive_at
from recollect.store.archive.restore import take_out
from recollect.store.logs.reader import OpenLog
archive = archive_at(place)
for one in archive.manifests():
    with OpenLog(archive.log_path(one)) as log:
        kept[one.session] = b"compact_boundary" in log.read(log.size(), 0)
told = [asked["hook_event_name"], asked["session_id"], status, kept]
with own.open("a") as file:
    file.write(json.dumps(told) + "\\n")
"""


def test_a_session_is_archived_before_it_is_compacted_and_when_it_ends(
    client: Hooked, tmp_path: Path
) -> None:
    """Each hook is seen: what it was given, how it ended, and what the archive then held of the session."""
    own, data = tmp_path / "fired", client.config.parent / ".local" / "share" / "recollect"
    program = tmp_path / "bin" / "recollect"
    program.write_text(WATCHED.format(python=sys.executable, own=str(own), place=str(data)))
    install(client, "--archive")
    session = loaded(client)["session_id"]
    archive = archive_at(data)
    assert [["SessionEnd", session, 0, {session: False}]] == _fired(own)
    take_out(archive, archive.find(session))

    done = client.ask("/compact", "--resume", session)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert (
        [
            ["PreCompact", session, 0, {session: False}],  # all that is about to be summed up
            ["SessionEnd", session, 0, {session: True}],
        ]
        == _fired(own)[1:]
    )


def _fired(own: Path) -> list[list[Any]]:
    return [json.loads(line) for line in own.read_text().splitlines()]


def test_the_guard_holds_back_what_the_client_would_run_and_lets_nothing_run(client: Hooked) -> None:
    """A denied command inside a shell: the client's own rules see ``sh``. What is not allowed is still asked about."""
    rules = {"permissions": {"allow": ["Bash(sh:*)"], "deny": ["Bash(touch no)"]}}
    client.config.mkdir(parents=True)
    (client.config / "settings.json").write_text(json.dumps(rules))
    client.run("sh -c 'touch no'")
    assert (client.cwd / "no").exists()
    (client.cwd / "no").unlink()

    install(client, "--guard")
    client.run("sh -c 'touch no'", "touch asked")

    assert (False, False) == ((client.cwd / "no").exists(), (client.cwd / "asked").exists())
