"""Let the model work on a prompt unattended, and record the session.

Needs the extra recollect[agent]. The API key and address come from
ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL. Tools: Bash (in the sandbox of
`recollect run`), Read, Write, Edit, Glob, Grep, TodoWrite, Agent (a sub-agent
that plans, explores or works), and the tools of the project's trusted MCP
servers. Commands and agents may work in the background; the run ends when they
have.

The permission rules of this directory decide every call. A call that would need
confirmation is refused, as in the client's print mode, unless --allowed-tools
allows it. The session is written to the Claude home, where the client finds it
(`claude --resume ID`), or with --store to a separate directory. A session that
the client began is continued in a copy; its file is not changed.

Before the model's window is full, the conversation is replaced by a summary
(--compact-at); -p '/compact [INSTRUCTIONS]' does so at once. What was said
before stays in the log.

Exit status: 0 done; 1 the API failed, the model refused, or --max-turns was
reached; 130 interrupted.

Example:
  recollect agent -p 'Which tests are slow? Look, do not change anything.'
  recollect agent -p 'Fix the typo in README.md' --permission-mode acceptEdits
  recollect agent -p 'And run the tests' --resume @last \\
    --allowed-tools 'Bash(make test)' --max-turns 10 --output-format json
  recollect agent -p '/compact keep the file names' --resume @last
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.text import visible, visible_lines
from recollect.errors import UsageError, install_hint
from recollect.services.documents.runs import AgentRunDocument, AgentUsageDocument

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path
    from threading import Event

    from recollect.runtime import Agent, AgentResult, AgentSession, ToolRunner
    from recollect.runtime.api_client import ApiClient
    from recollect.runtime.gate import PermissionGate
    from recollect.runtime.mcp_tools import McpTools
    from recollect.storage.home import ClaudeHome
    from recollect.system.locations import HomeRoot

INTERRUPTED = 130


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-p", "--prompt", metavar="PROMPT", required=True, help="the task; - reads it from stdin"
    )
    parser.add_argument(
        "--model", metavar="M", help="the model (default: $ANTHROPIC_MODEL, the settings', the client's)"
    )
    parser.add_argument("--max-turns", metavar="N", type=int, help="at most N answers of the model")
    parser.add_argument(
        "--allowed-tools",
        metavar="RULE",
        action="append",
        default=[],
        help="allow rule for this run: 'Bash(make test)', Edit (repeatable)",
    )
    parser.add_argument(
        "--disallowed-tools",
        metavar="RULE",
        action="append",
        default=[],
        help="deny rule for this run (repeatable)",
    )
    parser.add_argument(
        "--compact-at",
        metavar="TOKENS",
        type=int,
        help="compact when a request reaches TOKENS (default: four fifths of the window)",
    )
    parser.add_argument("--permission-mode", metavar="MODE", help="default, acceptEdits, plan, dontAsk, …")
    parser.add_argument("--resume", metavar="SESSION", help="continue a session: id, title or @last")
    parser.add_argument("--store", metavar="DIR", help="write the session here, not into the Claude home")
    parser.add_argument(
        "--allow-net",
        metavar="HOST",
        action="append",
        default=[],
        help="a host that commands may reach (repeatable)",
    )
    parser.add_argument("--unconfined", action="store_true", help="run commands without a sandbox")
    parser.add_argument("--no-mcp", action="store_true", help="do not use the project's MCP servers")
    parser.add_argument(
        "--output-format",
        choices=("text", "json"),
        default="text",
        help="the answer, or one JSON document (default text)",
    )


def run(options: Namespace) -> int:
    from contextlib import ExitStack
    from pathlib import Path

    from recollect.cli.terminal.homes import settings_root
    from recollect.runtime.api_client import connected

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
    import json

    from recollect.runtime.gate import PermissionGate
    from recollect.services.permissions.engine import permit
    from recollect.storage.home import ClaudeHome

    rules = {"allow": options.allowed_tools, "deny": options.disallowed_tools}
    settings = json.dumps({"permissions": rules}) if any(rules.values()) else None
    home = ClaudeHome(root.path, root.config_file)
    made = permit(home, project, mode=options.permission_mode, command_line=settings, with_config=True)
    given = [*options.allowed_tools, *options.disallowed_tools]
    for problem in made.engine.rules.problems:
        if problem.text in given:
            raise UsageError(
                f"rule {problem.text!a}: {problem.why}",
                hint="write Tool or Tool(pattern), for example Bash(make test)",
            )
    return PermissionGate(made)


def _session(options: Namespace, root: HomeRoot, project: Path) -> AgentSession:
    from pathlib import Path

    from recollect.runtime import new_session, resumed_session
    from recollect.storage.home import ClaudeHome
    from recollect.system.locations import data_dir

    data: Path | None = Path(options.data) if options.data else data_dir()
    home: ClaudeHome = ClaudeHome(root.path, root.config_file)
    if options.store:
        home, data = ClaudeHome(_own_store(Path(options.store), root)), None
    if options.resume:
        return resumed_session(home, options.resume, project, data=data)
    return new_session(home, project, data=data)


def _own_store(store: Path, root: HomeRoot) -> Path:
    """The directory for the session. A Claude home is refused: other rules apply there."""
    from recollect.services.home_guard import refuse_agent_home
    from recollect.system.locations import claude_homes

    refuse_agent_home(store, "--store DIR")
    homes = {home.path.resolve() for home in (root, *claude_homes())}
    if store.resolve() in homes:
        raise UsageError(f"--store {store}: is a Claude home", hint="leave --store out to write into it")
    return store.absolute()


def _mcp(
    options: Namespace, root: HomeRoot, project: Path, gate: PermissionGate, stack: ExitStack
) -> McpTools | None:
    """The project's MCP servers, if it has any and the extra is installed."""
    import importlib.util
    from pathlib import Path

    from recollect.services.settings.mcp_servers import project_servers

    data = Path(options.data) if options.data else None
    if not project_servers(project, [root], data=data).servers:
        return None
    if importlib.util.find_spec("mcp") is None:
        output.note(f"recollect: MCP servers are not used: {install_hint('mcp')}")
        return None
    from recollect.runtime.mcp_tools import McpTools

    return stack.enter_context(McpTools(project, gate, homes=[root], data=data))


def _runner(
    options: Namespace, session: AgentSession, gate: PermissionGate, mcp: McpTools | None, stopped: Event
) -> ToolRunner:
    from recollect.execution import Confinement
    from recollect.runtime import ToolRunner

    confinement = Confinement(
        allow_hosts=tuple(options.allow_net), backend="unconfined" if options.unconfined else "auto"
    )
    return ToolRunner(
        session.log, gate, home=session.home, mcp=mcp, confinement=confinement, cancelled=stopped
    )


def _agent(
    options: Namespace, session: AgentSession, runner: ToolRunner, api: ApiClient, mcp: McpTools | None
) -> Agent:
    import os

    from recollect.model.conversation.client_words import DEFAULT_MODEL
    from recollect.runtime import Agent, SubAgents
    from recollect.runtime.offered import tool_list

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
    named = None if gate.loaded is None else gate.loaded.settings.value("model")
    return named if isinstance(named, str) and named.startswith("claude-") else None


def _stopped_by_interrupt(stack: ExitStack) -> Event:
    """The first Ctrl-C ends the turn and is recorded in the log; the second ends the process."""
    import signal
    import threading

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
        output.print_json(_document(result, path))
    elif result.text:
        output.say(visible_lines(result.text) if sys.stdout.isatty() else result.text)
    if options.output_format != "json":
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


def _document(result: AgentResult, path: Path) -> AgentRunDocument:
    tokens = result.spending.tokens
    return AgentRunDocument(
        subtype=result.ending,
        is_error=result.is_error,
        result=result.text,
        stop_reason=result.stop_reason,
        session_id=result.session_id,
        log=str(path),
        num_turns=result.turns,
        duration_ms=round(result.seconds * 1000),
        total_cost_usd=None if result.spending.unpriced else float(result.spending.usd),
        unpriced=sorted(result.spending.unpriced),
        usage=AgentUsageDocument(
            tokens.input,
            tokens.output,
            tokens.cache_write_5m + tokens.cache_write_1h,
            tokens.cache_read,
        ),
        permission_denials=list(result.denials),
    )
