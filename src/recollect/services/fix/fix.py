"""One plan over whole homes: what is broken, what that costs, what would be done; and one undo for all of it.

What is wrong with a session is what ``check`` says and what ``repair`` mends (``model/diagnosis.py``): a session
whose resume fails or loses messages gets a repaired copy beside it. Directories that were moved get their history
back (``mv``), a config file that the client would reset is restored from its copies (``config restore``), and todo
lists of deleted sessions are removed. What no command can do for the user is in ``left``, with the reason.

The steps are carried out one after the other, as one batch of changes; one that fails does not stop the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from recollect.errors import NotFound, RecollectError
from recollect.model.checks import CODES
from recollect.model.findings import Finding, Severity
from recollect.services.fix.gone_directories import gone_directories
from recollect.services.homes import Home
from recollect.services.move.move import carry_out, planned_move
from recollect.services.repair import repair
from recollect.services.session import Session
from recollect.services.settings import config_rescue
from recollect.services.todos import SessionTodoList, to_do_lists
from recollect.services.undo import journal_at
from recollect.storage.changes.batch import one_batch
from recollect.storage.changes.journal import ChangePlan
from recollect.storage.home import ClaudeHome
from recollect.system.new_files import regular_files
from recollect.system.progress import ProgressCallback

FixKind = Literal["session", "directory", "config", "todos"]
_REFUSED = "the API refuses every request"


class FixStep(Struct, frozen=True):
    """One thing to do, or, where ``does`` is empty, one that is left to the user, and ``why``.

    ``cost`` is what the user loses as it is; ``target`` what the step leads to, where that is a path.
    """

    kind: FixKind
    home: Path
    subject: str
    title: str
    cost: str
    does: str = ""
    why: str = ""
    codes: tuple[str, ...] = ()
    target: str = ""
    messages: int = 0


class FixPlan(Struct, frozen=True):
    """The steps in the order in which they are done, errors first, and what is left to the user."""

    steps: tuple[FixStep, ...]
    left: tuple[FixStep, ...]
    sessions: int


class FixOutcome(Struct, frozen=True):
    """A step that was done, with what it made, or one that failed, with the reason."""

    step: FixStep
    result: str = ""
    problem: str = ""


class FixResult(Struct, frozen=True):
    """What was done. ``undo`` takes all of it back."""

    outcomes: tuple[FixOutcome, ...]
    undo: str

    @property
    def failed(self) -> tuple[FixOutcome, ...]:
        return tuple(one for one in self.outcomes if one.problem)


# ---- the plan --------------------------------------------------------------------------------------------


def planned_fix(home: Home, data: Path, progress: ProgressCallback | None = None) -> FixPlan:
    """Look for everything that can be fixed; nothing is changed."""
    sessions = list(home.sessions())
    found = [*_session_steps(home, sessions, data, progress)]
    # What costs most comes first.
    found.sort(key=lambda one: -one.messages)
    for one in home.homes:
        found += _directory_steps(one)
    found += _config_steps(home)
    found += _todo_steps(home)
    return FixPlan(
        tuple(one for one in found if one.does), tuple(one for one in found if not one.does), len(sessions)
    )


def _session_steps(
    home: Home, sessions: list[Session], data: Path, progress: ProgressCallback | None
) -> Iterator[FixStep]:
    copies = _repaired_copies(data)
    live = home.live_ids()
    total, done = sum(one.file.size for one in sessions), 0
    for session in sessions:
        step = _session_step(session, copies, is_open=session.id in live)
        if step is not None:
            yield step
        done += session.file.size
        if progress is not None:
            progress(done, total)


def _session_step(session: Session, copies: dict[str, int], *, is_open: bool) -> FixStep | None:
    root = session.home.root
    try:
        with repair.planned_repair(session) as plan:
            errors = [one for one in plan.diagnosis.findings if one.severity is Severity.ERROR]
            if not errors or copies.get(session.id, -1) >= session.file.mtime_ns:
                return None
            gained = max(plan.mending.proof.history_after - plan.mending.proof.history_before, 0)
            codes = tuple(Counter(one.code for one in errors))
            why = "a client has it open" if is_open else "" if plan.is_needed else _why_not(plan, errors)
            cost = _cost(errors, gained if plan.is_needed else 0)
    except RecollectError as problem:
        return FixStep(
            "session", root, session.id, "", "it cannot be read", why=problem.message, codes=("unreadable",)
        )
    does = "" if why else "repaired copy"
    return FixStep("session", root, session.id, session.title, cost, does, why, codes, messages=gained)


def _cost(errors: list[Finding], gained: int) -> str:
    """What the user loses as long as it is not repaired."""
    if gained:
        return f"{gained:,} {'message' if gained == 1 else 'messages'} lost on resume"
    codes = [one.code for one in errors]
    if any(code.startswith("api-") for code in codes):
        return _REFUSED
    return f"the client {CODES[codes[0]].client}" if codes[0] in CODES else codes[0]


def _why_not(plan: repair.RepairPlan, errors: list[Finding]) -> str:
    if plan.diagnosis.refusal:
        return f"a repair would not be sound: {plan.diagnosis.refusal[0]}"
    return errors[0].fix


def _repaired_copies(data: Path) -> dict[str, int]:
    """When a repaired copy of each session was made, in nanoseconds, where it is still there."""
    found: dict[str, int] = {}
    for change in journal_at(data).changes():
        made = [step.path for step in change.steps if step.kind == "create" and step.path.suffix == ".jsonl"]
        if (
            change.what in repair.WHAT
            and change.state in ("done", "forgotten")
            and any(map(Path.exists, made))
        ):
            at = int(change.at.timestamp() * 1e9)
            found[change.subject] = max(at, found.get(change.subject, 0))
    return found


def _directory_steps(home: ClaudeHome) -> Iterator[FixStep]:
    for one in gone_directories(home):
        count = (
            f"{one.sessions:,} {'session' if one.sessions == 1 else 'sessions'} not found by the client there"
        )
        if one.new is None:
            yield FixStep("directory", home.root, one.old, "", count, why=one.why)
            continue
        does = f"mv to {one.new} ({one.why})"
        yield FixStep("directory", home.root, one.old, "", count, does, target=one.new)


def _config_steps(home: Home) -> Iterator[FixStep]:
    seen: set[Path] = set()
    for one in home.homes:
        for file in config_rescue.checked(one):
            if not file.is_problem or file.path in seen:
                continue
            seen.add(file.path)
            yield _config_step(home, one, file)


def _config_step(home: Home, one: ClaudeHome, file: config_rescue.ConfigFileCheck) -> FixStep:
    place = str(file.path)
    if file.kind != "config" or file.verdict != "reset":
        cost = "the client ignores it, deny rules included" if file.verdict == "ignored" else "unreadable"
        return FixStep("config", one.root, place, "", cost, why=f"{file.why}; correct it by hand")
    cost = "the client starts as if it were new: trust, servers and settings of all projects"
    try:
        plan = config_rescue.planned_restore(one, home.homes)
    except NotFound as problem:
        return FixStep("config", one.root, place, "", cost, why=problem.message)
    if plan.open_in:
        return FixStep(
            "config", one.root, place, "", cost, why=f"a client is running (process {plan.open_in[0]})"
        )
    return FixStep("config", one.root, place, "", cost, f"restored from {plan.best.name}", target=place)


def _todo_steps(home: Home) -> Iterator[FixStep]:
    for root in home.homes:
        lists = _orphans(home, root)
        files = [path for one in lists for path in _files(one)]
        if files:
            cost = f"{len(lists):,} {'list' if len(lists) == 1 else 'lists'} of deleted sessions"
            yield FixStep("todos", root.root, str(root.root), "", cost, f"{len(files):,} files removed")


def _orphans(home: Home, root: ClaudeHome) -> list[SessionTodoList]:
    return [one for one in to_do_lists(home) if one.orphan and one.path.is_relative_to(root.root)]


def _files(one: SessionTodoList) -> list[Path]:
    return list(regular_files(one.path)) if one.path.is_dir() else [one.path]


# ---- carrying it out -------------------------------------------------------------------------------------


def fixed(home: Home, plan: FixPlan, data: Path, progress: ProgressCallback | None = None) -> FixResult:
    """Carry out every step; ``undo`` of the result takes them all back."""
    outcomes = []
    with one_batch("fix") as batch:
        for number, step in enumerate(plan.steps, 1):
            try:
                outcomes.append(FixOutcome(step, _DO[step.kind](home, step, data)))
            except RecollectError as problem:
                outcomes.append(FixOutcome(step, problem=problem.message))
            except OSError as problem:
                outcomes.append(FixOutcome(step, problem=str(problem)))
            if progress is not None:
                progress(number, len(plan.steps))
    return FixResult(tuple(outcomes), batch)


def _repair(home: Home, step: FixStep, data: Path) -> str:
    with repair.planned_repair(home.own_session(step.subject)) as plan:
        return repair.apply_as_copy(plan, data).session


def _move(home: Home, step: FixStep, data: Path) -> str:
    root = _root(home, step)
    moved = planned_move(root, step.subject, step.target)
    carry_out(moved, data)
    return f"{len(moved.sessions):,} moved, {len(moved.conflicts):,} stay"


def _restore_config(home: Home, step: FixStep, data: Path) -> str:
    plan = config_rescue.planned_restore(_root(home, step), home.homes)
    config_rescue.restored(plan, data)
    return str(plan.best)


def _remove_todos(home: Home, step: FixStep, data: Path) -> str:
    """Move the files out of the home; the journal keeps them."""
    root = _root(home, step)
    change = ChangePlan("todos", str(root.root), root.root)
    lists = _orphans(home, root)
    count = 0
    for one in lists:
        for path in _files(one):
            change.remove(path)
            count += 1
        if one.path.is_dir():
            change.prune(one.path)
    journal_at(data).apply(change)
    return f"{count:,} files"


def _root(home: Home, step: FixStep) -> ClaudeHome:
    return next(one for one in home.homes if one.root == step.home)


_DO: dict[FixKind, Callable[[Home, FixStep, Path], str]] = {
    "session": _repair,
    "directory": _move,
    "config": _restore_config,
    "todos": _remove_todos,
}
