"""Every recorded thread of Codex, resumed by the real client: it sends what ``show --api`` says.

By that of 0.166, and those of the bare era, which it refuses, by the client that wrote them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import recollect
from recollect.ask.sessions.originals import resumed
from tests.agents.samples import codex_samples
from tests.oracle.clients.runner import program_of, ran
from tests.oracle.clients.sketch import before, sketch

# Two homes daily (1 s a thread); all of them with `make torture`.
DAILY = ("0.142.5/fork_repeat", "0.166.0/server_revert")
PROMPT = "Q9 next"


class Tally(NamedTuple):
    equal: list[str]
    unlike: list[str]
    refused: list[str]  # the client does not resume it


def compared(transcripts: Path, tmp_path: Path, names: tuple[str, ...] | None) -> Tally:
    tally = Tally([], [], [])
    for number, sample in enumerate(codex_samples(transcripts)):
        if names is not None and sample.name not in names:
            continue
        room = tmp_path / f"room{number}"
        for below in ("sessions", "archived_sessions"):
            if (sample.home / below).is_dir():  # the client resumes no archived thread before it is put back
                shutil.copytree(sample.home / below, room / "home/.codex/sessions", dirs_exist_ok=True)
        home = recollect.Home(sample.home, data=tmp_path / f"data{number}", index=False)
        sessions = list(home.sessions())
        turns = [{"session": session.id, "prompt": PROMPT} for session in sessions]
        done = ran("codex", transcripts, room, turns, may_fail=True)
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


def test_what_the_client_sends_for_recorded_threads_is_what_we_say(transcripts: Path, tmp_path: Path) -> None:
    program_of("codex")
    is_whole = bool(os.environ.get("RECOLLECT_TORTURE"))
    tally = compared(transcripts, tmp_path, None if is_whole else DAILY)
    print(
        *(f"{word}: {len(names)}" for word, names in tally._asdict().items()),
        *tally.unlike,
        *tally.refused,
        sep="\n",
    )
    assert not tally.unlike
    assert all(name.startswith("0.20.0/") for name in tally.refused), tally.refused
    assert len(tally.equal) >= (89 if is_whole else 4)


def test_threads_of_the_bare_era_are_what_their_own_client_sends(transcripts: Path, tmp_path: Path) -> None:
    """The lines without an envelope: later clients find them empty."""
    program_of("codex-0.20.0")
    equal = 0
    for number, sample in enumerate(
        one for one in codex_samples(transcripts) if one.name.startswith("0.20.0/")
    ):
        room = tmp_path / f"room{number}"
        shutil.copytree(sample.home / "sessions", room / "home/.codex/sessions")
        home = recollect.Home(sample.home, data=tmp_path / f"data{number}", index=False)
        sessions = list(home.sessions())
        files = [next((room / "home/.codex").rglob(f"rollout-*-{session.id}.jsonl")) for session in sessions]
        turns = [{"rollout": str(file), "prompt": PROMPT} for file in files]
        done = ran("codex-0.20.0", transcripts, room, turns)
        for session, turn in zip(sessions, done.turns, strict=True):
            sent = before(PROMPT, sketch(turn["sent"][0]))
            assert sent == sketch({"messages": resumed(session)}), session.id
            equal += len(sent) > 0
    assert equal == 3
