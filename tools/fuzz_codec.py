"""Coverage-guided fuzzing of codec, scans and reader with atheris (``make fuzz``).

    FUZZ_SECONDS=60 make fuzz

Whatever the bytes: no exception, every line accounted for, bytes come back as they were.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["recollect"]):
    from recollect.model.lines.codec import decode, encode
    from recollect.model.lines.damage import Damage, Line
    from recollect.model.lines.entry import Entry
    from recollect.model.views.damage import damage_of
    from recollect.model.views.fact_line import fact_line
    from recollect.model.views.facts import usage_facts
    from recollect.sample import sample_home
    from recollect.store.logs.reader import LogReader

SCRATCH = Path(tempfile.mkdtemp(prefix="recollect-fuzz-")) / "log.jsonl"


def one_input(data: bytes) -> None:
    """Codec and scans on each line, the reader on the whole."""
    for line in data.split(b"\n"):
        item = decode(Line(line))
        if isinstance(item, Entry):
            assert encode(item) == line + b"\n"
            item.fields()
        assert isinstance(item, Damage) == (damage_of(Line(line)) is not None)
        usage_facts(line)
        fact_line(line)
    SCRATCH.write_bytes(data)
    items = list(LogReader(SCRATCH))
    whole = data[: data.rfind(b"\n") + 1]
    assert all(whole[item.offset : item.end].endswith(b"\n") for item in items)


def main() -> None:
    """Start from the sample home's lines and run for FUZZ_SECONDS."""
    seeds = SCRATCH.parent / "seeds"
    seeds.mkdir()
    for log in sample_home().glob("projects/**/*.jsonl"):
        for number, line in enumerate(log.read_bytes().split(b"\n")):
            (seeds / f"{log.stem[:8]}-{number}").write_bytes(line)
    seconds = os.environ.get("FUZZ_SECONDS", "60")
    atheris.Setup([sys.argv[0], str(seeds), f"-max_total_time={seconds}", "-max_len=8192"], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
