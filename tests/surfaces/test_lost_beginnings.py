"""Whether a fork of Codex lacks its beginning is one answer, for lists, for what shows a session and for ``check``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect import Home
from recollect.ask.sessions.originals import lost_beginning
from tests.agents.samples import codex_samples
from tests.agents.test_codex import ALPHA, BETA, GAMMA
from tests.agents.test_late_beginnings import file_of, write
from tests.surfaces.case import Case


def told(case: Case) -> dict[str, str | None]:
    """The session that each one lacks, as a list has it; all others must say the same."""
    found = {}
    for index in ((), ("--no-index",)):
        rows = case.document("list", *index)["sessions"]
        found = {row["id"]: row.get("lost_beginning") for row in rows}
        home = Home(case.home, data=case.data, index=False)
        shown = {one.id: lost_beginning(one) for one in home.sessions()}
        assert {name: None if lost is None else lost.session for name, lost in shown.items()} == {
            name: found[name] for name in shown
        }
        lacking = {name for name in shown if found[name]}
        findings = case.document("doctor")["findings"]
        assert lacking == {one["session"] for one in findings if one["code"] == "lost-beginning"}
        assert all(
            str(found[one["session"]]) in one["what"] for one in findings if one["code"] == "lost-beginning"
        )
    return found


def alone(case: Case) -> dict[str, str | None]:
    write(case.home, BETA)
    return {BETA: ALPHA}


def fork_of_a_fork(case: Case) -> dict[str, str | None]:
    write(case.home, BETA)
    write(case.home, GAMMA)
    return {BETA: ALPHA, GAMMA: ALPHA}


def only_the_last(case: Case) -> dict[str, str | None]:
    write(case.home, GAMMA)
    return {GAMMA: BETA}


def in_part(case: Case) -> dict[str, str | None]:
    write(case.home, ALPHA)
    file = file_of(case.home, ALPHA)
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:4]))
    return fork_of_a_fork(case) | {ALPHA: None}


def late(case: Case) -> dict[str, str | None]:
    fork_of_a_fork(case)
    told(case)
    write(case.home, ALPHA)
    return {ALPHA: None, BETA: None, GAMMA: None}


def deleted_later(case: Case) -> dict[str, str | None]:
    expected = late(case)
    told(case)
    file_of(case.home, ALPHA).unlink()
    file_of(case.home, BETA).unlink()
    return expected


def in_the_archive(case: Case) -> dict[str, str | None]:
    """Only our archive has the original when its fork is first seen."""
    write(case.home, ALPHA)
    case.said("protect", "now")
    file_of(case.home, ALPHA).unlink()
    case.said("rm", ALPHA, "--apply")
    return fork_of_a_fork(case) | {ALPHA: None, BETA: None, GAMMA: None}


def middle_in_the_archive(case: Case) -> dict[str, str | None]:
    """It lacks its beginning itself, and the archive has it so."""
    write(case.home, BETA)
    case.said("protect", "now")
    file_of(case.home, BETA).unlink()
    case.said("rm", BETA, "--apply")
    write(case.home, GAMMA)
    return {BETA: ALPHA, GAMMA: ALPHA}


def restored_elsewhere(case: Case) -> dict[str, str | None]:
    """A copy of what the archive has, in a directory that is no mirror."""
    write(case.home, BETA)
    case.said("protect", "now")
    case.said("protect", "restore", "--all", "--to", str(case.place / "copy"), "--apply")
    case.home, case.data = case.place / "copy", case.place / "other"
    return {BETA: ALPHA}


STATES: list[Callable[[Case], dict[str, str | None]]] = [
    *(alone, fork_of_a_fork, only_the_last, in_part, late, deleted_later),
    *(in_the_archive, middle_in_the_archive, restored_elsewhere),
]


@pytest.mark.parametrize("state", STATES, ids=lambda one: one.__name__)
def test_a_fork_lacks_the_same_everywhere(
    state: Callable[[Case], dict[str, str | None]], tmp_path: Path
) -> None:
    case = Case(tmp_path / "home", tmp_path)
    (tmp_path / "home" / "sessions").mkdir(parents=True)
    expected = state(case)
    found = told(case)
    assert {name: found.get(name) for name in found.keys() | expected.keys()} == {
        name: expected.get(name) for name in found.keys() | expected.keys()
    }


def test_sample_homes_are_told_alike(transcripts: Path, tmp_path: Path) -> None:
    """With all of their files, without the first of them where there is a fork, and when that one is back."""
    for number, sample in enumerate(codex_samples(transcripts)):
        names = [
            path for path in sample.home.rglob("rollout-*.jsonl") if b'"history_base"' in path.read_bytes()
        ]
        if not names:
            continue
        case = Case(tmp_path / str(number), tmp_path / f"{number}-data")
        shutil.copytree(sample.home, case.home)
        told(case)
        case.data = tmp_path / f"{number}-other"
        first = min(case.home.rglob("rollout-*.jsonl"))
        first.rename(tmp_path / "away")
        told(case)
        (tmp_path / "away").rename(first)
        told(case)
