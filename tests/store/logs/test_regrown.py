"""A log that another program cuts and writes again takes our lines whole, and calls no id taken that is gone."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from recollect.errors import IdConflict
from recollect.store.logs.log import Log

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
ROUNDS = 20_000 if TORTURE else 400


def line_of(name: str, rng: random.Random) -> bytes:
    return b'{"uuid":"%s","text":"%s"}' % (name.encode(), b"x" * rng.randint(0, 60))


def cut_and_regrown(path: Path, rng: random.Random) -> str:
    """What another program may do: cut the file somewhere, then write until it is as long as it was, or not."""
    size = path.stat().st_size
    keep = rng.randint(0, size)
    length = rng.choice([size, size, size, size + rng.randint(1, 50), rng.randint(keep, size)])
    new = bytes(rng.choices(b'abc{}":\n', k=length - keep))
    ending = rng.choice([b"", b"\n"])
    if new and ending and not new.endswith(ending):
        new = new[:-1] + ending
    with path.open("r+b") as file:
        file.truncate(keep)
        file.seek(keep)
        file.write(new)
    return "same length" if length == size else "other length"


def test_no_line_is_glued_and_no_lost_id_is_a_conflict(tmp_path: Path) -> None:
    """After every append our line stands alone in the file; a conflict means that other bytes have this id there."""
    rng, done, glued, false_conflicts = random.Random(5), Counter[str](), [], []
    path = tmp_path / "log.jsonl"
    with Log(path) as log:
        for number in range(ROUNDS):
            if path.exists() and rng.random() < 0.5:
                done[cut_and_regrown(path, rng)] += 1
            name = f"id-{rng.randint(0, 15)}"
            line = line_of(name, rng)
            before = path.read_bytes().split(b"\n") if path.exists() else []
            try:
                log.append(line, name)
                done["appended"] += 1
                if line not in path.read_bytes().split(b"\n")[:-1]:
                    glued.append(number)
            except IdConflict:
                done["conflicts"] += 1
                if not any(one.startswith(b'{"uuid":"%s",' % name.encode()) for one in before):
                    false_conflicts.append(number)
            if path.stat().st_size > 20_000:
                path.write_bytes(b"")

    print(f"\nregrown logs: {dict(done)}, {len(glued)} glued, {len(false_conflicts)} false conflicts")
    assert ([], []) == (glued, false_conflicts)
    assert all(done[what] for what in ("same length", "other length", "appended", "conflicts"))


def test_a_tail_of_the_same_length_without_newline_gets_a_fresh_line(tmp_path: Path) -> None:
    """The last byte is read at every append, not only where the length changed."""
    path = tmp_path / "log.jsonl"
    with Log(path) as log:
        log.append(b'{"n":1}')
        path.write_bytes(b"{" + b"x" * (path.stat().st_size - 1))
        log.append(b'{"n":2}')

    assert b'{"n":2}' == path.read_bytes().split(b"\n")[1]


def test_an_id_whose_line_another_program_moved_is_found_where_it_is_now(tmp_path: Path) -> None:
    """The same line again is a repeat and stored once; other bytes under its id are a conflict."""
    path = tmp_path / "log.jsonl"
    line = b'{"uuid":"id-1","text":"one"}'
    with Log(path) as log:
        log.append(line, "id-1")
        log.append(b'{"uuid":"id-2","text":"two"}', "id-2")
        path.write_bytes(b"\n".join([*reversed(path.read_bytes().splitlines()), b""]))
        log.append(line, "id-1")
        with pytest.raises(IdConflict):
            log.append(b'{"uuid":"id-1","text":"other"}', "id-1")

    assert 1 == path.read_bytes().count(line)
