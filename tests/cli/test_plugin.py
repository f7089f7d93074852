"""`recollect mcp plugin`: two keys of the settings, exact undo, and hooks that are off unless asked for."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from recollect import __version__
from recollect.ask.archive import archive_at
from recollect.change.plugin import plugin_directory
from recollect.cli.main import COMMANDS, command_parser, main, resolve
from tests.small_home import ONE, TALK, put

BEFORE = b'{\n  // kept\n  "model": "opus",\n  "enabledPlugins": {"other@place": true}\n}\n'.replace(
    b"  // kept\n", b""
)


class Settled:
    """A home with settings, and our own directory."""

    def __init__(self, root: Path) -> None:
        self.home, self.data = root / ".claude", root / "data"
        self.home.mkdir()
        self.file = self.home / "settings.json"

    def run(self, *words: str) -> int:
        return main(["--home", str(self.home), "--data", str(self.data), "mcp", "plugin", *words])

    @property
    def value(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_bytes())
        return found


@pytest.fixture
def settled(tmp_path: Path) -> Settled:
    return Settled(tmp_path)


def test_a_plan_changes_nothing_and_an_install_is_undone_to_the_last_byte(
    settled: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plugin alone: no hook, no status line; what was there stays."""
    settled.file.write_bytes(BEFORE)
    assert 0 == settled.run("install")
    assert (BEFORE, True) == (settled.file.read_bytes(), "Nothing was changed" in capsys.readouterr().out)

    assert 0 == settled.run("install", "--apply", "--json")
    undo = json.loads(capsys.readouterr().out)["undo"]
    assert settled.value == {
        "model": "opus",
        "enabledPlugins": {"other@place": True, "recollect@recollect": True},
        "extraKnownMarketplaces": {
            "recollect": {"source": {"source": "directory", "path": str(plugin_directory())}}
        },
    }
    assert 0 == main(undo.split()[1:])
    assert BEFORE == settled.file.read_bytes()


def test_removal_takes_out_what_install_put_in_and_nothing_else(settled: Settled) -> None:
    """Also from a file that the install made; a second removal has nothing to do."""
    for before in (BEFORE, b"{}\n", None):
        settled.file.unlink(missing_ok=True)
        if before is not None:
            settled.file.write_bytes(before)
        assert 0 == settled.run("install", "--archive", "--guard", "--status-line", "--apply")
        assert {"recollect@recollect", "recollect-archive@recollect", "recollect-guard@recollect"} <= set(
            settled.value["enabledPlugins"]
        )
        assert {"type": "command", "command": "recollect limits statusline"} == settled.value["statusLine"]
        assert 0 == settled.run("install", "--remove", "--apply")

        assert json.loads(before or b"{}") == settled.value
        assert 0 == settled.run("install", "--remove")


def test_another_status_line_stays_and_a_part_can_be_added_later(
    settled: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan says why; installing twice is nothing to do."""
    settled.file.write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    assert 0 == settled.run("install", "--status-line", "--apply")
    assert "statusLine: another command is set" in capsys.readouterr().out
    assert "mine" == settled.value["statusLine"]["command"]

    assert 0 == settled.run("install", "--apply")
    assert "nothing to do" in capsys.readouterr().out
    assert 0 == settled.run("install", "--guard", "--apply")
    assert settled.value["enabledPlugins"]["recollect-guard@recollect"] is True


def test_settings_that_are_no_json_are_refused(settled: Settled, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is changed."""
    settled.file.write_bytes(b"{broken")
    assert 2 == settled.run("install", "--apply")
    assert (b"{broken", True) == (settled.file.read_bytes(), "nothing was changed" in capsys.readouterr().err)
    assert 2 == settled.run("install", "--remove", "--guard")


def test_the_hook_archives_the_session_that_the_client_names(
    settled: Settled, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quietly. Whatever goes wrong, the status is never 2, which would stop a compaction."""
    log = put(settled.home, ONE, TALK)

    def asked(request: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(request.encode())))
        return settled.run("archive")

    assert 0 == asked(json.dumps({"session_id": ONE, "transcript_path": str(log), "hook_event_name": "x"}))
    assert ("", [ONE]) == (
        capsys.readouterr().out,
        [one.session for one in archive_at(settled.data).manifests()],
    )
    for request in ("", "[]", "{}", '{"session_id": "nowhere", "transcript_path": "/etc/passwd"}'):
        assert 1 == asked(request)
        assert "recollect mcp plugin archive: " in capsys.readouterr().err


def test_what_the_plugin_calls_exists() -> None:
    """Every command line in its files names a command, and its options, that this recollect has."""
    root = plugin_directory()
    texts = [path.read_text() for path in root.rglob("*") if path.suffix in (".md", ".json")]
    named = {words for text in texts for words in re.findall(r"`(recollect [a-z][^`]*)`", text)}
    named |= {words for text in texts for words in re.findall(r'"command": "(recollect[^"|]*)', text)}

    assert len(named) > 6
    for words in sorted(named):
        command, rest = resolve(words.split()[1:])
        assert command in COMMANDS, words
        options = {word for word in rest if word.startswith("--")}
        assert options <= set(command_parser(command)._option_string_actions), words


def test_versions_agree() -> None:
    """The plugins are released with recollect."""
    found = {
        json.loads(path.read_text())["version"]
        for path in plugin_directory().glob("*/.claude-plugin/plugin.json")
    }

    assert {__version__} == found


@pytest.mark.parametrize(
    "before", [None, b'{"statusLine": {"type": "command", "command": "mine"}, "a": 1}\n']
)
def test_the_status_line_is_set_and_its_undo_brings_back_every_byte(
    before: bytes | None, settled: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan changes nothing and shows what would be replaced; a second time there is nothing to do."""
    if before is not None:
        settled.file.write_bytes(before)
    words = ["--home", str(settled.home), "--data", str(settled.data)]

    def state() -> bytes | None:
        return settled.file.read_bytes() if settled.file.exists() else None

    assert 0 == main([*words, "limits", "statusline", "--install"])
    assert ("mine" in capsys.readouterr().out, before) == (before is not None, state())
    assert 0 == main([*words, "limits", "statusline", "--install", "--apply", "--json"])
    done = json.loads(capsys.readouterr().out)
    assert "recollect limits statusline" == settled.value["statusLine"]["command"]
    assert 0 == main([*words, "limits", "statusline", "--install", "--apply"])
    assert "set already" in capsys.readouterr().out
    assert 0 == main(done["undo"].split()[1:])
    assert before == state()
