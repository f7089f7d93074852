"""The tools a model is told of are those the API takes and the runner has."""

from __future__ import annotations

from pathlib import Path

from recollect.guard.agent.calls import ToolOutcome
from recollect.guard.agent.model import BUILT_IN, tool_list
from recollect.guard.mcp import Tool
from tests.guard.agent.workshop import Workshop


def test_every_built_in_tool_is_described(tmp_path: Path) -> None:
    """What the runner can do and what is offered are one list; Agent only where something runs agents."""
    runner = Workshop(tmp_path).runner()

    assert [name for name in BUILT_IN if name != "Agent"] == runner.names
    runner.delegate = lambda call, _: ToolOutcome("", "")
    assert list(BUILT_IN) == runner.names


def test_a_name_the_api_refuses_is_left_out() -> None:
    """MCP allows dots and slashes; the Messages API would refuse the whole request for them."""
    tools = [
        Tool(f"mcp__a__{name}", "a", name, "", {"properties": {}}, "f")
        for name in ("fine", "with.dot", "with/slash")
    ]

    assert [
        {"name": "mcp__a__fine", "description": "", "input_schema": {"type": "object", "properties": {}}}
    ] == (tool_list([], tools))
