"""The way of one call through the code: `python -m benchmarks.walk [--show] [--times N]`.

Walks a `learn` and a `recall` through an embedded node, from the bytes of a plain call to its reply
and to the end of what it sets going, and counts how many of our files that passes through and how
often control comes back to a file that it had left. Coming back is a call into the file, or one of
its coroutines going on; that a function returns to its caller is not counted.

Threads interleave as they please, so each call is walked several times, and the way that comes back
to files a median number of times is the one that is told.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import click
import msgspec

import mnemolog
from benchmarks.mcp_client import BenchmarkError
from mnemolog.infra.settings import Settings
from mnemolog.services.catalogue import load
from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway import direct
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.clients import Client
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.node.embedded.node import EmbeddedNode

OURS = f"{Path(mnemolog.__file__).parent}/"
TIMES = 5
QUIET_S, QUIET_WITHIN_S = 0.3, 30.0
"""A node is at rest when none of our functions was called for so long."""
BY_THE_CLOCK = ("upkeep",)
"""Threads that work at times of their own, whether or not there was a call."""
Ask = Callable[[str, dict[str, Any]], Awaitable[bytes]]


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[Ask]:
    """A node on `directory`, asked as HTTP asks it. All that is known here of how one is made."""
    families = load(FAMILIES)
    made = await asyncio.to_thread(EmbeddedNode, Settings(data=str(directory)), families)
    client = Client(Calls(made), Offer(families))

    async def ask(tool: str, arguments: dict[str, Any]) -> bytes:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        call = direct.read(msgspec.json.encode(message), None)
        assert call is not None
        return (await direct.answer(client, call, "walk"))[1]

    try:
        yield ask
    finally:
        await made.aclose()


class Step(msgspec.Struct, frozen=True):
    """A call of one of our functions: in which thread, file and function."""

    thread: str
    file: str
    function: str


class Way(msgspec.Struct, frozen=True):
    """What one call passed through, in order."""

    steps: list[Step]

    @property
    def entered(self) -> list[str]:
        """The files, as often as they were entered from another one."""
        return [file for file, _ in groupby(step.file for step in self.steps)]

    @property
    def files(self) -> int:
        """How many different files."""
        return len(set(self.entered))

    @property
    def returns(self) -> int:
        """How often a file was entered that had been left."""
        return len(self.entered) - self.files


class Walker:
    """Notes every call of our functions, in every thread, while it is told to."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._last_s = time.monotonic()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notice calls in this thread and in those that are started from now on."""
        threading.setprofile(self._noticed)
        sys.setprofile(self._noticed)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    async def walk(self, ask: Ask, tool: str, arguments: dict[str, Any]) -> Way:
        """One call from a node at rest to a node at rest."""
        await self._rest()
        self._steps = []
        reply = await ask(tool, arguments)
        await self._rest()
        answered = msgspec.json.decode(reply).get("result", {"isError": True})
        if answered.get("isError"):
            raise BenchmarkError(f"{tool} was refused: {reply.decode()[:300]}")
        steps, self._steps = self._steps, []
        return Way(steps)

    async def _rest(self) -> None:
        deadline_s = time.monotonic() + QUIET_WITHIN_S
        while (now_s := time.monotonic()) < self._last_s + QUIET_S:
            if now_s > deadline_s:
                raise BenchmarkError(f"The node did not come to rest within {QUIET_WITHIN_S:g} s.")
            await asyncio.sleep(self._last_s + QUIET_S - now_s)

    def _noticed(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not (file := frame.f_code.co_filename).startswith(OURS):
            return
        thread = threading.current_thread().name
        if thread in BY_THE_CLOCK:
            return
        self._last_s = time.monotonic()
        self._steps.append(Step(thread, file.removeprefix(OURS), frame.f_code.co_qualname))


async def walked(times: int, directory: Path) -> dict[str, list[Way]]:
    """The ways of `times` learns and recalls, alike."""
    walker = Walker()
    ways: dict[str, list[Way]] = {"learn": [], "recall": []}
    with walker.watching():
        async with node(directory) as ask:
            for number in range(times):
                # A collection of its own, so that every walk finds as much; what the first calls
                # in it have to make is made before. New texts, since some are remembered.
                place = {"collection": f"walk-{number}"}
                await ask("learn", {"insight": f"a grip of {number} N holds a glass", **place})
                await ask("recall", {"query": f"glass {number} N", **place})
                said = {"insight": f"the gripper slips on wet steel above {number} kg", **place}
                ways["learn"].append(await walker.walk(ask, "learn", said))
                asked = {"query": f"wet steel gripper {number} kg", **place}
                ways["recall"].append(await walker.walk(ask, "recall", asked))
    return ways


def median_way(ways: Sequence[Way]) -> Way:
    """The way that comes back to files a median number of times."""
    return sorted(ways, key=lambda way: way.returns)[(len(ways) - 1) // 2]


@click.command(help="How many of our files a learn and a recall pass through, and come back to.")
@click.option("--show", is_flag=True, help="Print the way: each file as it is entered.")
@click.option("--times", default=TIMES, type=click.IntRange(1), help="How often each is walked.")
def main(show: bool, times: int) -> None:
    """Walk, and print what was counted."""
    with tempfile.TemporaryDirectory(prefix="mnemolog-walk-") as directory:
        try:
            found = asyncio.run(walked(times, Path(directory)))
        except BenchmarkError as error:
            raise click.ClickException(str(error)) from error
    for tool, ways in found.items():
        way, counts = median_way(ways), sorted(each.returns for each in ways)
        click.echo(
            f"{tool}: {way.files} files, {way.returns} times back to a file that was left "
            f"({counts[0]} to {counts[-1]} in {times} walks), {len(way.steps)} calls"
        )
        if show:
            _show(way)


def _show(way: Way) -> None:
    threads = {
        name: number for number, name in enumerate(dict.fromkeys(s.thread for s in way.steps))
    }
    for _, steps in groupby(way.steps, key=lambda step: step.file):
        first = next(steps)
        click.echo(f"  {threads[first.thread]}  {first.file}  {first.function}")
    for name, number in threads.items():
        click.echo(f"  thread {number}: {name}")


if __name__ == "__main__":
    main()
