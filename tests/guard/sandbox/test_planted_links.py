"""No link that a program planted is followed when a later run is given the directory (C07).

The program of an earlier run could write to a tree; a directory inside it is what the next run may write to.
``RECOLLECT_TORTURE=1`` runs 120 races for each back end and each way to race.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from recollect.errors import NotFound, RecollectError, UsageError
from recollect.guard import sandbox as execution
from recollect.guard.sandbox import Confinement, protected
from recollect.guard.sandbox.protected import open_tree

RACES = 120 if os.environ.get("RECOLLECT_TORTURE") else 8


pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A tree with a directory ``out``, beside a victim."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "mine").write_text("untouched")
    (tmp_path / "project" / "out").mkdir(parents=True)
    return tmp_path / "project"


def write_all(cwd: Path, writable: Path, text: str) -> None:
    execution.run(["/bin/sh", "-c", text], cwd=cwd, confinement=Confinement(write=(writable,)))


def victim(project: Path) -> dict[str, str]:
    """Every name in the victim and what it holds."""
    return {path.name: path.read_text() for path in (project.parent / "victim").rglob("*") if path.is_file()}


@contextmanager
def turning(place: Path, target: Path) -> Iterator[None]:
    """A directory that is replaced by a link to the target and back again, as fast as possible."""
    stop, aside, link = threading.Event(), place.with_name("aside"), place.with_name("link")

    def turn() -> None:
        steps = (
            lambda: link.symlink_to(target),
            lambda: place.rename(aside),
            lambda: link.rename(place),
            lambda: time.sleep(random.choice((0, 0.001, 0.01))),  # to meet every moment of a start
            place.unlink,
            lambda: aside.rename(place),
            lambda: time.sleep(random.choice((0, 0.001, 0.01))),
        )
        while not stop.is_set():
            for step in steps:
                with suppress(OSError):  # a run that puts names back changes the same directory
                    step()

    turner = threading.Thread(target=turn)
    turner.start()
    try:
        yield
    finally:
        stop.set()
        turner.join()


@pytest.mark.parametrize("where", ["out", "out/deeper", "out/../out"])
def test_a_link_planted_by_an_earlier_run_is_refused(project: Path, where: str) -> None:
    """The message names the link and what it leads to."""
    (project.parent / "victim" / "deeper").mkdir()
    write_all(project, project, f"rm -r out; ln -s {project.parent / 'victim'} out")
    assert (project / "out").is_symlink()

    with pytest.raises(UsageError, match="is a link") as refused:
        write_all(project, project / where, "echo evil > planted")
    assert "victim" in refused.value.hint
    assert {"mine": "untouched"} == victim(project)


def _given_directly(project: Path) -> tuple[Path, Callable[[], None]]:
    out = project / "out"
    text = f"for place in {out} {project.parent / 'victim'}; do echo evil > $place/planted; done"
    return out, lambda: write_all(project.parent, out, text)


def _holds_a_protected_name(project: Path) -> tuple[Path, Callable[[], None]]:
    settings = project / ".config"
    (settings / "git").mkdir(parents=True)
    text = f"for place in {settings} {project.parent / 'victim'}; do echo evil > $place/planted; done"
    return settings, lambda: write_all(project.parent, project, text)


@pytest.mark.parametrize("way", [_given_directly, _holds_a_protected_name])
def test_a_link_that_appears_during_the_start_is_not_followed(
    project: Path, way: Callable[[Path], tuple[Path, Callable[[], None]]]
) -> None:
    """Whatever the moment: the run is refused, or it writes to the directory that was checked."""
    place, run = way(project)
    outcomes = {"ran": 0, "refused": 0}
    with turning(place, project.parent / "victim"):
        for _ in range(RACES):
            try:
                run()
                outcomes["ran"] += 1
            except (RecollectError, OSError):
                outcomes["refused"] += 1

    print(f"{way.__name__}: {RACES} races, {outcomes}")
    assert {"mine": "untouched"} == victim(project)


def test_what_is_prepared_in_a_tree_goes_where_it_was_opened(project: Path) -> None:
    """Placeholders and restored names follow the descriptor, not a path that leads elsewhere now."""
    tree = open_tree(project / "out")
    (project / "out").rename(project / "moved")
    (project / "out").symlink_to(project.parent / "victim")
    guarded = protected.prepare([tree])
    made = {path.name for path in (project / "moved").iterdir()}
    guarded.settle()
    os.close(tree.descriptor)

    assert ".mcp.json" in made
    assert [] == list((project / "moved").iterdir())
    assert {"mine": "untouched"} == victim(project)


def test_a_tree_is_a_directory_of_the_user(project: Path) -> None:
    """Missing, a file, or a directory of the system: refused with the reason."""
    with pytest.raises(NotFound, match="does not exist"):
        open_tree(project / "nowhere")
    with pytest.raises(UsageError, match="not a directory"):
        open_tree(project.parent / "victim" / "mine")
    for system in ("/", "/etc", "/proc/self", "/usr/../etc"):
        with pytest.raises(UsageError, match="system directory"):
            open_tree(Path(system))


def test_no_descriptor_is_left_open(project: Path) -> None:
    """Neither here nor in the command."""
    write_all(project, project, "true")
    before = len(os.listdir("/proc/self/fd"))
    result = execution.run(
        ["/bin/sh", "-c", "ls /proc/self/fd"], cwd=project, confinement=Confinement(write=(project,))
    )

    assert before == len(os.listdir("/proc/self/fd"))
    assert {"0", "1", "2", "3"} == set(result.stdout.decode().split())  # 3 is the listing itself
