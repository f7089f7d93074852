"""`recollect agent`: let the model work on a prompt unattended."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from threading import Event

from recollect.ask.sessions.home_guard import refuse_agent_home
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import settings_root
from recollect.cli.terminal.text import visible, visible_lines
from recollect.errors import UsageError, install_hint
from recollect.guard.agent import (
    Agent,
    AgentResult,
    AgentSession,
    SubAgents,
    ToolRunner,
    new_session,
    resumed_session,
)
from recollect.guard.agent.calls import PermissionGate
from recollect.guard.agent.model import ApiClient, McpTools, connected, tool_list
from recollect.guard.mcp.servers import project_servers
from recollect.guard.permissions.engine import ProjectEngine, permit
from recollect.guard.sandbox import Confinement
from recollect.model.conversation.client_words import DEFAULT_MODEL
from recollect.store.home import ClaudeHome
from recollect.system.locations import HomeRoot, claude_homes, data_dir

INTERRUPTED = 130


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-p", "--prompt", metavar="PROMPT", required=True, help="the task; - reads it from stdin")
    add("--model", metavar="M", help="the model (default: $ANTHROPIC_MODEL, the settings', the client's)")
    add("--max-turns", metavar="N", type=int, help="at most N answers of the model")
    add(
        "--allowed-tools",
        metavar="RULE",
        action="append",
        default=[],
        help="allow rule for this run: 'Bash(make test)', Edit (repeatable)",
    )
    add(
        "--disallowed-tools",
        metavar="RULE",
        action="append",
        default=[],
        help="deny rule for this run (repeatable)",
    )
    add(
        "--compact-at",
        metavar="TOKENS",
        type=int,
        help="compact when a request reaches TOKENS (default: four fifths of the window)",
    )
    add("--permission-mode", metavar="MODE", help="default, acceptEdits, plan, dontAsk, …")
    add("--resume", metavar="SESSION", help="continue a session: id, title or @last")
    add("--store", metavar="DIR", help="write the session here, not into the Claude home")
    add(
        "--allow-net",
        metavar="HOST",
        action="append",
        default=[],
        help="a host that commands may reach (repeatable)",
    )
    add("--unconfined", action="store_true", help="run commands without a sandbox")
    add("--no-mcp", action="store_true", help="do not use the project's MCP servers")
    add(
        "--output-format",
        choices=("text", "json"),
        default="text",
        help="the answer, or one JSON document (default text)",
    )


def run(options: Namespace) -> int:
    _check(options)
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        raise UsageError("the prompt is empty", hint="give the task with -p PROMPT")
    api = connected()
    with ExitStack() as stack:
        stack.callback(api.close)
        root = settings_root(options.homes)
        project = Path.cwd()
        gate = _gate(options, root, project)
        session = _session(options, root, project)
        stack.callback(session.log.close)
        if session.copied_from:
            output.note(f"recollect: continuing {session.copied_from} in a copy, {session.log.id}")
        mcp = None if options.no_mcp else _mcp(options, root, project, gate, stack)
        runner = _runner(options, session, gate, mcp, _stopped_by_interrupt(stack))
        result = _agent(options, session, runner, api, mcp).run(prompt)
    return _print_result(options, result, session.log.path)


def _check(options: Namespace) -> None:
    if ":sample" in options.homes:
        raise UsageError(
            "the built-in sample home cannot be changed", hint="use another --home, or --store DIR"
        )
    if options.compact_at is not None and options.compact_at < 1:
        raise UsageError(f"--compact-at {options.compact_at}: too few", hint="give at least 1")
    if options.max_turns is not None and options.max_turns < 1:
        raise UsageError(f"--max-turns {options.max_turns}: too few", hint="give at least 1")


def _gate(options: Namespace, root: HomeRoot, project: Path) -> PermissionGate:
    rules = {"allow": options.allowed_tools, "deny": options.disallowed_tools}
    settings = json.dumps({"permissions": rules}) if any(rules.values()) else None
    home = ClaudeHome(root.path, root.config_file)
    made = permit(home, project, mode=options.permission_mode, command_line=settings, with_config=True)
    given = [*options.allowed_tools, *options.disallowed_tools]
    for problem in made.rules.problems:
        if problem.rule in given:
            raise UsageError(
                f"rule {problem.rule!a}: {problem.why}",
                hint="write Tool or Tool(pattern), for example Bash(make test)",
            )
    return PermissionGate(made)


def _session(options: Namespace, root: HomeRoot, project: Path) -> AgentSession:
    data: Path | None = Path(options.data) if options.data else data_dir()
    home: ClaudeHome = ClaudeHome(root.path, root.config_file)
    if options.store:
        home, data = ClaudeHome(_own_store(Path(options.store), root)), None
    if options.resume:
        return resumed_session(home, options.resume, project, data=data)
    return new_session(home, project, data=data)


def _own_store(store: Path, root: HomeRoot) -> Path:
    """The directory for the session. A Claude home is refused: other rules apply there."""
    refuse_agent_home(store, "--store DIR")
    homes = {home.path.resolve() for home in (root, *claude_homes())}
    if store.resolve() in homes:
        raise UsageError(f"--store {store}: is a Claude home", hint="leave --store out to write into it")
    return store.absolute()


def _mcp(
    options: Namespace, root: HomeRoot, project: Path, gate: PermissionGate, stack: ExitStack
) -> McpTools | None:
    """The project's MCP servers, if it has any and the extra is installed."""
    data = Path(options.data) if options.data else None
    if not project_servers(project, [root], data=data).servers:
        return None
    if importlib.util.find_spec("mcp") is None:
        output.note(f"recollect: MCP servers are not used: {install_hint('mcp')}")
        return None
    return stack.enter_context(McpTools(project, gate, homes=[root], data=data))


def _runner(
    options: Namespace, session: AgentSession, gate: PermissionGate, mcp: McpTools | None, stopped: Event
) -> ToolRunner:
    confinement = Confinement(
        allow_hosts=tuple(options.allow_net), backend="unconfined" if options.unconfined else "bubblewrap"
    )
    return ToolRunner(
        session.log, gate, home=session.home, mcp=mcp, confinement=confinement, cancelled=stopped
    )


def _agent(
    options: Namespace, session: AgentSession, runner: ToolRunner, api: ApiClient, mcp: McpTools | None
) -> Agent:
    foreign = []
    if mcp is not None:
        listing = mcp.listing()
        for problem in listing.problems:
            output.note(f"recollect: {visible(problem.why)}; {visible(problem.hint)}")
        foreign = [tool for tool in listing.tools if runner.gate.offers(tool.name)]
    model = (
        options.model or os.environ.get("ANTHROPIC_MODEL") or _configured_model(runner.gate) or DEFAULT_MODEL
    )
    runner.delegate = SubAgents(session, api, model=model, foreign=foreign, max_turns=options.max_turns).run
    return Agent(
        session,
        runner,
        api,
        model=model,
        tools=tool_list(runner.names, foreign),
        max_turns=options.max_turns,
        compact_at=options.compact_at,
    )


def _configured_model(gate: PermissionGate) -> str | None:
    """The model of the settings; the client's short names ("opus") are not model ids."""
    engine = gate.engine
    named = engine.loaded.settings.value("model") if isinstance(engine, ProjectEngine) else None
    return named if isinstance(named, str) and named.startswith("claude-") else None


def _stopped_by_interrupt(stack: ExitStack) -> Event:
    """The first Ctrl-C ends the turn and is recorded in the log; the second ends the process."""
    event = threading.Event()

    def stop(*_: object) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(signal.signal, number, signal.signal(number, stop))
    return event


def _print_result(options: Namespace, result: AgentResult, path: Path) -> int:
    if options.output_format == "json":
        # With the client's names for the same.
        output.print_json(
            {
                "type": "result",
                "subtype": result.ending,
                "is_error": result.is_error,
                "result": result.text,
                "stop_reason": result.stop_reason,
                "session_id": result.session_id,
                "log": str(path),
                "num_turns": result.turns,
                "duration_ms": round(result.seconds * 1000),
                "total_cost_usd": None if result.spending.unpriced else float(result.spending.usd),
                "unpriced": sorted(result.spending.unpriced),
                "usage": result.usage,
                "permission_denials": result.denials,
            }
        )
    else:
        if result.text:
            output.say(visible_lines(result.text) if sys.stdout.isatty() else result.text)
        reasons = {
            "error_max_turns": f"stopped after {result.turns} answers",
            "error_api": "the API did not answer",
            "refusal": "the model refused",
            "interrupted": "interrupted",
        }
        if result.is_error:
            output.note(f"recollect: {reasons[result.ending]}; continue with --resume {result.session_id}")
        for name in dict.fromkeys(str(one["tool_name"]) for one in result.denials):
            output.note(f"recollect: refused by the permission rules: {visible(name)}")
    return INTERRUPTED if result.ending == "interrupted" else int(result.is_error)
