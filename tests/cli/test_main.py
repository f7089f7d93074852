"""The command line as a user meets it: help, wrong use, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, GROUPS, WORDS, command_parser, main, resolve
from tests.small_home import ONE, TALK, TWO, open_in_this_process, prompt, put, state

RECOLLECT = [sys.executable, "-m", "recollect"]


def test_help_names_every_word_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty-three words and five groups, in 24 rows of 80 columns; only completion is not told."""
    assert 0 == main(["--help"])
    text = capsys.readouterr().out

    assert [len(WORDS) - 1, []] == [28, [word for word in WORDS if not re.search(rf"\b{word}\b", text)][1:]]
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_commands(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also without a word, which is wrong use; a word that it does not have is refused."""
    assert [0, 2, 2] == [main([group, "--help"]), main([group]), main([group, "nonsense"])]
    captured = capsys.readouterr()

    assert all(f"  {name}  " in captured.out for name in COMMANDS if name.startswith(f"{group} "))
    assert f"unknown command '{group} nonsense'" in captured.err


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        ("", "", ""),
        ("--json", "", "--json"),
        ("show x --json", "show", "x --json"),
        ("show x --json --tree", "show --tree", "x --json"),
        ("show -- --tree", "show", "-- --tree"),
        ("export x --to codex", "export --to", "x --to codex"),
        ("export x --to=codex", "export --to", "x --to=codex"),
        ("protect now x", "protect now", "x"),
        ("protect --apply", "protect", "--apply"),
        ("rules", "rules", ""),
        ("undo now", "undo", "now"),
    ],
)
def test_words_and_the_options_that_choose_name_a_command(words: str, command: str, rest: str) -> None:
    assert (command, rest.split()) == resolve(words.split())


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_with_an_example(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it does, what it costs, a line to paste."""
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), *["--help"]] if command else ["--data", str(tmp_path), "--json", "--help"])

    assert 0 == ended.value.code
    assert "Example:\n  recollect" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["docter"], 2, "unknown command 'docter': did you mean doctor?"),
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


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"completion", "limits statusline", "rules hook"}))
def test_a_wrong_home_is_an_error_for_every_command(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for those that would not look into it: an empty answer must not look like an empty home."""
    words = {
        "protect rm": ["x"],
        "rules run": ["--", "true"],
        "agent": ["-p", "x"],
        "mv": ["/a", "/b"],
        "export --to": ["codex", "x"],
        "export --bundle": ["x"],
        "team lake": ["x", "--to", "s3://b/x"],
    }
    parser = command_parser(command)
    needed = [one for one in parser._actions if not one.option_strings and one.nargs in (None, "+")]
    values = [str(next(iter(one.choices))) if one.choices else "x" for one in needed]
    missing = tmp_path / "mistyped"

    assert 3 == main([*command.split(), "--home", str(missing), *words.get(command, values)])
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
    "command", [["rm", "6ada", "--apply"], ["rename", "6ada", "x"], ["tag", "6ada", "x"], ["fork", "6ada"]]
)
def test_the_sample_home_is_never_changed(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It is part of the package: what would change it is refused."""
    from recollect.sample import sample_home
    from tools.build_sample_home import digest

    before = digest(sample_home())

    assert 2 == main(["--home", ":sample", *command])
    assert "cannot be changed" in capsys.readouterr().err
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
    assert 2 == main(["list", "--\x1b[31mx"])

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
    "rm": [ONE],
    "mv": ["/srv/app", "/srv/other"],
    "secrets remove": [ONE],
    "doctor": [ONE, "--fix"],
    "data migrate": ["--to", "flat", ONE],
    "protect tidy": ["--older-than", "0d"],
    "mcp plugin": ["install"],
}


@pytest.mark.parametrize("command", PLANS)
def test_a_plan_changes_nothing_and_can_be_typed(
    command: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a byte and not a time of the home; the line that it prints carries the plan out."""
    key = "sk-ant-api03-" + "qT7vLm2XbN9cRw4Z" * 6
    log = put(own_home / ".claude", ONE, [*TALK, prompt(9, len(TALK), f"key {key}")])
    if command == "doctor":
        log.write_bytes(log.read_bytes() + b'{"type":"user","mess')
    before = state(own_home / ".claude")

    assert 0 == main([*command.split(), *PLANS[command]])
    out = capsys.readouterr().out
    assert before == state(own_home / ".claude")
    assert f"Do it with: recollect {command} " in out
    assert "--apply" in out.rpartition("Do it with: ")[2]


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["show"],
            ["show", "--tree"],
            ["show", "--sub-agents"],
            ["files"],
            ["export"],
            ["fork"],
            ["rm"],
            ["doctor", "--fix"],
            ["secrets", "remove"],
        ),
        *(
            ["secrets"],
            ["doctor"],
            ["show", "--todos"],
            ["show", "--prompts"],
            ["resume"],
            ["open"],
            ["protect", "now"],
        ),
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
        ("rules settings", "one of show, check, set, add, remove, unset"),
        ("team share", "S, WHO"),
        ("tag", "S, TAG"),
    ],
)
def test_a_missing_word_is_named_by_its_choices(
    command: str, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with an example; what may be left out is not called for."""
    assert 2 == main(command.split())

    told = capsys.readouterr().err
    assert told.startswith(f"recollect: {command}: needs {missing}\n  for example: recollect {command} ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "nothing-like-it", "--json"], 3),
        (["show", "--json"], 2),
        (["lsit", "--json"], 2),
        (["rules", "nonsense", "--json"], 2),
        (["list", "--nonsense", "--json"], 2),
        (["list", "--home", "/no/such/place", "--json"], 3),
    ],
)
def test_a_failure_is_a_document_too(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--json``, on stdout, beside the text on stderr, with the same exit code."""
    assert code == main(words)
    captured = capsys.readouterr()

    error = json.loads(captured.out)["error"]
    assert (code, True) == (error["exit_code"], bool(error["hint"]))
    assert captured.err.startswith(f"recollect: {error['message']}\n")


def test_what_several_sessions_fit_is_listed_in_the_document(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", f"{ONE[:-1]}2", TALK)

    assert 3 == main(["show", ONE[:4], "--json"])
    assert 2 == len(json.loads(capsys.readouterr().out)["error"]["matches"])


def test_a_document_that_was_begun_stays_the_only_one(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two removals the second is refused: what the first did is the document, the reason stands on stderr."""
    put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", TWO, TALK)
    open_in_this_process(own_home / ".claude", TWO)

    assert 5 == main(["rm", ONE, TWO, "--apply", "--json"])
    captured = capsys.readouterr()
    assert [ONE] == [one["session"] for one in json.loads(captured.out)["sessions"] if one["session"] == ONE]
    assert "a client has it open" in captured.err


def test_an_option_is_not_taken_for_one_that_is_not_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert [2, 2] == [main(["blame", "x", "--since", "7d"]), main(["list", "--sinc", "7d"])]
    told = capsys.readouterr().err
    assert [1, 1] == [told.count("did you mean"), told.count("did you mean --since?")]
