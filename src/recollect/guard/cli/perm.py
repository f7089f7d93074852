"""`recollect rules check`, `suggest`, `replay` and `hook`: decide calls, replay history, suggest rules, answer the hook."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from recollect.ask.sessions.projects import ProjectFilter
from recollect.change.settings.settings import SettingEdit, changed, planned_edits
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import claude_directories, only_home, settings_home
from recollect.cli.terminal.options import (
    add_json,
    add_span,
    command,
    flag,
    option,
    own_data,
    say_end,
    span_of,
)
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.errors import UsageError
from recollect.guard.permissions.engine import (
    ProjectEngine,
    answer,
    answer_hook,
    permit,
    require_rules,
    rules_from,
)
from recollect.guard.permissions.replay import CallExample, PastCall, Replay, Replayer, past_calls, replay
from recollect.guard.permissions.suggest import PromptGroup, RuleAdvice, suggest
from recollect.guard.policy.engine import RuleSet, call_of
from recollect.guard.policy.rules import RuleNote, rule_warnings
from recollect.model.lines.ids import command_name, short_id
from recollect.model.settings.decision import Decision, RuleSource, Verdict
from recollect.store.changes.plan import ChangePlan
from recollect.store.home import ClaudeHome
from recollect.system.locations import claude_homes, home_at

_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}
_ROWS = 15
_LEAST = 2


def add_check_options(parser: ArgumentParser) -> None:
    parser.add_argument("call", metavar="CALL", help="for example 'Bash(git status)'")
    flag(parser, "--explain", "also what every rule said")
    parser.add_argument("--cwd", metavar="DIR", default=".", help="directory of the call (default: this one)")
    _add_rules(parser)
    add_json(parser)


def add_replay_options(parser: ArgumentParser) -> None:
    flag(parser, "--compare", "show what --rules would change")
    _add_history(parser)


def add_suggest_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--min",
        metavar="N",
        type=int,
        default=_LEAST,
        help=f"least number of prompts a rule saves (default {_LEAST})",
    )
    flag(parser, "--project-code", "include rules that run the project's own code")
    about = "file that --apply adds the rules to: user (default), or project or local of -p or this directory"
    parser.add_argument("--scope", choices=["user", "project", "local"], default="user", help=about)
    flag(parser, "--apply", "add the suggested rules to the settings")
    _add_history(parser)


def add_hook_options(parser: ArgumentParser) -> None:
    flag(parser, "--may-allow", "let calls run that one of your allow rules covers")
    _add_rules(parser)


def _add_history(parser: ArgumentParser) -> None:
    add_span(parser)
    parser.add_argument("-p", "--project", metavar="DIR", help="only calls in or below this directory")
    _add_rules(parser)
    add_json(parser)


def _add_rules(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--mode", metavar="MODE", help="permission mode (default: from the settings)")
    add("--settings", metavar="FILE|JSON", help="like the client's --settings")
    add("--managed", metavar="FILE", help="read this file instead of the managed settings")
    add("--rules", metavar="FILE", help="use these rules instead of those in the settings")


def _managed(options: Namespace) -> Path | None:
    return Path(options.managed) if options.managed else None


def _rules(options: Namespace) -> RuleSet | None:
    return rules_from(Path(options.rules)) if options.rules else None


# ---- check and explain -------------------------------------------------------------------------------------


def run_check(options: Namespace) -> int:
    tool, arguments = call_of(options.call)
    here = permit(
        settings_home(options.homes),
        options.cwd,
        mode=options.mode,
        command_line=options.settings,
        managed=_managed(options),
        rules=_rules(options),
    )
    decision = here.decide(tool, arguments)
    explains = options.explain
    looks = here.explain(tool, arguments) if explains else ()
    if options.json:
        output.print_json(
            CheckDocument(
                **asdict(decision),
                mode=here.mode,
                trusted=here.workspace.trusted,
                problems=[str(problem) for problem in here.loaded.problems],
                rules=looks if explains else UNSET,
                warnings=rule_warnings(here.rules.rules) if explains else UNSET,
            )
        )
    else:
        _tell(decision)
        for look in looks:
            mark = "+" if look.matched else "-"
            output.say(visible(f"  {mark} {look.verdict.value} {look.rule} ({look.source}): {look.why}"))
        _tell_problems(here, with_warnings=explains)
    return 0 if decision.verdict.value == "allow" else 1


class CheckDocument(Decision, frozen=True, kw_only=True):
    """What ``rules check --json`` prints; ``rules`` and ``warnings`` come with ``--explain``."""

    mode: str
    trusted: bool
    problems: list[str]
    rules: Sequence[RuleNote] | UnsetType = UNSET
    warnings: Sequence[RuleNote] | UnsetType = UNSET


def _tell(decision: Decision) -> None:
    output.say(f"{_styled(decision.verdict)}  {visible(decision.why)}{_by(decision.rule, decision.source)}")
    if len(decision.parts) > 1:
        for part in decision.parts:
            text = shortened(visible(part.text), 70)
            output.say(f"  {_styled(part.verdict)}  {text}: {visible(part.why)}{_by(part.rule, part.source)}")
    for reason in decision.unanalysable:
        output.say(f"  not analysed: {visible(reason)}")


def _tell_problems(here: ProjectEngine, *, with_warnings: bool) -> None:
    """Print problems of the settings. A rule for an unknown tool is always printed: it protects nothing."""
    for problem in here.loaded.problems:
        output.note(visible(str(problem)))
    warnings = rule_warnings(here.rules.rules)
    for note in (*here.rules.problems, *warnings):
        if with_warnings or note.kind in (UNSET, "unknown tool"):
            output.note(visible(f"{note.source}: {note}"))


def _styled(verdict: Verdict) -> str:
    return output.styled(verdict.value, _COLOURS[verdict.value])


def _by(rule: str | None, source: RuleSource | None) -> str:
    return "" if rule is None else visible(f"  [{rule}{'' if source is None else f', {source}'}]")


# ---- history -----------------------------------------------------------------------------------------------


def _calls(options: Namespace) -> Iterable[PastCall]:
    since, until = span_of(options, dt.datetime.now(dt.UTC))
    found = past_calls(claude_directories(options), since, until)
    if not options.project:
        return found
    wanted = ProjectFilter(Path(options.project).expanduser().absolute())
    return (call for call in found if wanted.fits(call.cwd))


def _replayer(options: Namespace, rules: RuleSet | None) -> Replayer:
    return Replayer(
        only_home(options),
        rules=rules,
        managed=_managed(options),
        command_line=options.settings,
        mode=options.mode,
    )


def run_replay(options: Namespace) -> int:
    if options.compare and not options.rules:
        raise UsageError("rules replay --compare: no rules were named", hint="add --rules FILE")
    before = _replayer(options, None) if options.compare else None
    found = replay(_calls(options), _replayer(options, _rules(options)), before)
    if options.json:
        return output.print_json(found)
    _tell_replay(found)
    if options.compare:
        _tell_shifts(found)
    return 0


def _tell_replay(found: Replay) -> None:
    counts = ", ".join(f"{number:,} {verdict.value}" for verdict, number in found.counts.items())
    places = f"{found.directories} director{'y' if found.directories == 1 else 'ies'}"
    output.say(
        f"{counted(found.calls, 'call')} in {places}: {counts}; {found.unanalysable:,} not fully analysed"
    )
    for verdict in reversed(list(found.counts)):
        uses = [use for use in found.by_rule if use.verdict is verdict]
        for use in uses[:_ROWS]:
            name = visible(use.rule or use.why)
            where = f" ({visible(str(use.source))})" if use.source is not None else ""
            output.say(f"{_styled(verdict)} {use.calls:>7,}  {output.styled(name, 'bold')}{where}")
            _tell_examples(use.examples)
        if len(uses) > _ROWS:
            output.say(f"      ... and {len(uses) - _ROWS} more rules; --json lists all")


def _tell_shifts(found: Replay) -> None:
    changed = sum(shift.calls for shift in found.changes)
    output.say(f"The new rules change {counted(changed, 'call')}:")
    for shift in sorted(found.changes, key=lambda one: -one.calls)[:_ROWS]:
        by = f" by {visible(shift.rule)}" if shift.rule else ""
        output.say(f"{_styled(shift.before)} -> {_styled(shift.after)} {shift.calls:>7,}{by}")
        _tell_examples(shift.examples)


def _tell_examples(examples: Sequence[CallExample]) -> None:
    for one in examples:
        text = shortened(visible(f"{one.tool}: {one.text}"), 78)
        name = command_name(short_id(one.session), "")
        show = output.typed(f"recollect show {name}") if name else ""
        output.say(output.styled(f"         {text}   {show}", "dim"))


def run_suggest(options: Namespace) -> int:
    if options.scope != "user" and not options.project:
        options.project = "."  # rules of a project are those that its own calls need
    replayer = _replayer(options, _rules(options))
    advice = suggest(_calls(options), replayer, least=max(options.min, 1), project_code=options.project_code)
    file, plan = _planned_rules(options, [one.rule for one in advice.suggestions])
    applied = changed(plan, own_data(options)) if options.apply else None
    undo = command(options, "undo", applied.id, "--apply") if applied is not None else ""
    if options.json:
        document = {**asdict(advice), "file": file, "applied": applied is not None, "undo": undo}
        return output.print_json(document)
    _tell_advice(advice)
    if plan is not None:
        verb = "Added" if applied is not None else "Would add"
        name = output.styled(visible(str(file)), "cyan")
        output.say(f"{verb} {counted(len(advice.suggestions), 'rule')} to permissions.allow in {name}")
        say_end(options, command(options, *_again(options)), undo)
    return 0


def _planned_rules(options: Namespace, rules: Sequence[str]) -> tuple[Path | None, ChangePlan | None]:
    """The change that adds rules to the chosen file; none without a rule."""
    edits = [SettingEdit(("permissions", "allow"), rule, "add") for rule in rules]
    for edit in edits:
        require_rules(edit.path, edit.value, edit.how)
    if not edits:
        return None, None
    directory = Path(options.project or ".").expanduser()
    return planned_edits(
        only_home(options), "permissions.allow", edits, directory=directory, scope=options.scope
    )


def _again(options: Namespace) -> list[str]:
    """The same command with ``--apply``."""
    words = ["rules", "suggest"]
    for name in ("since", "until", "project", "mode", "settings", "managed", "rules"):
        if getattr(options, name):
            words += option(f"--{name}", getattr(options, name))
    words += [f"--{options.period.replace(' ', '-')}"] if options.period else []
    words += ["--min", str(options.min)] if options.min != _LEAST else []
    words += ["--project-code"] if options.project_code else []
    words += ["--scope", options.scope] if options.scope != "user" else []
    return [*words, "--apply"]


def _tell_advice(advice: RuleAdvice) -> None:
    output.say(
        f"{counted(advice.prompts, 'prompt')} in {counted(advice.calls, 'call')}; "
        f"{counted(len(advice.suggestions), 'rule')} would save {advice.saved:,}"
    )
    _tell_groups(advice.groups)
    if advice.suggestions:
        output.say("Suggested rules:")
    for one in advice.suggestions:
        output.say(f"{one.calls:>7,}  {output.styled(visible(one.rule), 'bold')}  ({_TIERS[one.tier]})")
        _tell_examples(one.examples)
    for idle in advice.idle:
        place = f"{idle.verdict.value} {idle.rule} ({idle.source})"
        output.say(f"{output.styled(str(idle.kind), 'yellow')}: {visible(f'{place}: {idle.why}')}")


_TIERS = {
    "open": "any arguments: it changes nothing but what it names",
    "project code": "runs code of the project",
    "exact": "these words only",
}


def _tell_groups(groups: Sequence[PromptGroup]) -> None:
    """How many prompts each would save, and why nothing saves the rest."""
    if not groups:
        return
    output.say("By today's rules and mode, saved by:")
    rest = [one for one in groups if one.saved_by == "nothing"]
    for one in groups:
        if one.saved_by != "nothing":
            output.say(f"{one.calls:>7,}  {visible(one.why)}")
    if rest:
        output.say(f"{sum(one.calls for one in rest):>7,}  nothing safe, because:")
    for one in rest[:_ROWS]:
        output.say(f"         {one.calls:>7,}  {visible(shortened(one.why, 60))}")
    if len(rest) > _ROWS:
        output.say(f"         ... and {len(rest) - _ROWS} more reasons; --json lists all", "dim")


# ---- hook --------------------------------------------------------------------------------------------------


def run_hook(options: Namespace) -> int:
    """One answer on stdout, or exit status 2. The client allows the call if a hook ends in any other way."""
    if sys.__stdout__ is None:
        return 2  # stdout was closed; no answer can be given
    try:
        found = json.dumps(_hook_answer(options))
        sys.stdout.write(found + "\n")
        sys.stdout.flush()
    except BaseException as problem:  # noqa: BLE001 - also an interrupt: the call must not pass
        _say_why(problem)
        return 2
    return 0


def _hook_answer(options: Namespace) -> dict[str, object]:
    try:
        # Named or not, a home need not be there yet: a project has rules of its own.
        homes = [home_at(options.homes[0])] if options.homes else [*claude_homes(), home_at("~/.claude")]
        home, request = ClaudeHome(homes[0].path, homes[0].config_file), sys.stdin.buffer.read()
        rules = Path(options.rules) if options.rules else None
        return answer_hook(home, request, rules=rules, managed=_managed(options), may_allow=options.may_allow)
    except Exception as problem:  # noqa: BLE001 - whatever fails, the call is held back
        return answer(Verdict.DENY, f"recollect could not decide this call: {problem}")


def _say_why(problem: BaseException) -> None:
    try:
        print(f"recollect rules hook: {type(problem).__name__}: the call is held back", file=sys.stderr)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)  # the interpreter's last flush must not change the exit status
        os.close(devnull)
    except (OSError, ValueError):
        return
