"""The command line as a user meets it: help, wrong use, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, command_parser, main
from tests.small_home import ONE, TALK, prompt, put, state

RECOLLECT = [sys.executable, "-m", "recollect"]


def test_help_names_every_command_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, each command on a line, something to paste, the exit codes."""
    assert 0 == main(["--help"])
    text = capsys.readouterr().out

    assert all(f"  {name}" in text for name in COMMANDS)
    assert "Example:" in text
    assert "Exit status:" in text


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it does, what it costs, a line to paste."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert 0 == ended.value.code
    assert "Example:\n  recollect" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["overviw"], 2, "unknown command 'overviw': did you mean overview?"),
        (["lsit"], 2, "unknown command 'lsit': did you mean list?"),
        (["--color", "pink", "list"], 2, "write auto, always or never"),
        (["\x1b[2J"], 2, "unknown command"),
        (["--home"], 2, "needs a directory"),
        (["--home", "/no/such/place"], 3, "no such directory"),
        (["--home", "/usr", "list"], 3, "not a Claude home"),
    ],
)
def test_wrong_use_says_what_to_do_next(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, without a traceback and without control characters, with the documented exit code."""
    assert code == main(arguments)
    captured = capsys.readouterr()

    assert (captured.out, True) == ("", words in captured.err)
    assert "\x1b" not in captured.err


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"completion", "statusline"}))
def test_a_wrong_home_is_an_error_for_every_command(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for those that would not look into it: an empty answer must not look like an empty home."""
    words = {
        "run": ["--", "true"],
        "agent": ["-p", "x"],
        "mv": ["/a", "/b"],
        "convert": ["x", "--to", "codex"],
        "lake": ["x", "--to", "s3://b/x"],
    }
    parser = command_parser(command)
    needed = [one for one in parser._actions if not one.option_strings and one.nargs in (None, "+")]
    values = [str(next(iter(one.choices))) if one.choices else "x" for one in needed]
    missing = tmp_path / "mistyped"

    assert 3 == main([command, "--home", str(missing), *words.get(command, values)])
    captured = capsys.readouterr()
    assert ("", True) == (captured.out, f"home {missing}: no such directory" in captured.err)


def test_a_directory_around_a_home_is_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "user" / ".claude" / "projects").mkdir(parents=True)

    assert 3 == main(["list", "--home", str(tmp_path / "user")])
    assert f"name {tmp_path}/user/.claude" in capsys.readouterr().err


def test_without_home_it_says_which_one_is_used(tmp_path: Path) -> None:
    """The password database knows one; what is then read, and written, must not be a surprise."""
    program = (
        "import os, pwd, sys\n"
        "os.environ.pop('HOME')\n"
        f"os.path.expanduser = lambda path: path.replace('~', {str(tmp_path)!r})\n"
        "from recollect.cli.main import main\n"
        "sys.exit(main(['list']))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert f"recollect: HOME is not set: using {tmp_path}\n" in ran.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """``recollect | head -1`` leaves no traceback."""
    command = f"{sys.executable} -m recollect --json | head -c 1"
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )

    assert (ran.stdout, ran.stderr) == ("{", "")


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupted command says so in one line."""

    def interrupted(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("recollect.cli.main._dispatch", interrupted)

    assert 130 == main([])
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["rm", "6ada"], ["rename", "6ada", "x"], ["tag", "6ada", "x"], ["fork", "6ada"]]
)
def test_the_sample_home_is_never_changed(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It is part of the package: --apply is refused, the plan is still shown."""
    from recollect.sample import sample_home
    from tools.build_sample_home import digest

    before = digest(sample_home())

    assert 2 == main(["--home", ":sample", *command, "--apply"])
    assert "cannot be changed" in capsys.readouterr().err
    assert 0 == main(["--home", ":sample", *command])
    assert before == digest(sample_home())


def test_a_stream_that_cannot_show_a_character_is_no_traceback() -> None:
    """What an ASCII terminal has no sign for is spelled out; a closed stdout is silence."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(
        [*RECOLLECT, "--home", ":sample", "list"], capture_output=True, text=True, env=environment, check=True
    )
    closed = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m recollect --home :sample list >&-"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "\\u2026" in shown.stdout
    assert "Traceback" not in shown.stderr + closed.stderr


def test_a_home_that_is_named_twice_is_one_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also through a link; otherwise every session would be ambiguous for ever."""
    from recollect.sample import sample_home

    link = tmp_path / "link"
    link.symlink_to(sample_home())

    assert 0 == main(["--home", str(sample_home()), "--home", str(link), "show", "6ada", "--json"])
    assert capsys.readouterr().out.startswith("{")


def test_arguments_are_hostile_too(capsys: pytest.CaptureFixture[str]) -> None:
    """An escape sequence in an option does not come back raw in the complaint about it."""
    with pytest.raises(SystemExit):
        main(["list", "--\x1b[31mx"])

    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--home", ":sample", "--json", "list"],
        ["--json", "list", "--home", ":sample"],
        ["list", "--home=:sample", "--json"],
        ["list", "--json", "--data", "DATA", "--home", ":sample"],
    ],
)
def test_global_options_stand_before_or_after_the_command(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == main([str(tmp_path) if word == "DATA" else word for word in words])
    assert 3 == len(json.loads(capsys.readouterr().out)["sessions"])


def test_what_follows_two_dashes_is_not_a_global_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--home", ":sample", "search", "--json", "--", "--home", "nowhere"])
    assert "--home nowhere" == json.loads(capsys.readouterr().out)["query"]


PLANS = {
    "rename": [ONE, "Another"],
    "tag": [ONE, "release"],
    "fork": [ONE],
    "rm": [ONE],
    "mv": ["/srv/app", "/srv/other"],
    "redact": [ONE],
    "repair": [ONE],
    "migrate": ["--to", "flat", ONE],
    "convert": [ONE, "--to", "codex"],
    "cleanup": ["--days", "0"],
    "plugin": ["install"],
    "fix": [],
}


@pytest.mark.parametrize("command", PLANS)
def test_a_plan_changes_nothing_and_can_be_typed(
    command: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a byte and not a time of the home; the line that it prints carries the plan out."""
    key = "sk-ant-api03-" + "qT7vLm2XbN9cRw4Z" * 6
    log = put(own_home / ".claude", ONE, [*TALK, prompt(9, len(TALK), f"key {key}")])
    if command in ("repair", "fix"):
        log.write_bytes(log.read_bytes() + b'{"type":"user","mess')
    before = state(own_home / ".claude")

    assert 0 == main([command, *PLANS[command]])
    out = capsys.readouterr().out
    assert before == state(own_home / ".claude")
    if command != "fix":
        assert f"Do it with: recollect {command} " in out
        assert "--apply" in out.rpartition("Do it with: ")[2]


@pytest.mark.parametrize(
    "words",
    [
        *(["show"], ["tree"], ["agents"], ["files"], ["export"], ["fork"], ["rm"], ["repair"], ["redact"]),
        *(["scan"], ["check"], ["todos"], ["history"], ["resume"], ["open"], ["archive", "add"]),
        *(["search", "x", "--session"], ["cost", "--session"]),
    ],
    ids=" ".join,
)
def test_a_session_that_is_not_there_ends_with_3(
    words: list[str], own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its name and a next step, and nothing on stdout."""
    put(own_home / ".claude", ONE, TALK)

    assert 3 == main([*words, "no-such-session"])
    captured = capsys.readouterr()
    assert ("", True) == (captured.out, "no-such-session" in captured.err)


BROKEN = """
import sys
class Broken:
    def find_spec(self, name, *rest):
        if name == sys.argv[1] or name.startswith(sys.argv[1] + "."):
            raise ImportError("this house is broken")
sys.meta_path.insert(0, Broken())
from recollect.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("house", ["recollect.guard", "recollect.server"])
def test_a_broken_house_does_not_break_the_others(house: str, own_home: Path) -> None:
    """Commands of the core go on: each is found by its name, and only its own modules are imported."""
    put(own_home / ".claude", ONE, TALK)
    for words in (["list"], ["--help"], ["show", ONE], ["cost"], ["export", ONE, "--no-redact"]):
        ran = subprocess.run(
            [sys.executable, "-c", BROKEN, house, *words], capture_output=True, text=True, check=False
        )
        assert (0, "") == (ran.returncode, ran.stderr)


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("config", "one of check, restore"),
        ("sync", "one of login, push, pull, status, watch, rotate, tokens, revoke"),
        ("archive", "ACTION"),
        ("tag", "S, TAG"),
    ],
)
def test_a_missing_word_is_named_by_its_choices(
    command: str, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What may be left out is not called required."""
    with pytest.raises(SystemExit):
        main([command])

    assert capsys.readouterr().err.endswith(f"the following arguments are required: {missing}\n")
