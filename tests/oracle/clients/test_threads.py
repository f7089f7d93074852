"""Every recorded thread of Codex, resumed by the real client of 0.166: it sends what ``show --api`` says."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

import recollect
from recollect.services.foreign.originals import resumed
from tests.oracle.clients.runner import program_of, ran
from tests.oracle.clients.sketch import before, sketch
from tests.storage.foreign.samples import codex_samples

pytestmark = pytest.mark.slow

# Two homes daily (1 s a thread); all of them with `make torture`.
DAILY = ("0.142.5/fork_repeat", "0.166.0/server_revert")
PROMPT = "Q9 next"


class Tally(NamedTuple):
    equal: list[str]
    unlike: list[str]
    refused: list[str]  # the client does not resume it


def compared(shared: Path, tmp_path: Path, names: tuple[str, ...] | None) -> Tally:
    tally = Tally([], [], [])
    for number, sample in enumerate(codex_samples(shared)):
        if names is not None and sample.name not in names:
            continue
        room = tmp_path / f"room{number}"
        for below in ("sessions", "archived_sessions"):
            if (sample.home / below).is_dir():
                shutil.copytree(sample.home / below, room / "home/.codex" / below)
        home = recollect.Home(sample.home, data=tmp_path / f"data{number}", index=False)
        sessions = list(home.sessions())
        turns = [{"session": session.id, "prompt": PROMPT} for session in sessions]
        done = ran("codex", shared, room, turns, may_fail=True)
        for session, turn in zip(sessions, done.turns, strict=True):
            name = f"{sample.name} {session.id}"
            # A client that does not find a session starts another one: it sends nothing of it.
            if not turn["sent"] or turn["session"] != session.id:
                tally.refused.append(f"{name}: {turn['said'].strip().splitlines()[-1]}")
                continue
            sent = before(PROMPT, sketch(turn["sent"][0]))
            same = sent == sketch({"messages": resumed(session)})
            (tally.equal if same else tally.unlike).append(name)
    return tally


def test_what_the_client_sends_for_recorded_threads_is_what_we_say(shared: Path, tmp_path: Path) -> None:
    program_of("codex")
    is_whole = bool(os.environ.get("RECOLLECT_TORTURE"))
    tally = compared(shared, tmp_path, None if is_whole else DAILY)
    print(
        *(f"{word}: {len(names)}" for word, names in tally._asdict().items()),
        *tally.unlike,
        *tally.refused,
        sep="\n",
    )
    assert not tally.unlike
    assert len(tally.equal) >= (70 if is_whole else 4)
