"""Every tool there is, by name."""

from __future__ import annotations

from mnemolog.events.arguments import Arguments, Refused, parse
from mnemolog.events.envelope import Call
from mnemolog.services.decider import graph, robot
from mnemolog.services.decider.tool import Tool

FAMILIES: dict[str, tuple[Tool, ...]] = {"robot": robot.TOOLS, "graph": graph.TOOLS}

TOOLS: dict[str, Tool] = {
    name: tool
    for tools in FAMILIES.values()
    for tool in tools
    for name in (tool.name, *tool.aliases)
}
"""By every name a call may use; the call is on the log under the name it used."""

HIDDEN = "?"
"""Before the name of a tool that is there, but not for whoever asked for it."""


def read_call(call: Call) -> tuple[Tool, Arguments]:
    """The tool a call names and its arguments; `Refused` when it cannot be carried out."""
    if call.truncated is not None:
        raise Refused(call.truncated.reason)
    tool = TOOLS.get(call.tool)
    if tool is None:
        raise Refused(f"Unknown tool {call.tool.removeprefix(HIDDEN)[:64]!r}", code=-32602)
    return tool, parse(tool.arguments, call.arguments)
