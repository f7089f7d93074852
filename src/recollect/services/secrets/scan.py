"""Find credentials in a home, reported by kind, place and fingerprint; never by value.

``scan`` searches all files of one or several homes, or of some sessions, in one process per core if there is
much to read. Secrets on the allow list (``storage.secret_settings``) are counted and not listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

import recollect
from recollect.model.secrets.fingerprint import fingerprint
from recollect.model.secrets.needles import digest
from recollect.services.homes import Home
from recollect.services.indexing.file_results import file_results
from recollect.services.secrets.fingerprints import Fingerprints
from recollect.services.secrets.place_results import PlaceScan, SecretFinding
from recollect.services.secrets.places import HomePlaces, SecretPlace, distinct
from recollect.services.session import Session
from recollect.storage.config.secret_settings import ignored_secrets
from recollect.system.locations import data_dir
from recollect.system.pool import cores
from recollect.system.progress import ProgressCallback

# Below this, starting a process takes longer than searching here.
_WORTH_A_PROCESS = 16 << 20


class SecretScan(Struct, frozen=True):
    """The findings and how much was searched; ``ignored`` ones are left out.

    ``problems`` could not be read.
    """

    findings: list[SecretFinding]
    files: int
    bytes: int
    ignored: int
    problems: list[tuple[str, str]]
    notes: list[str]

    @property
    def secrets(self) -> int:
        """How many different secrets."""
        return len({(one.kind, one.fingerprint) for one in self.findings})


def scan(
    home: Home,
    sessions: Sequence[Session] | None = None,
    *,
    data: Path | None = None,
    everywhere: bool = False,
    progress: ProgressCallback | None = None,
    processes: int | None = None,
) -> SecretScan:
    """Every secret of some sessions, or of everything in the homes; ``everywhere``: and of the copies that we keep."""
    own = data_dir() if data is None else data
    fingerprints = Fingerprints(own)
    ignored = ignored_secrets()
    places, problems = _places(home, sessions)
    if everywhere:
        places = distinct([*places, *_copies(home, sessions, own)])
    findings: list[SecretFinding] = []
    done = read = passed = 0
    total = sum(place.size for place in places)
    for place, result in _results(home, places, fingerprints.key, processes):
        done += place.size
        read += result.bytes
        if result.problem is not None:
            problems.append((str(place.path), result.problem))
        for finding in result.findings:
            if f"{finding.kind}:{finding.fingerprint}" in ignored:
                passed += 1
            else:
                findings.append(finding)
        if progress is not None:
            progress(done, total)
    findings.sort(key=lambda one: (one.path, one.line, one.offset))
    return SecretScan(findings, len(places), read, passed, problems, fingerprints.notes)


def _results(
    home: Home, places: Sequence[SecretPlace], key: bytes, processes: int | None
) -> Iterator[tuple[SecretPlace, PlaceScan]]:
    """The result of each place; files that did not change since are not read again."""
    # Fingerprints depend on the key, so results of another key are results of other rules.
    rules = f"{recollect.__version__}-{digest()}-{fingerprint('rules', key)}"
    roots = [one.root for one in home.homes]
    with file_results("secrets", rules, roots, home.index_cache, is_wanted=home.has_index) as kept:
        unknown: list[SecretPlace] = []
        for place in places:
            known = None if place.only_own else kept.get(str(place.path), place.seen)
            if known is None:
                unknown.append(place)
            else:
                yield place, msgspec.msgpack.decode(known, type=PlaceScan)
        if not unknown:
            return
        # Only now: loading all that it takes to search is a good part of a scan where nothing changed.
        from recollect.services.secrets.file_scan import scan_places

        is_small = sum(place.size for place in unknown) < _WORTH_A_PROCESS
        count = (1 if is_small else cores()) if processes is None else processes
        # One more process would only wait for another.
        for place, data in scan_places(unknown, key, count if count > 1 else 0, home.index_cache):
            result = msgspec.msgpack.decode(data, type=PlaceScan)
            if result.state is not None and not place.only_own:
                kept.add(place.path, result.state, data)
            yield place, result


def _copies(home: Home, sessions: Sequence[Session] | None, data: Path) -> Iterator[SecretPlace]:
    from recollect.services.secrets.copies import copies

    if sessions is None:
        for one in home.homes:
            yield from copies(data, one)
    else:
        for session in sessions:
            yield from copies(data, session.home, session.id)


def _places(
    home: Home, sessions: Sequence[Session] | None
) -> tuple[list[SecretPlace], list[tuple[str, str]]]:
    listed: list[SecretPlace] = []
    problems: list[tuple[str, str]] = []
    if sessions is None:
        for one in home.homes:
            places = HomePlaces(one)
            listed += places.all()
            problems += places.problems
    else:
        for session in sessions:
            places = HomePlaces(session.home)
            listed += places.of(session)
            problems += places.problems
        # The prompt history is searched per session, each for its own lines.
        shared = [place for place in listed if place.only_own]
        return distinct(place for place in listed if not place.only_own) + shared, problems
    return distinct(listed), problems
