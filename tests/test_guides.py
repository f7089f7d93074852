"""The commands of the guides exist, and what can be run on the sample home prints what its guide shows."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from recollect.cli.main import command_parser, global_options, main, resolve
from recollect.sample import sample_home
from tests.share.sync.conftest import Team, team

__all__ = ["team"]

GUIDES = Path(__file__).resolve().parents[1] / "docs" / "guides"
_FENCE = re.compile(r"^```(?:console)?\n(\$ .*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (recollect .+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
# Others need a server, another program, a session or a setting that the sample does not have.
RUN = (
    "recollect export 6ada --format html --output basket.html",
    "recollect export --project shop --format html --output shop-sessions",
    "recollect rules check 'Bash(git add -A && rm x)' --cwd shop",
    "recollect rules settings show --cwd shop",
    "recollect rules settings check --cwd shop",
    "recollect rules flags",
)
SETTINGS = """{
  "model": "opus",
  "permissions": {
    "allow": ["Bash(git add *)"],
    "deny": [
      "Bash(rm *)"
    ]
  }
}
"""
LOCAL_SETTINGS = '{\n  "cleanupPeriodDays": "30"\n}\n'


def examples() -> dict[str, str]:
    """Commands of the guides and what is shown for them; the first of two that are the same."""
    found: dict[str, str] = {}
    for guide in sorted(GUIDES.glob("*.md")):
        for shown in _FENCE.findall(guide.read_text(encoding="utf-8")):
            for command, output in _COMMAND.findall(shown):
                found.setdefault(command, output)
    return found


@pytest.mark.parametrize("command", examples())
def test_a_command_of_a_guide_exists(command: str) -> None:
    """With these options and words."""
    _, words = global_options(shlex.split(command.removesuffix("; echo $?"))[1:])
    name, arguments = resolve(words)

    command_parser(name).parse_args(arguments)


@pytest.mark.parametrize("command", RUN)
def test_a_command_of_a_guide_prints_what_it_shows(
    command: str, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word for word, but for sizes: in the sample home with the settings that the guides speak of."""
    shutil.copytree(sample_home(), own_home / ".claude")
    (own_home / ".claude" / "settings.json").write_text(SETTINGS)
    (own_home / "shop" / ".claude").mkdir(parents=True)
    if "check --cwd" in command and "settings" in command:
        (own_home / "shop" / ".claude" / "settings.local.json").write_text(LOCAL_SETTINGS)
    monkeypatch.chdir(own_home)

    main(shlex.split(command)[1:])

    printed = capsys.readouterr()
    told = (printed.out + printed.err).replace(str(own_home), "/home/me")
    assert _lines(examples()[command]) == _lines(told)


def test_what_sync_says_is_what_the_guide_shows(
    team: Team, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guide sends the sample twice; where the login is kept is said as it shows."""
    shutil.copytree(sample_home(), own_home / ".claude")
    guide = (GUIDES / "sync.md").read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO(team.token()))
    assert 0 == main(["team", "login", team.url])
    saved = capsys.readouterr().out.replace(str(own_home / "xdg-config"), "~/.config")
    assert [True] == [line in guide for line in saved.splitlines() if line.startswith("Saved in")]
    for _ in range(2):
        assert 0 == main(["team", "push"])
        assert f"$ recollect team push\n{capsys.readouterr().out}" in guide


def _lines(text: str) -> list[str]:
    """Without sizes, and without what this machine's administrator has set."""
    lines = re.sub(r"\d+(\.\d+)? kB", "SIZE", text).splitlines()
    return [line for line in lines if line and " managed: " not in line]
