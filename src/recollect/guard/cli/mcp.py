"""`recollect mcp`: servers of a project, and being one."""

from __future__ import annotations

import datetime as dt
import json
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from recollect.ask.conversation.content import IndexKeeper
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import command, own_cache, own_data
from recollect.cli.terminal.text import counted, padded, shortened, visible, visible_lines
from recollect.errors import MissingExtra, UsageError
from recollect.guard.mcp import Host, ToolListing
from recollect.guard.mcp import servers as mcp_servers
from recollect.guard.mcp.servers import KnownServer, ProjectServers, ServerState, ServerTransport
from recollect.model.secrets.redaction import redacted
from recollect.model.settings.decision import Decision
from recollect.share.mcp.protocol import McpService, serve
from recollect.share.mcp.tools import ABOUT, LISTING, OwnSessions, RecallTools
from recollect.store.trust import ServerGrants

Answer = TypeVar("Answer")
_ACTIONS = ("list", "trust", "tools", "call", "serve")
_DESCRIPTION_COLUMNS = 70


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("action", choices=_ACTIONS, help="see above")
    add("words", nargs="*", metavar="WORD", help="server, tool and arguments, as above")
    add("--project", metavar="DIR", default=".", help="the project (default: this directory)")
    add("--allow-net", action="append", default=[], metavar="HOST", help="trust: a host it may reach")
    add("--write", action="append", default=[], metavar="DIR", help="trust: a directory it may write")
    add("--unconfined", action="store_true", help="trust: run it without a sandbox")
    add(
        "--allow-private",
        action="store_true",
        help="trust: allow a private address (this machine, your network)",
    )
    add("--tools", action="store_true", help="trust: accept the current descriptions of its tools")
    add("--revoke", action="store_true", help="trust: revoke it")
    add("--apply", action="store_true", help="trust: carry out the plan; without this it is only printed")
    add("--yes", action="store_true", help="call: confirm if a rule asks; never overrides a deny")
    add("--timeout", type=float, metavar="SECONDS", help="call: how long to wait (default 120)")
    add("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    actions = {"list": _list, "trust": _trust, "tools": _tools, "call": _call, "serve": _serve}
    return actions[options.action](options)


def _serve(options: Namespace) -> int:
    """The client names its directory and its session in the environment; nothing else of it is read or kept."""
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    directory = Path(os.environ.get("CLAUDE_PROJECT_DIR") or options.project).resolve()
    if options.project != ".":
        directory = Path(options.project).resolve()
    own = OwnSessions(os.environ.get("CLAUDE_CODE_SESSION_ID"), homes, os.getppid())
    index = IndexKeeper(homes, own_cache(options))
    tools = RecallTools(index, data=own_data(options), directory=directory, user_home=Path.home(), own=own)
    service = McpService("recollect", LISTING, {"recall": tools.recall, "read": tools.read}, ABOUT)
    serve(service, index.refresh, sys.stdin.fileno(), sys.stdout.buffer)
    return 0


def _servers(options: Namespace) -> ProjectServers:
    return mcp_servers.project_servers(
        Path(options.project), chosen_homes(options.homes, may_be_missing=True), data=own_data(options)
    )


def _list(options: Namespace) -> int:
    project = _servers(options)
    if options.json:
        problems = [{"file": path, "name": name, "why": why} for path, name, why in project.problems]
        servers = [_row(one, one.grants) for one in project.servers]
        return output.print_json({"project": project.project, "servers": servers, "problems": problems})
    for one in project.servers:
        state = output.styled(
            padded(one.state.value, 19), "green" if one.state is ServerState.READY else "yellow"
        )
        name = output.styled(padded(one.name, 16), "cyan")
        output.say(f"{name}  {state}  {padded(one.written.origin.value, 7)}  {visible(_target(one))}")
        if one.why and one.state is not ServerState.UNTRUSTED:
            output.note(visible(f"  {one.name}: {one.why}"))
    if not project.servers:
        output.note("No MCP servers: there is no .mcp.json here, and none in your own configuration.")
    for path, name, why in project.problems:
        output.note(visible(f"not used: {name or path.name} in {path}: {why}"))
    untrusted = [one.name for one in project.servers if one.state in _NOT_TRUSTED]
    if untrusted:
        output.note(f"Review one and trust it: {command(options, 'mcp', 'trust', untrusted[0])}")
    return 0


_NOT_TRUSTED = (ServerState.UNTRUSTED, ServerState.WORKSPACE_UNTRUSTED)


def _row(one: KnownServer, grants: ServerGrants) -> dict[str, object]:
    """Names of variables and headers, never their values; what it is granted."""
    return {
        "name": one.name,
        "state": one.state,
        "why": one.why,
        "scope": one.written.origin,
        "transport": one.written.kind,
        "target": _target(one),
        "env": [name for name, _ in one.written.env],
        "headers": [name for name, _ in one.written.headers],
        "variables": one.written.variables,
        "hash": one.hash,
        "file": one.source,
        "grants": grants,
    }


def _target(one: KnownServer) -> str:
    """The command or address as written: without values of variables, and without secrets."""
    written = one.written
    text = (
        shlex.join([written.command, *written.args]) if written.kind is ServerTransport.STDIO else written.url
    )
    return redacted(text, lambda secret: "").data


def _trust(options: Namespace) -> int:
    if len(options.words) != 1:
        raise UsageError(
            "mcp trust: name one server", hint="recollect mcp trust NAME; `recollect mcp list` shows them"
        )
    project = _servers(options)
    server = project.named(options.words[0])
    if options.tools:
        return _accept_tools(options, server)
    if options.revoke:
        return _revoke(options, project, server)
    grants = _grants(options)
    if options.apply:
        _require_grantable(server, grants)
        mcp_servers.trust(project, server, grants, dt.datetime.now(dt.UTC))
    if options.json:
        return output.print_json({"server": _row(server, grants), "applied": options.apply})
    _say_plan(project, server, grants)
    if options.apply:
        output.say(
            f"Trusted. Revoke it with: {command(options, 'mcp', 'trust', server.name, '--revoke', '--apply')}"
        )
    else:
        output.say(f"Nothing was changed. Trust it with: {command(options, *_again(options), '--apply')}")
    return 0


def _grants(options: Namespace) -> ServerGrants:
    directories = tuple(str(Path(one).expanduser().resolve()) for one in options.write)
    for one in directories:
        if not Path(one).is_dir():
            raise UsageError(f"--write {one}: no such directory", hint="make it first, or name another")
    return ServerGrants(tuple(options.allow_net), directories, options.unconfined, options.allow_private)


def _require_grantable(server: KnownServer, grants: ServerGrants) -> None:
    if server.state is ServerState.INCOMPLETE:
        raise UsageError(
            f"MCP server {server.name}: {server.why}",
            hint="set the variables first: trust covers what would really run",
        )
    if server.written.kind is not ServerTransport.STDIO and (
        grants.allow_hosts or grants.write or grants.unconfined
    ):
        raise UsageError(
            f"MCP server {server.name} is not a program here",
            hint="--allow-net, --write and --unconfined only apply to programs; leave them out",
        )


def _again(options: Namespace) -> list[str]:
    words = ["mcp", "trust", options.words[0]]
    words += [part for host in options.allow_net for part in ("--allow-net", host)]
    words += [part for directory in options.write for part in ("--write", directory)]
    words += ["--unconfined"] * options.unconfined + ["--allow-private"] * options.allow_private
    if options.project != ".":
        words += ["--project", options.project]
    return words


def _say_plan(project: ProjectServers, server: KnownServer, grants: ServerGrants) -> None:
    written = server.written
    is_program = written.kind is ServerTransport.STDIO
    output.say(f"MCP server {output.styled(server.name, 'cyan')} of {visible(str(server.source))}")
    output.say(visible(f"  {'runs' if is_program else 'is at'}    {_target(server)}"))
    if is_program:
        output.say(visible(f"  in      {project.project}"))
    names = [name for name, _ in (written.env if is_program else written.headers)]
    if names:
        output.say(visible(f"  with    {'environment' if is_program else 'headers'} {', '.join(names)}"))
    if written.variables:
        output.say(visible(f"  reads   {', '.join(written.variables)} from your environment"))
    if is_program:
        output.say(visible(f"  sandbox {_confinement(grants)}"))
    elif grants.private_address:
        output.say("  may be at a private address")
    output.say(f"  hash    {server.hash[:16]}")


def _confinement(grants: ServerGrants) -> str:
    if grants.unconfined:
        return "NONE: it can do everything you can do"
    network = f"network to {', '.join(grants.allow_hosts)}" if grants.allow_hosts else "no network"
    writes = f"writes in {', '.join(grants.write)}" if grants.write else "writes nothing"
    return f"{network}; {writes}"


def _revoke(options: Namespace, project: ProjectServers, server: KnownServer) -> int:
    was = project.store.trusted(server.hash) is not None
    if options.apply:
        project.store.revoke(server.hash)
    if options.json:
        document = {"server": _row(server, server.grants), "applied": options.apply, "was_trusted": was}
        output.print_json(document)
    elif not was:
        output.say(f"{server.name} was not trusted.")
    elif options.apply:
        output.say(f"{server.name} is no longer trusted.")
    else:
        again = command(options, "mcp", "trust", server.name, "--revoke", "--apply")
        output.say(f"Nothing was changed. Revoke it with: {again}")
    return 0


def _accept_tools(options: Namespace, server: KnownServer) -> int:
    """Show the current tool descriptions; with ``--apply``, accept exactly these, not those of a later start."""

    async def ask(host: Host) -> ToolListing:
        return await (host.accept_tools(server.name) if options.apply else host.described(server.name))

    listing = _with_host(options, ask)
    if options.json:
        return output.print_json(structs.replace(listing, applied=options.apply))
    _say_tools(listing)
    if options.apply:
        output.say(f"Accepted: {counted(len(listing.tools), 'tool')}.")
    else:
        again = command(options, "mcp", "trust", server.name, "--tools", "--apply")
        output.say(f"Nothing was changed. Accept them with: {again}")
    return 0


def _tools(options: Namespace) -> int:
    listing = _with_host(options, lambda host: host.tools(*options.words))
    if options.json:
        output.print_json(listing)
    else:
        _say_tools(listing)
    return 1 if listing.problems or listing.refused else 0


def _say_tools(listing: ToolListing) -> None:
    for one in listing.tools:
        summary = shortened(visible(one.description.strip().partition("\n")[0]), _DESCRIPTION_COLUMNS)
        output.say(f"{output.styled(padded(one.name, 40), 'cyan')}  {summary}")
    for refused in listing.refused:
        again = f" (recollect mcp trust {refused.server} --tools)" if refused.changed else ""
        output.note(visible(f"refused: {refused.name} of {refused.server}: {refused.why}{again}"))
    for problem in listing.problems:
        output.note(visible(f"{problem.why} ({problem.hint})"))


def _call(options: Namespace) -> int:
    server, tool, arguments = _call_words(options)
    name = f"mcp__{server}__{tool}"
    result = _with_host(options, lambda host: host.call(name, arguments, seconds=options.timeout))
    if options.json:
        output.print_json(result)
        return 1 if result.is_error else 0
    for block in result.content:
        text = block.get("text")
        shown = text if isinstance(text, str) else f"[{block.get('type')}]"
        output.say(visible_lines(shown))
    if result.is_error:
        output.note("The tool reported an error.")
    return 1 if result.is_error else 0


def _call_words(options: Namespace) -> tuple[str, str, Mapping[str, object]]:
    if len(options.words) not in (2, 3):
        raise UsageError(
            "mcp call: name a server and a tool", hint='recollect mcp call SERVER TOOL \'{"text": "hi"}\''
        )
    server, tool, written = (*options.words, "{}")[:3]
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError) as cause:
        raise UsageError(
            "mcp call: the arguments are not JSON", hint="pass one JSON object in quotes"
        ) from cause
    if not isinstance(arguments, dict):
        raise UsageError(
            "mcp call: the arguments are not a JSON object", hint="pass one JSON object in quotes"
        )
    return server, tool, arguments


def _with_host(options: Namespace, ask: Callable[[Host], Awaitable[Answer]]) -> Answer:
    """Open the project's MCP host, make one request, and stop every server it started."""
    try:
        import anyio
    except ModuleNotFoundError as missing:
        raise MissingExtra("the MCP host", missing.name or "mcp", "mcp") from missing

    named = options.words[:1] if options.action != "tools" else options.words
    for name in named:
        _ask_for_trust(options, name)

    async def request() -> Answer:
        host = Host(
            options.project,
            homes=chosen_homes(options.homes, may_be_missing=True),
            data=own_data(options),
            approve=lambda name, arguments, decision: _approved(options, name, decision),
        )
        async with host:
            return await ask(host)

    return anyio.run(request)


def _ask_for_trust(options: Namespace, name: str) -> None:
    """Ask for trust on a terminal; elsewhere the host refuses and says what to type."""
    project = _servers(options)
    server = project.named(name)
    if server.state not in _NOT_TRUSTED or not _on_terminal():
        return
    _say_plan(project, server, ServerGrants())
    if _says_yes("Trust it and start it?"):
        mcp_servers.trust(project, server, ServerGrants(), dt.datetime.now(dt.UTC))


async def _approved(options: Namespace, name: str, decision: Decision) -> bool:
    if options.yes:
        return True
    return _on_terminal() and _says_yes(visible(f"{name}: {decision.why}. Call it?"))


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _says_yes(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
