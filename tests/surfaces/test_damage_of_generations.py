"""Whatever a mirrored log says of generations and damage, every reader of it counts the same, wherever it begins to read."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from recollect.ask.doctor.log_report import report_of
from recollect.index.extraction import ExtractionJob, frames
from recollect.model.checks.scan import LogIdentity
from recollect.model.views.damage import RecordGenerations, damage_code
from recollect.store.logs.reader import read_lines
from recollect.store.logs.summary import log_counts

NO_RECORD = b'{"type":"codex:unreadable","original":"<<<"}'
TOO_LONG = b'{"type":"codex:unreadable","tooLong":70000000}'
# A mirror writes only the first kinds; a log may come from elsewhere.
LINES = [
    NO_RECORD,
    NO_RECORD,
    TOO_LONG,
    *(
        b'{"type":"foreign-source","agent":"codex","source":"%b","generation":%d}' % (name, number)
        for name in (b"a.jsonl", b"b.jsonl", b"b.jsonl.zst")
        for number in range(3)
    ),
    b'{"type":"foreign-record","original":"{}"}',
    b'{"type":"foreign-source","source":7,"generation":"x"}',
    b'{"type":"codex:unreadable","type":"mode"}',
    b'{"type":"codex:unreadable","original":',
    b'{"type":"codex:unreadable","tooLong":"x"}',
]


def source(generation: int) -> bytes:
    return b'{"type":"foreign-source","source":"a.jsonl","generation":%d}' % generation


def counted(path: Path, lines: list[bytes]) -> Counter[str]:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    codes, generations = Counter[str](), RecordGenerations()
    for line in read_lines(path):
        codes.update(filter(None, [damage_code(line)]))
        codes["unreadable-record"] -= len(generations.take(line))
    return +codes


def test_only_the_last_generation_of_a_file_is_damage(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert counted(log, [source(0), NO_RECORD, NO_RECORD]) == {"unreadable-record": 2}
    assert counted(log, [source(0), NO_RECORD, NO_RECORD, source(1), NO_RECORD]) == {"unreadable-record": 1}
    assert counted(log, [source(0), NO_RECORD, source(1)]) == {}
    assert counted(log, [source(0), NO_RECORD, LINES[6], source(0)]) == {"unreadable-record": 1}
    assert counted(log, [source(0), TOO_LONG, source(1)]) == {"oversize-record": 1}


@pytest.mark.parametrize("seed", range(40))
def test_every_reader_counts_the_same(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log = tmp_path / "log.jsonl"
    expected = counted(log, chance.choices(LINES, k=24))
    assert log_counts(log).damaged == expected.total()
    report = report_of(LogIdentity("s", str(log)))
    assert report.damaged == expected.total()
    whole = log.read_bytes()
    for cut in [0, *(at + 1 for at, byte in enumerate(whole) if byte == 10)]:
        found, read = Counter[str](), 0
        for end in (cut, len(whole)):
            log.write_bytes(whole[:end])
            for frame in frames(ExtractionJob(str(log), read)):
                found.update(dict(frame.damage))
                read = frame.end
        assert +found == expected, cut
