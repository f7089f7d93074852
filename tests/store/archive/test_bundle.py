"""Bundles: what is ours is taken in whole; what is hostile leaves not a byte behind."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from msgspec import structs

from recollect.errors import DamagedData, RecollectError, UsageError
from recollect.store.archive import bundle as bundle_module
from recollect.store.archive.archive import Archive
from recollect.store.archive.bundle import export_bundle, import_bundle
from recollect.store.archive.manifest import Manifest, encoded
from recollect.store.archive.objects import FrameSize, seek_table
from recollect.store.archive.restore import put_back
from tests.store.archive.kept_sessions import KEY, SESSION, added, lines, small_session
from tests.store.archive.test_archive import tree

Member = tuple[tarfile.TarInfo, bytes]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a hostile bundle may hold."""
    for name, most in (("_TOTAL_BYTES", 4 << 20), ("_MEMBER_BYTES", 2 << 20), ("_MEMBERS", 50)):
        monkeypatch.setattr(bundle_module, name, most)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive with one session."""
    home = tmp_path / "home"
    archive = Archive(tmp_path / "archive")
    added(archive, home, small_session(home))
    return archive


def plain(name: str, data: bytes = b"x", **fields: object) -> Member:
    """A member of a tar file."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def members_of(bundle: Path) -> list[Member]:
    with tarfile.open(bundle) as tar:
        return [(member, body.read()) for member in tar if (body := tar.extractfile(member)) is not None]


def written(path: Path, members: list[Member]) -> Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return path


def taken_in(archive: Archive, bundle: Path) -> list[Manifest]:
    with archive.adding():
        return import_bundle(archive, bundle)


def test_a_bundle_carries_sessions_to_another_archive(tmp_path: Path, archive: Archive) -> None:
    """What is exported here is restored there, byte for byte."""
    bundle = tmp_path / "sessions.tar"
    export_bundle(archive, archive.manifests(), bundle)
    other = Archive(tmp_path / "other")
    taken_in(other, bundle)
    put_back(other, other.find(SESSION), tmp_path / "elsewhere")
    assert tree(tmp_path / "home") == tree(tmp_path / "elsewhere")
    assert [] == other.verify()


def test_a_bundle_never_overwrites_a_file(tmp_path: Path, archive: Archive) -> None:
    """Exporting to a name that is taken is refused."""
    bundle = tmp_path / "sessions.tar"
    bundle.write_bytes(b"mine")
    with pytest.raises(UsageError):
        export_bundle(archive, archive.manifests(), bundle)
    assert b"mine" == bundle.read_bytes()


def test_two_states_of_a_session_are_both_kept(tmp_path: Path, archive: Archive) -> None:
    """A bundle of an older state does not take the newer one away, nor is it lost itself."""
    bundle = tmp_path / "sessions.tar"
    old = archive.find(SESSION)
    export_bundle(archive, [old], bundle)
    home = tmp_path / "other home"
    other = Archive(tmp_path / "other")
    newer = added(
        other, home, small_session(home, log=lines(7, seed=8)), at="2026-11-20T00:00:00+00:00"
    ).manifest
    (merged,) = taken_in(other, bundle)
    assert newer.log.stored == merged.log.stored
    assert old.log.stored in [one.stored for one in merged.earlier]
    assert [] == other.verify()


def test_an_import_does_not_displace_what_was_archived_here(tmp_path: Path, archive: Archive) -> None:
    """A bundle from the future with other bytes is kept as another state; one that continues the log counts."""
    mine = archive.find(SESSION)
    for name, log, expected in (
        ("other", lines(7, seed=8), mine.log.stored),
        ("longer", lines(40) + lines(2, seed=9), None),
    ):
        home, other = tmp_path / name, Archive(tmp_path / f"{name}-archive")
        theirs = added(other, home, small_session(home, log=log), at="9999-01-01T00:00:00+00:00").manifest
        export_bundle(other, [theirs], tmp_path / f"{name}.tar")
        (taken,) = taken_in(archive, tmp_path / f"{name}.tar")

        assert (expected or theirs.log.stored) == taken.log.stored == archive.find(SESSION).log.stored
        assert {mine.log.stored, theirs.log.stored} <= set(taken.objects().values())
        assert [] == archive.verify()


def hostile(members: list[Member], manifest: Manifest) -> Iterator[tuple[str, list[Member]]]:
    """Bundles that must be refused, each with a name; ``members`` are those of a sound one."""
    objects = [one for one in members if one[0].name.startswith("objects/")]
    name = f"sessions/{KEY}/{SESSION}.json"
    for bad in (
        "../escape", "/etc/passwd", "objects/../../escape", "objects/aa/../../../x", "sessions/../x.json", "a/b",
        "objects/zz/" + "a" * 64 + ".zst", "objects/aa/" + "b" * 64 + ".zst", "objects/aa/" + "A" * 64 + ".zst",
        "sessions/x/y.json/", "sessions//y.json", "sessions/x/.json", "sessions/x/y.jsonl", "sessions/x/y\n.json",
        "sessions/x/y.json\x00.png", "objects/aa", "manifest.json", "~/.ssh/authorized_keys", "C:\\windows\\x",
        "..\\..\\x", "sessions/" + "k" * 300 + "/y.json", "sessions/x/\u202ey.json", "Sessions/x/y.json",
        "sessions/CON/../y.json", "./sessions/x/y.json", "sessions/x/../x/y.json", "objects/aa/./x.zst",
    ):  # fmt: skip
        yield f"name {bad!a}", [*members, plain(bad)]
    kinds = {
        "symbolic link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE, "device": tarfile.CHRTYPE,
        "block device": tarfile.BLKTYPE, "pipe": tarfile.FIFOTYPE, "directory": tarfile.DIRTYPE,
    }  # fmt: skip
    for label, kind in kinds.items():
        link, _ = plain(name, b"")
        link.type, link.linkname = kind, "/etc/passwd"
        yield label, [*objects, (link, b"")]
        twin, _ = plain(objects[0][0].name, b"")
        twin.type, twin.linkname = kind, "../../../../etc/passwd"
        yield f"object as {label}", [(twin, b""), *members[1:]]
    yield "the same name twice", [*members, members[0]]
    yield "an object too few", members[1:]
    yield "no manifest", objects
    yield "a manifest of another session", [*objects, plain(f"sessions/{KEY}/other.json", encoded(manifest))]
    yield "a manifest without its hash", [*objects, plain(name, encoded(manifest).split(b"\n")[0] + b"\n")]
    yield "a manifest that is no JSON", [*objects, plain(name, b"{\n" + b"0" * 64 + b"\n")]
    yield "a manifest too large", [*objects, plain(name, b"x" * (3 << 20))]
    yield "too much in all", [*members, *(plain(f"sessions/k/{n}.json", b"x" * (1 << 20)) for n in range(5))]
    yield "too many", [plain(f"sessions/k/{n}.json") for n in range(60)]
    for label, path in {
        "out of the home": "../../x", "absolute": "/etc/x", "settings": "settings.json", "hooks": "hooks/x",
        "a dot file": "projects/../.claude.json", "commands": "commands/x.md", "empty": "", "NUL": "projects/a\0b",
    }.items():  # fmt: skip
        crooked = structs.replace(
            manifest, files=(*manifest.files, structs.replace(manifest.files[0], path=path))
        )
        yield f"manifest names {label}", [*objects, plain(name, encoded(crooked))]
    twice = structs.replace(manifest, files=(*manifest.files, manifest.files[0]))
    yield "manifest names a file twice", [*objects, plain(name, encoded(twice))]
    yield "manifest without files", [plain(name, encoded(structs.replace(manifest, files=())))]
    wrong = structs.replace(manifest.log.stored, size=5)
    shorter = structs.replace(
        manifest, files=(structs.replace(manifest.log, stored=wrong), *manifest.files[1:])
    )
    yield "a size that is not so", [*objects, plain(name, encoded(shorter))]
    flipped = bytearray(objects[0][1])
    flipped[len(flipped) // 2] ^= 1
    yield "a flipped bit", [plain(objects[0][0].name, bytes(flipped)), *members[1:]]
    yield "an object cut short", [plain(objects[0][0].name, objects[0][1][:-3]), *members[1:]]
    yield "an object that is no object", [plain(objects[0][0].name, b"hello"), *members[1:]]
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(1 << 20))
    packed = bomb * 40 + seek_table([FrameSize(len(bomb), 1 << 20)] * 40)
    yield "a bomb under another name", [plain(objects[0][0].name, packed), *members[1:]]
    deep, _ = plain(name, encoded(manifest))
    deep.pax_headers = {"path": "../../../escape"}
    yield "a path in an extended header", [*objects, (deep, encoded(manifest))]


def test_sixty_hostile_bundles_leave_nothing_behind(tmp_path: Path, archive: Archive) -> None:
    """Each is refused with a typed error; not one byte or link appears anywhere."""
    bundle = tmp_path / "sound.tar"
    export_bundle(archive, archive.manifests(), bundle)
    cases = list(hostile(members_of(bundle), archive.find(SESSION)))
    assert len(cases) >= 60
    refused, survived = 0, []
    for number, (label, members) in enumerate(cases):
        crooked = written(tmp_path / f"{number}.tar", members)
        target = Archive(tmp_path / f"t{number}" / "archive")
        try:
            taken_in(target, crooked)
            survived.append(label)
        except RecollectError:
            refused += 1
        left = [
            path
            for path in (tmp_path / f"t{number}").rglob("*")
            if not path.is_dir() and path.name != "archive.lock"
        ]
        if left:
            survived.append(f"{label}: {left}")
    assert [] == survived
    assert len(cases) == refused


@pytest.mark.parametrize("cut", [1, 511, 512, 700, 5_000])
def test_a_bundle_that_is_cut_short_is_refused(tmp_path: Path, archive: Archive, cut: int) -> None:
    """A download that ended early gives nothing, not a part."""
    bundle = tmp_path / "sessions.tar"
    export_bundle(archive, archive.manifests(), bundle)
    bundle.write_bytes(bundle.read_bytes()[:cut])
    other = Archive(tmp_path / "other")
    with pytest.raises(DamagedData):
        taken_in(other, bundle)
    assert [] == other.manifests()


def test_a_real_bomb_is_stopped_by_its_ratio(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that is what its manifest says, but unpacks to thousands of times its size, is refused."""
    home = tmp_path / "bomb home"
    files = small_session(home)
    files[0].write_bytes(b"\n" * (40 << 20))
    source = Archive(tmp_path / "source")
    added(source, home, files)
    bundle = tmp_path / "bomb.tar"
    export_bundle(source, source.manifests(), bundle)
    other = Archive(tmp_path / "other")
    monkeypatch.setattr(bundle_module, "_MEMBER_BYTES", 64 << 20)
    monkeypatch.setattr(bundle_module, "_TOTAL_BYTES", 64 << 20)
    with pytest.raises(DamagedData, match="times its size"), other.adding():
        import_bundle(other, bundle)
    assert [] == list(other.objects.names())
