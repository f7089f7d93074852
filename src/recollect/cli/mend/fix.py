"""Find everything that is broken in a home, and fix all of it at once.

One plan over the whole home: sessions that the client cannot resume or resumes
with messages missing, and what that costs; project directories that moved, with
the proposed `recollect mv` (found by their git remote, or by name); config
files that the client would reset; todo lists of deleted sessions. Errors come
first, the most expensive one first. What no command can fix is listed with the
reason.

--apply does all of it: sessions get a repaired copy, the original stays. One
undo takes everything back. `recollect check` has every finding in detail.

Example:
  recollect fix
  recollect fix --apply
  recollect undo 20261116T091500-fix-4c5d6e --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import chosen_homes, no_claude_home
from recollect.cli.terminal.text import counted, shortened, visible, wrapped
from recollect.model.ids import short_id
from recollect.services.documents.changes.mending import FixDocument
from recollect.services.fix.fix import FixKind, FixOutcome, FixPlan, FixResult, FixStep, fixed, planned_fix
from recollect.services.homes import Home
from recollect.system.paths import CLAUDE

_TITLE_COLUMNS = 36
_HEADINGS: dict[FixKind, str] = {
    "session": "Sessions",
    "directory": "Directories that are gone",
    "config": "Config files",
    "todos": "Todos of deleted sessions",
}


def add_options(parser: ArgumentParser) -> None:
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    # Clients of other agents have other rules, and nothing is ever written into their homes.
    mine = [root for root in chosen_homes(options.homes) if root.exists and root.agent == CLAUDE]
    if not mine:
        raise no_claude_home("fix", chosen_homes(options.homes))
    home = Home(*[root.path for root in mine], data=options.data)
    data = change_plans.own_data(options)
    with output.progress_bar("checking") as progress:
        plan = planned_fix(home, data, progress)
    done = fixed(home, plan, data) if options.apply and plan.steps else None
    is_changed = done is not None and len(done.failed) < len(done.outcomes)
    undo = (
        change_plans.command(options, "undo", done.undo, "--apply")
        if done is not None and is_changed
        else None
    )
    if options.json:
        output.print_json(_document(options, plan, done, undo))
    else:
        _tell(options, plan, done, undo)
    return 1 if done is not None and done.failed else 0


def _document(options: Namespace, plan: FixPlan, done: FixResult | None, undo: str | None) -> FixDocument:
    return FixDocument(
        applied=done is not None,
        undo=undo,
        sessions=plan.sessions,
        steps=plan.steps,
        left=plan.left,
        outcomes=done.outcomes if done is not None else (),
    )


def _tell(options: Namespace, plan: FixPlan, done: FixResult | None, undo: str | None) -> None:
    outcomes = {id(one.step): one for one in done.outcomes} if done is not None else {}
    for kind, heading in _HEADINGS.items():
        steps = [one for one in plan.steps if one.kind == kind]
        if steps:
            output.say(output.styled(heading, "bold"))
        for step in steps:
            _tell_step(step, outcomes.get(id(step)))
    if plan.left:
        output.say(output.styled("Left to you", "bold"))
    for step in plan.left:
        _tell_left(step)
    output.say(
        f"{counted(plan.sessions, 'session')} checked: {counted(len(plan.steps), 'thing')} to fix, {len(plan.left):,} left to you"
    )
    if plan.steps and (undo is not None or done is None):
        change_plans.say_end(options, change_plans.command(options, "fix", "--apply"), undo or "")


def _tell_step(step: FixStep, outcome: FixOutcome | None) -> None:
    arrow = f"{visible(step.cost)} -> {visible(step.does)}"
    if outcome is not None:
        result = f": {visible(outcome.result)}" if outcome.result else ""
        arrow = (
            f"{visible(step.does)}{result}" if not outcome.problem else f"failed: {visible(outcome.problem)}"
        )
    for line in wrapped(f"{_name(step)}  {arrow}", "  ", "      "):
        output.say(line if outcome is None or not outcome.problem else output.styled(line, "red"))


def _tell_left(step: FixStep) -> None:
    text = f"{_name(step)}  {visible(step.cost)}: {visible(step.why)}"
    for line in wrapped(text, "  ", "      "):
        output.say(output.styled(line, "yellow"))


def _name(step: FixStep) -> str:
    if step.kind != "session":
        return visible(step.subject)
    return f"{visible(short_id(step.subject))}  {shortened(visible(step.title), _TITLE_COLUMNS)}".rstrip()
