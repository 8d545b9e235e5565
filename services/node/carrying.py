"""Carrying a call out at the edge, before it is decided: threads, and the sandbox for code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mnemolog.events.envelope import Call
from mnemolog.events.trace import within
from mnemolog.services.api import Ran
from mnemolog.services.decider.tool import Asked, Edge, Tool
from mnemolog.services.node.fair import FairThreads

MAX_WAITING = 256
"""Calls of one tool that wait for their turn."""

if TYPE_CHECKING:
    from mnemolog.infra.sandbox.sandbox import Sandbox


class Carrying:
    """As many calls of a tool at once as it says. There is no time-out here: each tool has its
    own."""

    def __init__(self, *, agent_code: bool) -> None:
        self._agent_code = agent_code
        self._threads: dict[str, FairThreads] = {}
        self._sandbox: Sandbox | None = None
        self._making = threading.Lock()

    async def out(self, asked: Asked, edge: Edge) -> Asked:
        """The call with what came of it."""
        tool = asked.tool
        assert tool is not None and tool.carry_out is not None
        call = await self._threads_of(tool).run(
            asked.call.tenant, _carry_out, tool.carry_out, edge, asked
        )
        return replace(asked, call=call)

    def run_code(self, code: str, task: str, given: Any) -> Ran:
        # Loaded with the first code that is run: most services never run any.
        from mnemolog.infra.sandbox.sandbox import Sandbox

        with self._making:
            if self._sandbox is None:
                self._sandbox = Sandbox(enabled=self._agent_code)
        return self._sandbox.run(code, task, given)

    def close(self) -> None:
        for threads in self._threads.values():
            threads.shutdown()
        if self._sandbox is not None:
            self._sandbox.close()

    def _threads_of(self, tool: Tool) -> FairThreads:
        threads = self._threads.get(tool.name)
        if threads is None:
            name = f"carry-out-{tool.name}"
            threads = FairThreads(tool.at_once, name, MAX_WAITING, "such calls")
            self._threads[tool.name] = threads
        return threads


def _carry_out(carry_out: Callable[[Edge, Call, Any], Call], edge: Edge, asked: Asked) -> Call:
    with within(asked.call.trace):
        return carry_out(edge, asked.call, asked.args)
