"""List the sub-agents of a session: what they were asked, by which call, and how long they took.

Finds them in all layouts clients have used (inside the log, beside it, below it) and
nests agents that were sent by agents. Reads the session and its agents' logs once.

Example:
  recollect agents @last
  recollect agents 3f2a --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.model.conversation.agents import SubAgent
from recollect.services.agents import agents_of
from recollect.services.documents.parts import ListedAgentsDocument, listed_agent


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("session", help="id or its start, title, path, or @last")
    parser.add_argument(
        "--warm-ups", action="store_true", help="also those the client made to warm its cache"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    """Print the agents, first sent first."""
    session = open_home(options.homes, options.data).session(options.session)
    agents = agents_of(session, warm_ups=options.warm_ups)
    if options.json:
        output.print_json(ListedAgentsDocument(session.id, [listed_agent(agent) for agent in agents]))
        return 0
    output.say(
        f"{counted(len(agents), 'sub-agent')} of {session.id[:8]}  {shortened(visible(session.title), 60)}"
    )
    for line in (line for agent in agents for line in _lines(agent)):
        output.say(line)
    return 0


def _lines(agent: SubAgent) -> Iterator[str]:
    indent = "  " * agent.depth
    took = ""
    if agent.first_at and agent.last_at:
        took = f", {(agent.last_at - agent.first_at).total_seconds():.0f} s"
    what = visible(agent.description or agent.prompt or "(no prompt)")
    kind = f" [{visible(agent.agent_type)}]" if agent.agent_type else ""
    yield f"{indent}{output.styled(visible(agent.id), 'cyan')}{kind}  {shortened(what, 70)}"
    call = f"call {visible(agent.tool_use_id)} ({agent.link})" if agent.tool_use_id else "no call found"
    yield f"{indent}  {counted(agent.messages, 'message')}{took}, {agent.layout}, {call}"
