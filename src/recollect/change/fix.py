"""One plan over whole homes: what is broken, what that costs, what would be done; and one undo for all of it.

What is wrong with a session is what ``doctor`` says and a repair mends (``model/repair/plan.py``): a session
whose resume fails or loses messages is mended, or gets a repaired copy where it is open. Directories that were moved get their history
back (``mv``), a config file that the client would reset is restored from its copies (``rules restore``), and todo
lists of deleted sessions are removed. What no command can do for the user is in ``left``, with the reason.

The steps are carried out one after the other, as one batch of changes; one that fails does not stop the others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw, Struct, structs

from recollect.ask.homes import Homes
from recollect.ask.sessions.projects import RepositoryIdentities
from recollect.ask.sessions.session import Session
from recollect.ask.todos import SessionTodoList, to_do_lists
from recollect.change import repair
from recollect.change.move import carry_out, planned_move
from recollect.change.settings import config_rescue
from recollect.change.undo import journal_at
from recollect.errors import NotFound, RecollectError
from recollect.model.checks.rules import CODES, Finding, Severity
from recollect.store.changes.batch import one_batch
from recollect.store.changes.journal import ChangePlan
from recollect.store.home import ClaudeHome
from recollect.system.fsops import is_directory
from recollect.system.peek import open_regular
from recollect.system.pool import ProgressCallback
from recollect.system.whole_files import regular_files

_LARGEST = 64 << 20
# How far a directory of the same name is looked for: levels below what is left of the old path, and entries.
_LEVELS = 2
_MOST = 5_000


def _directory_steps(home: ClaudeHome) -> Iterator[FixStep]:
    """The outermost directories that sessions worked in and that are gone. What is below one of them moves with it."""
    counts: dict[str, int] = {}
    for log in home.sessions():
        cwd = log.first_cwd()
        if cwd and Path(cwd).is_absolute() and "\0" not in cwd:
            counts[cwd] = counts.get(cwd, 0) + 1
    there = {cwd for cwd in counts if is_directory(cwd)}
    search = _Search(home, there)
    moved: list[str] = []
    for old in sorted(set(counts) - there, key=lambda path: (len(Path(path).parts), path)):
        if any(Path(old).is_relative_to(one) for one in moved):
            continue
        below = sum(n for cwd, n in counts.items() if Path(cwd).is_relative_to(old))
        cost = f"{below:,} {'session' if below == 1 else 'sessions'} not found by the client there"
        new, why = search.answer(old)
        if new is None:
            yield FixStep("directory", home.root, old, "", cost, why=why)
        else:
            moved.append(old)
            yield FixStep("directory", home.root, old, "", cost, f"mv to {new} ({why})", target=new)


class _Search:
    """Looks for one home's lost directories; what it learned of one serves the next."""

    def __init__(self, home: ClaudeHome, there: set[str]) -> None:
        self._there = there
        self._repositories = _repository_paths(home)
        self._identities = RepositoryIdentities()

    def answer(self, old: str) -> tuple[str | None, str]:
        """Where a directory is now, if that is sure, and how it is known, or why it is not."""
        same = sorted(self._of_same_repository(old))
        if len(same) == 1:
            return same[0], "it is the same repository"
        if same:
            return None, f"{len(same)} directories have its repository: {same[0]}, …"
        named = sorted(self._of_same_name(old))
        if len(named) > 1:
            return None, f"{len(named)} directories have its name: {named[0]}, …"
        if not named:
            return None, "no directory has its repository or its name"
        if named[0] in self._there:
            return None, f"{named[0]} has its name, and sessions of its own"
        return named[0], "it has the same name"

    def _of_same_repository(self, old: str) -> set[str]:
        names = [name for name, paths in self._repositories.items() if old in paths]
        known = {path for name in names for path in self._repositories[name] if is_directory(path)}
        wanted = {f"github.com/{name}" for name in names}
        nearby = self._there | (set(_below(old)) if wanted else set())
        for path in nearby if wanted else ():
            root, identity = self._identities.of(path)
            if identity is not None and root is not None and identity.lower() in wanted:
                known.add(root)
        return {path for path in known if self._is_of(path, wanted)}

    def _is_of(self, path: str, wanted: set[str]) -> bool:
        """Whether it is still that repository: another one may have taken its place."""
        identity = self._identities.of(path)[1]
        return identity is not None and identity.lower() in wanted

    def _of_same_name(self, old: str) -> set[str]:
        name = Path(old).name
        return {path for path in (*self._there, *_below(old)) if Path(path).name == name}


def _repository_paths(home: ClaudeHome) -> dict[str, list[str]]:
    """Where the client saw each GitHub repository; nothing where the config cannot be read."""
    if home.config_file is None:
        return {}
    try:
        with open_regular(home.config_file) as file:
            whole = msgspec.json.decode(file.read(_LARGEST), type=dict[str, Raw])
        found = msgspec.json.decode(whole["githubRepoPaths"], type=dict[str, list[str]])
    except (OSError, KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return {name.lower(): paths for name, paths in found.items()}


def _below(old: str) -> Iterator[str]:
    """The directories near what is left of a path: a few levels down, hidden ones left out."""
    above = next(one for one in Path(old).parents if one.is_dir())
    if len(above.parts) < 3:  # the root, /home, /tmp: whose directories would these be?
        return
    waiting, seen = [(str(above), 0)], 0
    while waiting:
        place, level = waiting.pop()
        for entry in _entries(place):
            seen += 1
            if seen > _MOST:
                return
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield entry.path
                if level + 1 < _LEVELS:
                    waiting.append((entry.path, level + 1))


def _entries(place: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            return list(entries)
    except OSError:
        return []


FixKind = Literal["session", "directory", "config", "todos"]
_REFUSED = "the API refuses every request"


class FixStep(Struct, frozen=True):
    """One thing to do, or, where ``does`` is empty, one that is left to the user, and ``why``.

    ``cost`` is what the user loses as it is; ``target`` what the step leads to, where that is a path.
    Once it is carried out, ``result`` is what it made, or ``problem`` the reason why it failed.
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
    result: str = ""
    problem: str = ""


class FixPlan(Struct, frozen=True, kw_only=True):
    """The steps in the order in which they are done, errors first, and what is left to the user.

    ``undo`` is the batch that takes back what was changed, in JSON a command.
    """

    applied: bool = False
    undo: str | None = None
    sessions: int
    steps: tuple[FixStep, ...]
    left: tuple[FixStep, ...]

    @property
    def failed(self) -> tuple[FixStep, ...]:
        return tuple(one for one in self.steps if one.problem)


# ---- the plan --------------------------------------------------------------------------------------------


def planned_fix(home: Homes, data: Path, progress: ProgressCallback | None = None) -> FixPlan:
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
        sessions=len(sessions),
        steps=tuple(one for one in found if one.does),
        left=tuple(one for one in found if not one.does),
    )


def _session_steps(
    home: Homes, sessions: list[Session], data: Path, progress: ProgressCallback | None
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
    does = "" if why else "mended"
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


def _config_steps(home: Homes) -> Iterator[FixStep]:
    seen: set[Path] = set()
    for one in home.homes:
        for file in config_rescue.checked(one):
            if not file.is_problem or file.path in seen:
                continue
            seen.add(file.path)
            yield _config_step(home, one, file)


def _config_step(home: Homes, one: ClaudeHome, file: config_rescue.ConfigFileCheck) -> FixStep:
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


def _todo_steps(home: Homes) -> Iterator[FixStep]:
    for root in home.homes:
        lists = _orphans(home, root)
        files = [path for one in lists for path in _files(one)]
        if files:
            cost = f"{len(lists):,} {'list' if len(lists) == 1 else 'lists'} of deleted sessions"
            yield FixStep("todos", root.root, str(root.root), "", cost, f"{len(files):,} files removed")


def _orphans(home: Homes, root: ClaudeHome) -> list[SessionTodoList]:
    return [one for one in to_do_lists(home) if one.orphan and one.path.is_relative_to(root.root)]


def _files(one: SessionTodoList) -> list[Path]:
    return list(regular_files(one.path)) if one.path.is_dir() else [one.path]


# ---- carrying it out -------------------------------------------------------------------------------------


def fixed(home: Homes, plan: FixPlan, data: Path) -> FixPlan:
    """Carry out every step."""
    steps = []
    with one_batch("fix") as batch:
        for step in plan.steps:
            try:
                steps.append(structs.replace(step, result=_DO[step.kind](home, step, data)))
            except RecollectError as problem:
                steps.append(structs.replace(step, problem=problem.message))
            except OSError as problem:
                steps.append(structs.replace(step, problem=str(problem)))
    is_changed = any(not one.problem for one in steps)
    return structs.replace(plan, applied=True, steps=tuple(steps), undo=batch if is_changed else None)


def _repair(home: Homes, step: FixStep, data: Path) -> str:
    with repair.planned_repair(home.own_session(step.subject)) as plan:
        if plan.open_in is None:
            repair.apply_in_place(plan, data)
            return ""
        return repair.apply_as_copy(plan, data).new or ""


def _move(home: Homes, step: FixStep, data: Path) -> str:
    root = _root(home, step)
    moved = planned_move(root, step.subject, step.target)
    carry_out(moved, data)
    return f"{len(moved.sessions):,} moved, {len(moved.conflicts):,} stay"


def _restore_config(home: Homes, step: FixStep, data: Path) -> str:
    root = _root(home, step)
    best = config_rescue.planned_restore(root, home.homes).best
    config_rescue.restored(root, data, home.homes)
    return str(best)


def _remove_todos(home: Homes, step: FixStep, data: Path) -> str:
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


def _root(home: Homes, step: FixStep) -> ClaudeHome:
    return next(one for one in home.homes if one.root == step.home)


_DO: dict[FixKind, Callable[[Homes, FixStep, Path], str]] = {
    "session": _repair,
    "directory": _move,
    "config": _restore_config,
    "todos": _remove_todos,
}
