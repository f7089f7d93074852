"""`check` never cries wolf: what it says about sessions fresh from a client, about real logs, and about planted damage."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from recollect.ask.doctor.check import check
from recollect.ask.library import Home
from recollect.model.checks.rules import Severity
from recollect.model.lines import codec
from recollect.model.lines.blocks import TextBlock
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Assistant, Entry, System, User
from recollect.model.repair.plan import Diagnosis, diagnosed
from tests.model.checks.planted import ENDS, PLANTS, SESSION, SHAPES, Log, combined, planted, sound, touched
from tests.model.repair.mended_bytes import source_of
from tests.needs import TRANSCRIPTS
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.fresh import VERSIONS, is_possible, program_of, recorded_logs, write_sessions
from tests.oracle.rates.rate import Rate
from tests.oracle.trouble import trouble_with

COMBINED = 1000


def measure() -> Iterator[Rate]:
    """Every rate that can be measured on this machine."""
    with tempfile.TemporaryDirectory() as place:
        yield _recorded(Path(place))
        if is_possible():
            yield from _fresh(Path(place))
    yield from _planted()
    if (TRANSCRIPTS / "corpus").is_dir():
        yield _corpus()


def matters(root: Path) -> list[str]:
    """The errors and warnings of a home."""
    home = Home(root, data=root.parent / "data")
    report = check(home, data=root.parent / "data", with_secrets=False)
    return [
        f"{one.severity} {one.code} in {one.session}, line {one.line}: {one.what}"
        for one in report.findings
        if one.severity is not Severity.INFO
    ]


# ---- fresh sessions --------------------------------------------------------------------------------------


def recorded_findings(place: Path) -> Iterator[tuple[str, list[str]]]:
    """The errors and warnings of each recorded home."""
    for (version, scenario), logs in recorded_logs().items():
        root = place / f"{version}-{scenario}"
        for name, data in logs.items():
            path = root / "projects" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)
        yield f"{version} {scenario}", matters(root)


def _recorded(place: Path) -> Rate:
    found = dict(recorded_findings(place))
    wrong = [f"{name}: {one}" for name, findings in found.items() for one in findings]
    clean = sum(not findings for findings in found.values())
    return Rate("recorded fresh homes without finding", clean, len(found), 1, tuple(wrong))


def _fresh(place: Path) -> Iterator[Rate]:
    for version in VERSIONS:
        if program_of(version) is None:
            continue
        clean, wrong, total = 0, [], 0
        for scenario, config in write_sessions(version, place / version):
            found = matters(config)
            total += 1
            clean += not found
            wrong += [f"{scenario}: {one}" for one in found]
        yield Rate(f"scenarios fresh from {version} without finding", clean, total, 1, tuple(wrong))


# ---- planted damage --------------------------------------------------------------------------------------


def diagnosis_of(log: Log) -> Diagnosis:
    return diagnosed(structs.replace(source_of(log.data, SESSION), log=log.identity))


def singles() -> Iterator[tuple[str, list[str], Log]]:
    """Every kind of damage in every shape, and the sound shapes."""
    for shape in SHAPES:
        yield shape, [], sound(shape)
        for name in [*PLANTS, *ENDS]:
            yield shape, [name], planted(shape, [name])


def _planted() -> Iterator[Rate]:
    exact = total = reported = expected = right = mends = sound_mends = 0
    wrong: list[str] = []
    for shape, names, log in [*singles(), *combined(COMBINED)]:
        diagnosis = diagnosis_of(log)
        found = set(diagnosis.counts)
        total += 1
        exact += found == log.codes
        reported, expected, right = (
            reported + len(found),
            expected + len(log.codes),
            right + len(found & log.codes),
        )
        if found != log.codes:
            wrong.append(f"{shape}, {names}: missing {log.codes - found}, false {found - log.codes}")
        mends += diagnosis.repair is not None
        sound_mends += diagnosis.repair is not None and not touched(log, diagnosis)
    yield Rate("planted logs: exactly the planted codes", exact, total, 1, tuple(wrong))
    yield Rate("planted logs: precision of codes", right, reported, 1)
    yield Rate("planted logs: recall of codes", right, expected, 1)
    yield Rate("repairs that touch only lines with errors", sound_mends, mends, 1)


# ---- the corpus ------------------------------------------------------------------------------------------


def _corpus() -> Rate:
    """Errors on real logs: one is explained where the client fails, or does not send what the log says."""
    errors: list[tuple[Path, str]] = []
    for log in sorted((TRANSCRIPTS / "corpus").glob("*/projects/**/*.jsonl")):
        found = diagnosed(source_of(log.read_bytes(), log.stem)).findings
        errors += [(log, one.code) for one in found if one.severity is Severity.ERROR]
    program = program_of("2.1.325") if is_possible() else None
    explained, told = 0, []
    with running_stub() as stub, tempfile.TemporaryDirectory() as place:
        client = Client("2.1.325", [str(program)], Path(place), stub) if program is not None else None
        for log, code in errors:
            said = spoken(log.read_bytes())
            trouble = trouble_with(client, SESSION, log.read_bytes(), said) if client else ["not asked"]
            explained += bool(trouble) and client is not None
            told.append(f"{log.name}: {code}: {len(trouble)} of {len(said)}: {'; '.join(trouble)[:120]}")
    if not errors:
        return Rate("real logs: errors that the client explains", 1, 1, 1, ("there is no error",))
    return Rate("real logs: errors that the client explains", explained, len(errors), 1, tuple(told))


def spoken(log: bytes) -> tuple[str, ...]:
    """The beginning of each text that a log says after its last compaction, as the request would hold it."""
    texts: list[str] = []
    for line in log.splitlines():
        item = codec.decode(Line(line))
        body = item.body if isinstance(item, Entry) else None
        if isinstance(body, System) and body.subtype == "compact_boundary":
            texts.clear()
        elif isinstance(body, User | Assistant) and not body.is_sidechain:
            texts += [block.text for block in body.message.blocks if isinstance(block, TextBlock)]
    return tuple(json.dumps(text[:30])[1:-1] for text in texts if text.strip())
