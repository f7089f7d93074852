"""Decide whether the permission rules allow a tool call, and improve the rules.

  check CALL     decide one call, Tool(argument) or Tool({json}): the deciding
                 rule with file and line, and what could not be analysed
  explain CALL   the same, with what every rule said
  replay         decide all calls of your sessions again; --rules FILE uses
                 other rules, --compare shows what they would change
  suggest        find the smallest safe allow list that saves prompts, and rules
                 that do nothing; writes nothing
  hook           answer the client's PreToolUse hook: call on stdin, decision on
                 stdout; any failure is a deny. It can only narrow: it denies
                 or asks, and leaves what the rules allow to the client. With
                 --may-allow it also allows what an allow rule covers.

In the settings, write the hook as `recollect perm hook || exit 2`, so that the
call is held back even if recollect cannot start.

Exit status of check and explain: 0 allow, 1 ask or deny. Of hook: 0 with an
answer, 2 without.

Example:
  recollect perm check 'Bash(git add -A && rm x)'
  recollect perm check 'Read({"file_path": "/etc/passwd"})' --cwd ~/src/shop
  recollect perm replay --since 90d --rules new.json --compare
  recollect perm suggest --since 90d
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.errors import NotFound, UsageError
from recollect.model.ids import short_id

if TYPE_CHECKING:
    from recollect.policy.decision import Decision, RuleSource, Verdict
    from recollect.policy.engine import RuleEvaluation, RuleSet
    from recollect.services.documents.permissions import DecisionDocument
    from recollect.services.permissions.call_history import PastCall
    from recollect.services.permissions.engine import ProjectEngine
    from recollect.services.permissions.replay import CallExample, Replay, Replayer
    from recollect.services.permissions.suggest import RuleAdvice
    from recollect.storage.home import ClaudeHome

_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}
_ROWS = 15


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=["check", "explain", "replay", "suggest", "hook"], help="see above")
    parser.add_argument(
        "call", metavar="CALL", nargs="?", help="check, explain: for example 'Bash(git status)'"
    )
    parser.add_argument(
        "--cwd", metavar="DIR", default=".", help="check, explain: directory of the call (default: this one)"
    )
    parser.add_argument("--mode", metavar="MODE", help="permission mode (default: from the settings)")
    parser.add_argument("--settings", metavar="FILE|JSON", help="like the client's --settings")
    parser.add_argument("--managed", metavar="FILE", help="read this file instead of the managed settings")
    parser.add_argument("--rules", metavar="FILE", help="use these rules instead of those in the settings")
    parser.add_argument(
        "--may-allow", action="store_true", help="hook: let calls run that one of your allow rules covers"
    )
    parser.add_argument("--compare", action="store_true", help="replay: show what --rules would change")
    parser.add_argument("--since", metavar="DATE", help="replay, suggest: calls since 90d, 2026-01-31, ...")
    parser.add_argument("--until", metavar="DATE", help="replay, suggest: calls until this date")
    parser.add_argument("--project", metavar="DIR", help="replay, suggest: calls in or below this directory")
    parser.add_argument(
        "--min",
        metavar="N",
        type=int,
        default=2,
        help="suggest: least number of prompts a rule saves (default 2)",
    )
    parser.add_argument(
        "--project-code", action="store_true", help="suggest: include rules that run the project's own code"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    if options.action == "hook":
        return _hook(options)
    actions = {"check": _check, "explain": _check, "replay": _replay, "suggest": _suggest}
    if options.action in ("check", "explain") and not options.call:
        raise UsageError(f"perm {options.action}: no call was named", hint="write 'Bash(git status)'")
    return actions[options.action](options)


def _homes(options: Namespace) -> list[ClaudeHome]:
    from recollect.cli.terminal.homes import directories

    homes = directories(options.homes)
    if not homes:
        raise NotFound("perm: no Claude home was found", hint="name one with --home DIR")
    return homes


def _managed(options: Namespace) -> Path | None:
    return Path(options.managed) if options.managed else None


def _rules(options: Namespace) -> RuleSet | None:
    from recollect.services.permissions.engine import rules_from

    return rules_from(Path(options.rules)) if options.rules else None


# ---- check and explain -------------------------------------------------------------------------------------


def _check(options: Namespace) -> int:
    from recollect.cli.terminal.homes import settings_home
    from recollect.services.permissions.engine import call_of, permit

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
    looks = here.explain(tool, arguments).looks if options.action == "explain" else ()
    if options.json:
        output.print_json(_document(decision, here, looks if options.action == "explain" else None))
    else:
        _tell(decision)
        for look in looks:
            mark = "+" if look.matched else "-"
            where = f"{look.rule.verdict.value} {look.rule.text} ({_place(look.rule.source)})"
            output.say(visible(f"  {mark} {where}: {look.why}"))
        _tell_problems(here, with_warnings=options.action == "explain")
    return 0 if decision.verdict.value == "allow" else 1


def _document(
    decision: Decision, here: ProjectEngine, looks: Iterable[RuleEvaluation] | None
) -> DecisionDocument:
    from msgspec.structs import replace

    from recollect.policy.rules.warnings import rule_warnings
    from recollect.services.documents import permissions as documents

    document = documents.decision_document(
        decision,
        mode=here.engine.mode,
        trusted=here.engine.workspace.trusted,
        problems=here.loaded.problems,
    )
    if looks is None:
        return document
    rules = [
        documents.RuleLookDocument(
            rule=one.rule.text,
            source=documents.source_document(one.rule.source),
            list_=one.rule.verdict,
            matched=one.matched,
            why=one.why,
        )
        for one in looks
    ]
    warnings = [documents.warning_document(one) for one in rule_warnings(here.engine.rules.rules)]
    return replace(document, rules=rules, warnings=warnings)


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
    from recollect.policy.rules.warnings import WarningKind, rule_warnings

    for problem in here.loaded.problems:
        output.note(visible(str(problem)))
    for one in here.engine.rules.problems:
        output.note(
            visible(f"{_place(one.source)}: {one.verdict.value} {one.text}: {one.why}; {one.consequence}")
        )
    for warning in rule_warnings(here.engine.rules.rules):
        if with_warnings or warning.kind is WarningKind.UNKNOWN_TOOL:
            output.note(visible(f"{_place(warning.rule.source)}: {warning}"))


def _styled(verdict: Verdict) -> str:
    return output.styled(verdict.value, _COLOURS[verdict.value])


def _by(rule: str | None, source: RuleSource | None) -> str:
    return "" if rule is None else visible(f"  [{rule}{'' if source is None else f', {_place(source)}'}]")


def _place(source: RuleSource) -> str:
    return f"{source.path or source.scope.value}{'' if source.line is None else f':{source.line}'}"


# ---- history -----------------------------------------------------------------------------------------------


def _calls(options: Namespace) -> Iterable[PastCall]:
    from recollect.model import timespan
    from recollect.services.permissions.call_history import past_calls
    from recollect.services.projects import ProjectFilter

    now = dt.datetime.now(dt.UTC)
    since, until = timespan.bounds(options.since or None, options.until or None, now)
    found = past_calls(_homes(options), since, until)
    if not options.project:
        return found
    wanted = ProjectFilter(Path(options.project).expanduser().absolute())
    return (call for call in found if wanted.fits(call.cwd))


def _replayer(options: Namespace, rules: RuleSet | None) -> Replayer:
    from recollect.services.permissions.replay import Replayer

    return Replayer(
        _homes(options)[0],
        rules=rules,
        managed=_managed(options),
        command_line=options.settings,
        mode=options.mode,
    )


def _replay(options: Namespace) -> int:
    from recollect.services.permissions.replay import replay

    if options.compare and not options.rules:
        raise UsageError("perm replay --compare: no rules were named", hint="add --rules FILE")
    before = _replayer(options, None) if options.compare else None
    found = replay(_calls(options), _replayer(options, _rules(options)), before)
    if options.json:
        from recollect.services.documents.permissions import replay_document

        output.print_json(replay_document(found))
        return 0
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
        uses = found.by_count(verdict)
        for use in uses[:_ROWS]:
            name = visible(use.rule or use.why)
            where = f" ({visible(_place(use.source))})" if use.source is not None else ""
            output.say(f"{_styled(verdict)} {use.calls:>7,}  {output.styled(name, 'bold')}{where}")
            _tell_examples(use.examples)
        if len(uses) > _ROWS:
            output.say(f"      ... and {len(uses) - _ROWS} more rules; --json lists all")


def _tell_shifts(found: Replay) -> None:
    changed = sum(shift.calls for shift in found.shifts.values())
    output.say(f"The new rules change {counted(changed, 'call')}:")
    for shift in sorted(found.shifts.values(), key=lambda one: -one.calls)[:_ROWS]:
        by = f" by {visible(shift.rule)}" if shift.rule else ""
        output.say(f"{_styled(shift.before)} -> {_styled(shift.after)} {shift.calls:>7,}{by}")
        _tell_examples(shift.examples)


def _tell_examples(examples: Sequence[CallExample]) -> None:
    for one in examples:
        text = shortened(visible(f"{one.tool}: {one.text}"), 78)
        show = output.typed(f"recollect show {visible(short_id(one.session))}")
        output.say(output.styled(f"         {text}   {show}", "dim"))


def _suggest(options: Namespace) -> int:
    from recollect.services.permissions.suggest import suggest

    replayer = _replayer(options, _rules(options))
    advice = suggest(_calls(options), replayer, least=max(options.min, 1), project_code=options.project_code)
    if options.json:
        from recollect.services.documents.permissions import advice_document

        output.print_json(advice_document(advice))
        return 0
    _tell_advice(advice)
    return 0


def _tell_advice(advice: RuleAdvice) -> None:
    output.say(
        f"{counted(advice.prompts, 'prompt')} in {counted(advice.calls, 'call')}; "
        f"{counted(len(advice.suggestions), 'rule')} would save {advice.saved:,}"
    )
    for one in advice.suggestions:
        output.say(f"{one.prompts:>7,}  {output.styled(visible(one.rule), 'bold')}  ({one.tier})")
        _tell_examples(one.examples)
    for idle in advice.idle:
        place = f"{idle.rule.verdict.value} {idle.rule.text} ({_place(idle.rule.source)})"
        output.say(f"{output.styled(idle.kind, 'yellow')}: {visible(f'{place}: {idle.why}')}")
    if advice.suggestions:
        output.say(
            output.typed("Add one with: recollect settings add permissions.allow RULE --scope local --apply")
        )


# ---- hook --------------------------------------------------------------------------------------------------


def _hook(options: Namespace) -> int:
    """One answer on stdout, or exit status 2. The client allows the call if a hook ends in any other way."""
    import json

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
        from recollect.services.permissions.hook import answered

        request = sys.stdin.buffer.read()
        rules = Path(options.rules) if options.rules else None
        return answered(
            _hook_home(options), request, rules=rules, managed=_managed(options), may_allow=options.may_allow
        )
    except Exception as problem:  # noqa: BLE001 - whatever fails, the call is held back
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": f"recollect could not decide this call: {problem}",
            }
        }


def _hook_home(options: Namespace) -> ClaudeHome:
    """The home whose settings apply, even if it does not exist yet."""
    from recollect.storage.home import ClaudeHome
    from recollect.system.locations import claude_homes, home_at

    if options.homes:
        root = home_at(options.homes[0])
    else:
        root = next(iter(claude_homes()), None) or home_at(Path.home() / ".claude")
    return ClaudeHome(root.path, root.config_file)


def _say_why(problem: BaseException) -> None:
    try:
        print(f"recollect perm hook: {type(problem).__name__}: the call is held back", file=sys.stderr)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)  # the interpreter's last flush must not change the exit status
        os.close(devnull)
    except (OSError, ValueError):
        return
