"""K5: fifty secrets in a home, every command run over it: none comes out where it should not.

By design some commands show what the logs say: they are named in ``SHOW``, and with ``--no-redact``
so does export. Three places of ours keep bytes of the home on purpose: the archive, the trash, and the journal
of changes. The index holds the words of every text, in small letters, for that is what it is; it is not looked into
here. Everything else must be clean: what commands print elsewhere, every note and error, and our own files.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import COMMANDS, main
from tests.model.secrets.samples import SAMPLES, Dice
from tests.small_home import ONE, TWO, call, outcome, prompt, put, reply, said

KINDS = sorted(SAMPLES)[::4][:50]
CANARIES = {kind: SAMPLES[kind].make(Dice(f"canary {kind}")) for kind in KINDS}
SHOW = {"show", "files", "diff", "search", "limits", "list", "resume"}
KEPT = ("archive", "trash", "undo")
# What each command is run with; others get ANY. Nothing here goes on for ever or starts a client.
ARGUMENTS: dict[str, list[list[str]]] = {
    "search": [["canary"], ["canary", "--json"], ["canary", "--no-index"], ["(", "--regex"]],
    "cost": [[], ["--json"], ["--by", "session", "--explain"], ["--by", "nonsense"]],
    "export": [[ONE, "--format", form] for form in ("html", "md", "json", "jsonl", "flat", "pdf")]
    + [[ONE, "--whole", "--thinking"]],
    "resume": [[ONE, "--print"], ["--print", "nothing-like-it"]],
    "limits --watch": [["--help"]],
    "web": [["--help"]],
    "export --bundle": [["no/such/place"]],
    "team serve": [["--help"]],
    "team watch": [["--help"]],
    "limits statusline": [[]],
    "mv": [["/srv/app", "/srv/other"], ["/srv/app"], ["--split", "/srv/app"]],
    "data index": [["status"], ["rebuild"], ["nonsense"]],
    "rename": [[ONE, "New title"]],
    "tag": [[ONE, "tagged"]],
    "undo": [[], ["--json"], ["nothing-like-it"]],
    "data migrate": [["--list"], ["nonsense"]],
}
ANY = [[], ["--json"], [ONE], [ONE, "--json"], ["nothing-like-it"], ["--no-such-option"]]


def talk() -> list[dict[str, Any]]:
    """Every canary in prompt, thought, call and result; a title without one; a line that is damaged."""
    entries: list[dict[str, Any]] = [prompt(1, None, "A canary in every place")]
    number = 1
    for kind, secret in CANARIES.items():
        text = f"canary {SAMPLES[kind].before}{secret}{SAMPLES[kind].after} sings"
        use = call(f"toolu_{number}") | {"name": "Bash", "input": {"command": text}}
        thought = {"type": "thinking", "thinking": text, "signature": "c2ln"}
        entries += [
            prompt(number + 1, number, text),
            reply(number + 2, number + 1, thought, said(text), use),
            outcome(number + 3, number + 2, f"toolu_{number}", text),
        ]
        number += 3
    entries.append({"type": "custom-title", "customTitle": "Canaries", "sessionId": ONE})
    return entries


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home full of canaries, and commands that may have no row yet."""
    root = own_home / ".claude"
    log = put(root, ONE, talk())
    torn = f'{{"torn": "and a long way to go before it comes: {CANARIES[KINDS[0]]}\n'
    log.write_text(log.read_text() + torn)
    put(root, TWO, [prompt(1, None, "Nothing"), reply(2, 1, said("Here"))])
    (root / "history.jsonl").write_text(
        json.dumps(
            {
                "display": f"canary {CANARIES[KINDS[1]]}",
                "timestamp": 1,
                "project": "/srv/app",
                "sessionId": ONE,
            }
        )
        + "\n"
    )
    (root / "settings.json").write_text(json.dumps({"env": {"A_TOKEN": CANARIES[KINDS[2]]}}))
    return root


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """What a command prints, whatever becomes of it; nothing but our own errors may come out."""
    with contextlib.suppress(SystemExit):
        main(list(arguments))
    return capsys.readouterr()


def sightings(text: str) -> list[str]:
    """The canaries in a text, also by half of their letters."""
    return [
        kind for kind, secret in CANARIES.items() if len(secret) > 11 and secret[len(secret) // 2 :] in text
    ]


def our_files(own_home: Path) -> Iterator[Path]:
    for top in ("xdg-data", "xdg-cache", "xdg-config"):
        for path in (own_home / top).rglob("*"):
            parts = path.relative_to(own_home / top).parts
            is_index = path.name.startswith("index-")
            if path.is_file() and not is_index and not any(name in parts for name in KEPT):
                yield path


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_no_canary_comes_out(
    home: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """Never on stderr, on stdout only where showing logs is what the command is for, never in our own files."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    monkeypatch.chdir(own_home)  # some write a file that is named like a session
    for arguments in ARGUMENTS.get(command, ANY):
        shown, noted = run(capsys, *command.split(), *arguments)

        assert ([], arguments) == (sightings(noted), arguments)
        if command.partition(" ")[0] not in SHOW:
            assert ([], arguments) == (sightings(shown), arguments)
    assert [] == [
        (path.name, kind) for path in our_files(own_home) for kind in sightings(path.read_text("latin-1"))
    ]


def test_canaries_would_be_seen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The proof of the proof: where secrets are to be shown, all fifty are sighted."""
    shown, _ = run(capsys, "export", ONE, "--format", "jsonl", "--no-redact")
    long_enough = [kind for kind, secret in CANARIES.items() if len(secret) > 11]

    assert (50, long_enough) == (len(CANARIES), sightings(shown))
