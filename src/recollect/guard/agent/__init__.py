"""The tool cycle: a model requests a call, it is decided, run, and logged as the client would log it.

    runner = ToolRunner(log, permit, home=home)
    runner.run({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}})

``ToolRunner`` runs one call; ``Agent`` is the headless loop around it. The permission engine decides
every call, and the decision is checked again right before the call runs. Without a person to ask,
``ask`` is a refusal. Results, refusals, failures and interruptions are logged before they are reported,
in the client's format, so that the client can continue the session.
"""

from __future__ import annotations

from recollect.guard.agent.calls import AnsweredCall, ApprovedCall
from recollect.guard.agent.loop import Agent, AgentResult
from recollect.guard.agent.runner import ToolRunner
from recollect.guard.agent.sessions import AgentLog, AgentSession, HomeStore, new_session, resumed_session
from recollect.guard.agent.sub_agents import SubAgents

__all__ = [
    "Agent",
    "AgentLog",
    "AgentResult",
    "AgentSession",
    "AnsweredCall",
    "ApprovedCall",
    "HomeStore",
    "SubAgents",
    "ToolRunner",
    "new_session",
    "resumed_session",
]
