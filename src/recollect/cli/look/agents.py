"""List the sub-agents of a session: task, duration, and the tool call behind each.

Finds them in every layout that clients have used: inside the log, beside it and
below it. Agents that were started by agents are indented. Changes nothing.

Example:
  recollect agents @last
  recollect agents 6ada00ba --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from recollect.cli.terminal import output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import named_session
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.model.conversation.agents import SubAgent
from recollect.model.ids import short_id
from recollect.services.agents import agents_of
from recollect.services.documents.parts import ListedAgentsDocument, listed_agent


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", help="session: id, start of an id, title, path, or @last")
    parser.add_argument(
        "--warm-ups", action="store_true", help="include agents the client started to warm its cache"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)


def run(options: Namespace) -> int:
    session = named_session(options, options.session)
    agents = agents_of(session, warm_ups=options.warm_ups)
    if wants_csv(options):
        print_csv([listed_agent(agent) for agent in agents])
        return 0
    if options.json:
        output.print_json(ListedAgentsDocument(session.id, [listed_agent(agent) for agent in agents]))
        return 0
    output.say(
        f"{counted(len(agents), 'sub-agent')} of {short_id(session.id)}  {shortened(visible(session.title), 60)}"
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
