"""The tool cycle: a model asks for a call, it is decided, run, and written down as the client would.

    runner = ToolRunner(log, permit, home=home)
    runner.run({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}})

``ToolRunner`` does one call; ``Agent`` is the headless loop around it. Every call is decided by
the permission engine and the decision is held against the world once more right before it is carried out; a question
nobody is there to answer is a no. What happened is in the log before anybody is told: results, refusals, failures and
interruptions alike, in the client's shapes, so that the client can go on with the session.
"""

from __future__ import annotations

from recollect.runtime.agent_log import AgentLog, HomeStore
from recollect.runtime.loop import Agent, AgentResult
from recollect.runtime.outcome import AnsweredCall, PermissionQuestion
from recollect.runtime.runner import ToolRunner
from recollect.runtime.sessions import AgentSession, new_session, resumed_session

__all__ = [
    "Agent",
    "AgentLog",
    "AgentResult",
    "AgentSession",
    "AnsweredCall",
    "HomeStore",
    "PermissionQuestion",
    "ToolRunner",
    "new_session",
    "resumed_session",
]
