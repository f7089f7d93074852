"""A bundle cannot choose where it is written: whatever it names, only files of its own session appear in the home.

Each attempt is a bundle with a crooked manifest, often beside links that lie in the home already. It is imported and
restored. Before and after, everything around is compared: the home, a repository beside it, a directory outside.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import stat
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from recollect.ask import archive as keep
from recollect.cli.main import main
from recollect.errors import DamagedData, RecollectError
from recollect.store.archive.archive import Archive
from recollect.store.archive.bundle import export_bundle, import_bundle
from recollect.store.session_files import is_session_path
from tests.small_home import TWO
from tests.store.archive.kept_sessions import KEY, SESSION, added, small_session
from tests.store.archive.test_bundle import Member, members_of, plain, written

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
TRIES = 1_200 if TORTURE else 60
ROOMS = [
    "projects",
    "plans",
    "tasks",
    "todos",
    "file-history",
    "session-env",
    "hooks",
    "commands",
    "agents",
    "sessions",
]
NAMES = [
    SESSION, TWO, KEY, "-srv-other", "repo", ".git", "hooks", "pre-commit", "memory", "MEMORY.md", "hook-1.sh", "1.json",
    "settings.json", ".claude.json", "CLAUDE.md", "..", ".", "", "~", "a\0b", "a\nb", "\u202ex", "agent-x.jsonl", "agent-x.sh",
    "agent-x.meta.json", "agent-", "subagents", "tool-results", "custom-title.json", f"{SESSION}.jsonl", f"{TWO}.jsonl",
    f"{SESSION}-agent-{SESSION}.json", f"{TWO}-agent-{TWO}.json", f"{SESSION}{TWO}.json", f"{SESSION}.json", "x.md",
    SESSION.upper(), f"{SESSION} ", f"..\\{TWO}", "C:", "x" * 300, ".credentials.json", "history.jsonl", ".mcp.json",
]  # fmt: skip
WHOLE = [
    "../repo/.git/hooks/pre-commit", "/etc/cron.d/x", "projects/repo/.git/hooks/pre-commit", f"session-env/{TWO}/hook-1.sh",
    f"session-env/{SESSION}/hook-1.sh", f"projects/{KEY}/memory/MEMORY.md", f"todos/{TWO}-agent-{TWO}.json", "plans/x.md",
    f"projects/{KEY}/{TWO}/tool-results/x.txt", f"projects/{KEY}/{SESSION}/hooks/x", "settings.json", "CLAUDE.md",
    f"projects/{KEY}/agent-x.jsonl", f"projects/{KEY}/agent-x.meta.json", f"file-history/{TWO}/abc@v1",
]  # fmt: skip
FITTING = [
    f"projects/{KEY}/{SESSION}/tool-results/c.txt", f"tasks/{SESSION}/1.json", f"todos/{SESSION}-agent-{SESSION}.json",
    f"todos/{SESSION}.json", f"projects/{KEY}/{SESSION}/custom-title.json", f"file-history/{SESSION}/x@v2",
    f"projects/{KEY}/{SESSION}/subagents/a/agent-z.jsonl",
]  # fmt: skip
KEYS = [KEY, "repo", ".git", "..", "-srv-other", "memory", "", "a/b"]
SESSIONS = [SESSION, "memory", "agent-x", "..", SESSION.upper(), "CON", "settings"]
MODES = [0o600, 0o755, 0o4755, 0o777, -1, 1 << 40]
TIMES = [
    "2026-11-15T12:00:00+00:00",
    "2026-11-15",
    "yesterday",
    "2026-13-01T00:00:00+00:00",
    "9999-12-31T23:59:59Z",
    "",
    "-1",
]
# What this bundle may become, said once more and in another way than the code says it.
ALLOWED = re.compile(
    rf"(projects/{KEY}/({SESSION}\.jsonl|agent-[^/]*\.(jsonl|meta\.json)|{SESSION}/(custom-title\.json|tool-results/[^/]+"
    rf"|subagents/([^/]+/){{0,4}}agent-[^/]*\.(jsonl|meta\.json)))"
    rf"|(file-history|tasks)/{SESSION}/[^/]+|todos/{SESSION}(-agent-[^/]*)?\.json)",
    re.DOTALL,
)
World = dict[str, tuple[int, bytes]]


class Trick(NamedTuple):
    """One crooked manifest, and the link that lies in the home already."""

    manifest: dict[str, Any]
    link: str | None


def tricks(sound: dict[str, Any], world: Path, count: int) -> Iterator[Trick]:
    """Manifests that name other places, in every field that could lead to one."""
    rng = random.Random(14)
    links = [
        None,
        None,
        f"projects/{KEY}",
        f"projects/{KEY}/{SESSION}",
        f"tasks/{SESSION}",
        "todos/x",
        f"file-history/{SESSION}",
    ]
    for number in range(count):
        one = json.loads(json.dumps(sound))
        path = rng.choice([WHOLE[number % len(WHOLE)], rng.choice(FITTING), crooked_path(rng)])
        extra = one["files"][0] | {"path": path, "mode": rng.choice(MODES[:4] * 4 + MODES)}
        one[rng.choice(["files", "files", "files", "earlier"])].append(
            extra | {"archived_at": rng.choice(TIMES[:1] * 20 + TIMES)}
        )
        one["home"] = rng.choice(
            [str(world / "home"), str(world), str(world / "repo"), "/", "", "~", "../.."]
        )
        one["is_own"] = rng.random() < 0.5
        if rng.random() < 0.2:
            one["project_key"] = rng.choice(KEYS)
        if rng.random() < 0.1:
            one["session"] = rng.choice(SESSIONS)
        if rng.random() < 0.2:
            one[rng.choice(["first_at", "last_at", "archived_at"])] = rng.choice(TIMES)
        if rng.random() < 0.1:
            one["files"][0]["path"] = path
        yield Trick(one, rng.choice(links))


def crooked_path(rng: random.Random) -> str:
    parts = [rng.choice(ROOMS), *rng.choices(NAMES, k=rng.randint(0, 4))]
    if rng.random() < 0.3:
        parts = ["projects", KEY, SESSION, *parts[1:]]
    return rng.choice(["", "", "", "./", "/"]) + "/".join(parts)


def manifest_bytes(manifest: dict[str, Any]) -> bytes:
    line = msgspec.json.encode(manifest)
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def laid_out(world: Path, link: str | None) -> None:
    """A home with another session's files, a repository, and a directory outside; perhaps a link into it."""
    shutil.rmtree(world, ignore_errors=True)
    for name in (
        f"home/projects/-srv-other/{TWO}.jsonl", f"home/session-env/{TWO}/hook-0.sh", f"home/todos/{TWO}-agent-{TWO}.json",
        f"home/projects/{KEY}/memory/notes.md", "repo/.git/config", "outside/precious", "home/settings.json",
    ):  # fmt: skip
        (world / name).parent.mkdir(parents=True, exist_ok=True)
        (world / name).write_text(name)
    if link is not None:
        place = world / "home" / link
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(world / "outside")


def seen(world: Path) -> World:
    """Every file below the world, links not followed, with mode and bytes."""
    found: World = {}
    for above, _, names in os.walk(world):
        for name in names:
            path = Path(above, name)
            mode = path.lstat().st_mode
            found[path.relative_to(world).as_posix()] = (
                mode,
                path.read_bytes() if stat.S_ISREG(mode) else b"",
            )
    return found


def attempt(archive: Archive, world: Path, bundle: Path) -> str:
    """Import and restore it the way the command does; says how far it came."""
    try:
        with archive.adding():
            (taken,) = import_bundle(archive, bundle)
    except RecollectError:
        return "refused at import"
    try:
        home = keep.restore_home(taken, [world / "home"], are_named=False)
        keep.restore(archive, taken, home)
    except RecollectError:
        return "refused at restore"
    return "restored"


@pytest.fixture
def sound(tmp_path: Path) -> tuple[dict[str, Any], list[Member]]:
    """The manifest of a sound bundle, and its objects."""
    home = tmp_path / "source"
    archive = Archive(tmp_path / "source-archive")
    added(archive, home, small_session(home))
    export_bundle(archive, archive.manifests(), tmp_path / "sound.tar")
    members = members_of(tmp_path / "sound.tar")
    objects = [one for one in members if one[0].name.startswith("objects/")]
    (text,) = [data for info, data in members if info.name.startswith("sessions/")]
    return json.loads(text.split(b"\n")[0]), objects


def test_no_bundle_writes_anything_but_files_of_its_session(
    tmp_path: Path, sound: tuple[dict[str, Any], list[Member]]
) -> None:
    """Nothing outside the home, nothing of another session, no file with another mode than 0600, no link followed."""
    manifest, objects = sound
    world, ends, wrong = tmp_path / "world", Counter[str](), []
    for number, trick in enumerate(tricks(manifest, world, TRIES)):
        laid_out(world, trick.link)
        before = seen(world)
        name = f"sessions/{trick.manifest['project_key']}/{trick.manifest['session']}.json"
        bundle = written(tmp_path / "trick.tar", [*objects, plain(name, manifest_bytes(trick.manifest))])
        archive = keep.archive_at(tmp_path / "data" / str(number))
        ends[attempt(archive, world, bundle)] += 1
        after = seen(world)
        new = {path: found for path, found in after.items() if before.get(path) != found}
        bad = [path for path, (mode, _) in new.items() if not is_expected(path, mode)]
        if bad or set(before) - set(after):
            wrong.append((trick.manifest["files"][-1]["path"], trick.link, bad))
        shutil.rmtree(tmp_path / "data", ignore_errors=True)

    print(f"\nbundle tricks: {TRIES} tried, {dict(ends)}, {len(wrong)} outside")
    assert [] == wrong
    assert all(ends[end] for end in ("refused at import", "refused at restore", "restored"))


def is_expected(path: str, mode: int) -> bool:
    fits = path.startswith("home/") and ALLOWED.fullmatch(path.removeprefix("home/")) is not None
    return fits and stat.S_ISREG(mode) and stat.S_IMODE(mode) == 0o600


def test_the_grammar_of_both_ways_in_is_the_one_that_is_said_here() -> None:
    """Over generated paths, the rule says yes exactly where an independent pattern does."""
    rng = random.Random(3)
    for _ in range(20_000):
        path = crooked_path(rng)
        parts = path.split("/")
        is_plain = all(part not in ("", ".", "..") for part in parts)
        expected = bool(ALLOWED.fullmatch(path))
        if is_plain:
            assert expected == is_session_path(parts, KEY, SESSION), path


@pytest.mark.parametrize("field", ["first_at", "last_at", "archived_at"])
@pytest.mark.parametrize(
    "time",
    ["", "yesterday", "2026-11-15", "2026-11-15T12:00:00", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z"],
)
def test_a_time_that_is_none_is_refused_at_import(
    tmp_path: Path, sound: tuple[dict[str, Any], list[Member]], field: str, time: str
) -> None:
    """Not later, by every `archive list`."""
    manifest, objects = sound
    name = f"sessions/{KEY}/{SESSION}.json"
    bundle = written(tmp_path / "x.tar", [*objects, plain(name, manifest_bytes(manifest | {field: time}))])
    archive = keep.archive_at(tmp_path / "data")
    with pytest.raises(DamagedData, match="is not a time"), archive.adding():
        import_bundle(archive, bundle)

    assert [] == archive.names()


def test_the_plan_lists_every_target(
    tmp_path: Path, sound: tuple[dict[str, Any], list[Member]], capsys: pytest.CaptureFixture[str]
) -> None:
    """And goes into the home that was named, whatever the bundle says; what is left out is listed too."""
    manifest, objects = sound
    extra = manifest["files"][0] | {"path": f"session-env/{SESSION}/hook-1.sh", "mode": 0o755}
    crooked = manifest | {
        "home": str(tmp_path / "elsewhere"),
        "files": [*manifest["files"], extra],
        "is_own": True,
    }
    name = f"sessions/{KEY}/{SESSION}.json"
    bundle = written(tmp_path / "x.tar", [*objects, plain(name, manifest_bytes(crooked))])
    home, options = tmp_path / "named", ["--home", str(tmp_path / "named"), "--data", str(tmp_path / "data")]
    home.mkdir()
    (tmp_path / "elsewhere").mkdir()
    assert 0 == main([*options, "import", str(bundle), "--archive", "--apply"])
    assert 0 == main([*options, "protect", "restore", SESSION])
    told = capsys.readouterr().out
    assert 0 == main([*options, "protect", "restore", SESSION, "--apply", "--json"])

    paths = {str(home / file["path"]) for file in manifest["files"]}
    assert all(path in told for path in paths)
    assert paths == set(json.loads(capsys.readouterr().out)["sessions"][0]["paths"])
    assert paths == {str(path) for path in home.rglob("*") if path.is_file()}
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_a_session_of_this_machine_returns_with_everything(tmp_path: Path) -> None:
    """What was archived here is restored whole: a plan, a shell environment, an odd file, and their modes."""
    home = tmp_path / "home"
    files = small_session(home)
    for name in ("plans/a.md", f"session-env/{SESSION}/hook.sh", f"projects/{KEY}/{SESSION}/odd/file"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
        (home / name).chmod(0o700)
        files.append(home / name)
    archive = keep.archive_at(tmp_path / "data")
    added(archive, home, files)
    before = {path: mode & 0o7700 for path, (mode, _) in seen(home).items()}
    shutil.rmtree(home)
    home.mkdir()
    manifest = archive.find(SESSION)
    keep.restore(archive, manifest, keep.restore_home(manifest, [tmp_path / "other"], are_named=False))

    assert {path: mode & 0o7700 for path, (mode, _) in seen(home).items()} == before


def test_a_tar_file_with_an_agent_of_another_session_is_refused(tmp_path: Path) -> None:
    """A log beside the session's belongs to the session that its lines name."""
    home, source = tmp_path / "home", Archive(tmp_path / "source")
    files = small_session(home)
    for name, owner in (("agent-mine", SESSION), ("agent-theirs", TWO)):
        files.append(home / "projects" / KEY / f"{name}.jsonl")
        files[-1].write_text(json.dumps({"type": "user", "sessionId": owner}) + "\n")
    added(source, home, files[:-1])
    export_bundle(source, source.manifests(), tmp_path / "mine.tar")
    added(source, home, files)
    export_bundle(source, source.manifests(), tmp_path / "theirs.tar")
    target = keep.archive_at(tmp_path / "data")
    with target.adding():
        assert 1 == len(import_bundle(target, tmp_path / "mine.tar"))
    with pytest.raises(DamagedData, match="agent-theirs"), target.adding():
        import_bundle(target, tmp_path / "theirs.tar")
    assert tarfile.is_tarfile(tmp_path / "theirs.tar")
