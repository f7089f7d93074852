"""Links in a home: the user's own layout works with every command, and nothing outside is changed by any of them."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from recollect.cli.main import main
from tests.secret_home import token
from tests.small_home import ONE, TALK, TWO, lines, prompt, put

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
LAYOUTS = 60 if TORTURE else 4
KEY = "-srv-app"
LOG, SIDE = f"projects/{KEY}/{ONE}.jsonl", f"projects/{KEY}/{ONE}"
# Each command, as a person would give it; an archive or a trash is filled by those before it.
COMMANDS = [
    ["rename", ONE, "Title"], ["tag", ONE, "mine"], ["doctor", ONE, "--fix"], ["doctor", ONE, "--fix", "--copy"], ["secrets", "remove", ONE],
    ["data", "migrate", ONE, "--to", "2"], ["fork", ONE], ["protect", "now"], ["protect", "tidy", "--older-than", "0d"],
    ["protect", "restore", ONE], ["rm", ONE], ["undo", ONE], ["mv", "/srv/app", "/srv/new"],
    ["mv", f"--split={KEY}"],
]  # fmt: skip
# Where a link may lie below the home's own directories, and what it may lead to.
PLACES = [
    LOG,
    SIDE,
    f"projects/{KEY}",
    f"{SIDE}/subagents",
    f"{SIDE}/subagents/agent-a1.jsonl",
    f"file-history/{ONE}",
    f"tasks/{ONE}",
]
ROOMS = ["projects", "tasks", "file-history", "todos"]


class Layout(NamedTuple):
    """How a home lies: is it a link itself, which of its directories are, and what is a link below them."""

    home_is_link: bool
    rooms: tuple[str, ...]
    inner: str | None
    leads: str

    @property
    def is_the_users(self) -> bool:
        return self.inner is None


def layouts(count: int) -> Iterator[Layout]:
    rng = random.Random(11)
    fixed = [("", ()), ("", ("projects",)), (LOG, ()), (f"projects/{KEY}", ())]
    for number in range(count):
        inner, rooms = fixed[number] if number < len(fixed) else (rng.choice(["", *PLACES]), ())
        rooms = rooms or tuple(room for room in ROOMS if rng.random() < 0.3)
        leads = "outside" if number < len(fixed) else rng.choice(["outside", "inside", "nowhere", "itself"])
        yield Layout(rng.random() < 0.3, tuple(rooms), inner or None, leads)


def laid_out(world: Path, layout: Layout) -> Path:
    """A damaged session with a secret and everything a session may have, and a second one; then the links."""
    shutil.rmtree(world, ignore_errors=True)
    root = world / "disk" / "home" if layout.home_is_link else world / "home"
    log = put(root, ONE, [*TALK, prompt(5, 4, token("log"))])
    log.write_bytes(log.read_bytes().replace(b"\n", b"", 1) + b'{"type":"user","mess')
    put(root, TWO, TALK, "/srv/other")
    agent = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(lines([prompt(9, None, token("agent"))]))
    for name in (
        f"file-history/{ONE}/0123456789abcdef@v1",
        f"tasks/{ONE}/1.json",
        f"todos/{ONE}-agent-{ONE}.json",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    (world / "outside").mkdir(parents=True)
    if layout.inner is not None:
        _replaced_by_link(root / layout.inner, world, root, layout.leads)
    for room in layout.rooms:
        _moved_behind_link(root / room, world / "disk" / room)
    if layout.home_is_link:
        (world / "home").symlink_to(root)
    return world / "home"


def _replaced_by_link(place: Path, world: Path, root: Path, leads: str) -> None:
    if leads in ("outside", "inside"):
        _moved_behind_link(place, (world / "outside" if leads == "outside" else root) / f"real-{place.name}")
        return
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(place.name if leads == "itself" else world / "nowhere")


def _moved_behind_link(place: Path, real: Path) -> None:
    real.parent.mkdir(parents=True, exist_ok=True)
    place.rename(real)
    place.symlink_to(real)


def outside(world: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(world)): path.read_bytes()
        for path in sorted((world / "outside").rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


AT_ONCE = ("rename", "tag", "fork")


def run(world: Path, words: list[str]) -> int:
    options = ["--home", str(world / "home"), "--data", str(world / "data")]
    return main(
        [*options, *words]
        if words[0] in AT_ONCE or words[:2] == ["protect", "now"]
        else [*options, *words, "--apply"]
    )


def test_no_command_changes_what_a_link_leads_to_outside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command ends with a status of ours; where only the user's own layout has links, it does its work."""
    done, wrong = Counter[str](), []
    for layout in layouts(LAYOUTS):
        for words in COMMANDS:
            world = tmp_path / "world"
            if words not in (["protect", "restore", ONE], ["undo", ONE]):
                laid_out(world, layout)
            before = outside(world)
            code = run(world, words)
            done["tried"] += 1
            done["done" if code == 0 else "refused"] += 1
            changed = outside(world) != before
            fails = (
                layout.is_the_users
                and code != 0
                and words[:2] not in (["data", "migrate"], ["protect", "tidy"])
            )
            if changed or code not in (0, 1, 2, 3, 4, 5, 74) or (fails and "--split" not in words[1]):
                wrong.append((layout, words, code, changed))
    told = capsys.readouterr()
    with capsys.disabled():
        print(f"\nlink tricks: {dict(done)}, {len(wrong)} outside or failed")

    assert [] == wrong, told.err[-500:]
    assert done["done"] * 3 > done["tried"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_home_with_a_linked_directory_is_changed_and_changed_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], room: str
) -> None:
    """A redaction, its undo, a removal and a restore: every byte is as before, behind the link."""
    home = laid_out(tmp_path / "w", Layout(False, (room,), None, ""))
    before = {str(path): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    log = (home / LOG).read_bytes()
    assert 0 == run(tmp_path / "w", ["secrets", "remove", ONE])
    redacted = (home / LOG).read_bytes()
    capsys.readouterr()
    assert 0 == main(["--data", str(tmp_path / "w" / "data"), "undo", "--json"])
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert 0 == run(tmp_path / "w", ["undo", change["id"]])
    assert 0 == run(tmp_path / "w", ["rm", ONE])
    gone = not (home / LOG).exists()
    assert 0 == run(tmp_path / "w", ["undo", ONE])

    assert (True, True, log) == (redacted != log, gone, (home / LOG).read_bytes())
    assert before == {str(path): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    assert (home / room).is_symlink()


@pytest.mark.parametrize(
    ("link", "reason"),
    [(LOG, "its log is a link"), (f"projects/{KEY}", "it lies outside the home, behind a link")],
)
def test_a_linked_session_stays_and_does_not_stop_the_clean_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str, reason: str
) -> None:
    """The others go; the link and what it leads to are as before, and the plan says why."""
    home = laid_out(tmp_path / "w", Layout(False, (), link, "outside"))
    before = outside(tmp_path / "w")
    assert 0 == run(tmp_path / "w", ["protect", "tidy", "--older-than", "0d", "--json"])
    document = json.loads(capsys.readouterr().out)

    assert {ONE: reason, TWO: None} == {one["session"]: one["kept_because"] for one in document["sessions"]}
    assert (True, before) == ((home / link).is_symlink(), outside(tmp_path / "w"))
    assert [] == list(home.glob(f"projects/*/{TWO}.jsonl"))
