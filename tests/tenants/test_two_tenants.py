"""What one tenant is told does not depend on what another one has.

A rival asks a service for everything that Acme has there, by every argument of every tool. The same
questions go to a service where Acme has other things. The answers are the same, word for word; and
what Acme is told afterwards is what it would have been told without the rival.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.infra.settings import Settings
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import Follow, Request, own_files
from mnemolog.services.node.embedded.node import EmbeddedNode
from tests.bus.script import Reply, Script
from tests.families import CATALOGUE

START_US = 1_760_000_000_000_000
STEP_US = 1_000_000
ACME, RIVAL = "acme", "rival"
OWN, OTHERS = 40, 60
"""Calls of the rival's own script, and of Acme's, beside those that come in any case."""
MOST_VALUES = 4
"""So many of Acme's values are tried for one argument."""
COUNTED = re.compile(r"(^|_)ids?$|cursor|^(number|pattern)s?$")
"""Ids are counted by the partition, for everybody in it: what they are may differ, not whose."""
TIMES = re.compile(r"_ms$|latency|duration|seconds|time|uptime|_at$|rate")

Call = tuple[str, Reply]


class House:
    """A service and everybody who uses it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = [START_US]
        given = Settings(data=str(directory / "data"), model="none", partitions=1)
        self.node = EmbeddedNode(given, CATALOGUE, clock=lambda: self.clock[0])
        self._count: dict[str, itertools.count[int]] = {}

    async def ask(self, tenant: str, tool: str, arguments: Reply) -> Reply:
        """Call ids and times depend on the tenant's own calls alone."""
        number = next(self._count.setdefault(tenant, itertools.count()))
        self.clock[0] += STEP_US
        answer = await self.node.call(
            Request(
                tool=tool,
                arguments=msgspec.json.encode(arguments),
                call_id=f"{tenant}-{number}",
                received_at_us=self.clock[0],
                tenant=tenant,
                actor=tenant,
                files=own_files(),
            )
        )
        found: Reply = msgspec.json.decode(answer.reply)
        return found

    def rest(self) -> None:
        """Until what reads leave behind is on the log."""
        with self.node.paused():
            pass

    async def plays(self, tenant: str, seed: int, calls: int) -> list[tuple[Call, Reply]]:
        played: list[tuple[Call, Reply]] = []

        async def play(tool: str, arguments: Reply) -> Reply:
            reply = await self.ask(tenant, tool, arguments)
            played.append(((tool, arguments), reply))
            return reply

        files = self.directory.with_name(f"files-{tenant}-{seed}")
        await Script(seed, calls, files).play(play)
        return played

    async def news(self, tenant: str) -> list[Any]:
        """All that a tenant's followers were told."""
        follow = Follow(tenant=tenant, after="start", live=False)
        events = self.node.events(follow)
        return [msgspec.json.decode(one.data) async for one in events if one.kind == "decided"]


def _masked(value: Any, key: str = "") -> Any:
    """Without how long it took, when it was, and numbers that others' calls move on."""
    if isinstance(value, dict):
        return {name: _masked(one, name) for name, one in value.items() if name != "position"}
    if isinstance(value, (list, tuple)):
        return [_masked(one, key) for one in value]
    if TIMES.search(key) and not isinstance(value, bool):
        return "some time"
    if isinstance(value, int) and COUNTED.search(key):
        return "an id"
    if isinstance(value, str):
        return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?|\b\d+\b", "a number", value)
    return value


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _leaves(one, (*path, name))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from _leaves(one, (*path, place))
    elif isinstance(value, (str, int)) and not isinstance(value, bool):
        yield path, value


def _with(value: Any, path: tuple[Any, ...], put: Any) -> Any:
    if not path:
        return put
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(copy[path[0]], path[1:], put)
    return copy


def _attack(theirs: list[tuple[Call, Reply]], own: list[tuple[Call, Reply]]) -> list[Call]:
    """Acme's own calls; and the rival's, with what Acme said and was told in each argument."""
    chance = random.Random(7)
    calls = [call for call, _ in theirs]
    by_name: dict[str, set[str | int]] = {}
    every: dict[type, set[str | int]] = {str: set(), int: set()}
    for call, reply in theirs:
        for path, value in (*_leaves(call[1]), *_leaves(reply)):
            names = [one for one in path if isinstance(one, str)]
            by_name.setdefault(names[-1] if names else "", set()).add(value)
            if re.search(r"id$|name|tag|session|collection|from|to|cursor|position", names[-1]):
                every[type(value)].add(value)
    first = {call[0]: call for call, _ in reversed(own)}
    for tool, arguments in first.values():
        most = 1 if tool in ("execute_agent_code", "test_embeddings") else MOST_VALUES
        for path, value in _leaves(arguments):
            names = [one for one in path if isinstance(one, str)]
            fitting = [one for one in by_name.get(names[-1], ()) if type(one) is type(value)]
            fitting += chance.sample(sorted(every[type(value)], key=str), 2)
            for put in sorted(fitting, key=str)[: most + 2][-most:]:
                calls.append((tool, _with(arguments, path, put)))
    seen: dict[str, Call] = {}
    for call in calls:
        seen.setdefault(json.dumps(call, sort_keys=True), call)
    return list(seen.values())


async def _story(house: House, seed: int, calls: int = OTHERS) -> tuple[list[Any], list[Any]]:
    own = await house.plays(RIVAL, 1, OWN)
    return own, await house.plays(ACME, seed, calls)


async def _reads(house: House, calls: list[Call]) -> list[Any]:
    """What Acme is told when it asks again."""
    reads = [(tool, args) for tool, args in calls if _is_read(tool)]
    return [_masked(await house.ask(ACME, *call)) for call in reads]


def _is_read(tool: str) -> bool:
    return tool in CATALOGUE.tools and CATALOGUE.tools[tool].reads


def test_neither_can_tell_that_the_other_is_there(tmp_path: Path) -> None:
    async def test() -> None:
        houses = {name: House(tmp_path / name) for name in ("attacked", "elsewhere", "left alone")}
        try:
            own, theirs = await _story(houses["attacked"], 2)
            # With more, so that no id of Acme's in the one is given to the rival in the other.
            own_too, _ = await _story(houses["elsewhere"], 3, 3 * OTHERS)
            await _story(houses["left alone"], 2)
            assert _masked(own) == _masked(own_too)
            attack = _attack(theirs, own)
            offered = {name for name, tool in CATALOGUE.tools.items() if not tool.internal}
            aliases = {one for tool in CATALOGUE.tools.values() for one in tool.aliases}
            assert {tool for tool, _ in attack} >= offered - aliases
            for call in attack:
                here = await houses["attacked"].ask(RIVAL, *call)
                there = await houses["elsewhere"].ask(RIVAL, *call)
                assert _masked(here) == _masked(there), call
            told = [_masked(await houses[one].news(RIVAL)) for one in ("attacked", "elsewhere")]
            assert told[0] == told[1]
            houses["left alone"].clock[0] = houses["attacked"].clock[0]
            asked = [call for call, _ in theirs]
            after = await _reads(houses["attacked"], asked)
            assert after == await _reads(houses["left alone"], asked)
        finally:
            for house in houses.values():
                await asyncio.to_thread(house.node.close)

    asyncio.run(test())


_absent = itertools.count(10**9)
SAID = re.compile(r"'[^']*'|\b[\d.]+\b")
ANSWERING = ("decider", "read", "examine")
"""The threads that answer callers."""
HANDLES = re.compile(r"(^|_)ids?$|^names?$|entity_?names?$", re.IGNORECASE)


def test_what_belongs_to_another_takes_the_same_way_as_what_nobody_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long a refusal takes says nothing: the state is asked the same questions."""
    asked: list[str] = []
    connect = PartitionState._connect

    def traced(state: PartitionState) -> sqlite3.Connection:
        connection = connect(state)
        connection.set_trace_callback(note)
        return connection

    def note(statement: str) -> None:
        if threading.current_thread().name.startswith(ANSWERING):
            asked.append(statement)

    monkeypatch.setattr(PartitionState, "_connect", traced)

    async def test() -> None:
        house = House(tmp_path / "house")
        try:
            own, theirs = await _story(house, 2)
            ours = {value for one in own for _, value in _leaves(list(one))}
            there: dict[tuple[str, type], Any] = {}
            for path, value in itertools.chain.from_iterable(_leaves(one) for _, one in theirs):
                if HANDLES.search(name := _name(path)) and value not in ours:
                    there[name.removesuffix("s"), type(value)] = value
            tried = set()
            for tool, arguments in {call[0]: call for call, _ in own}.values():
                for path, value in _leaves(arguments):
                    handle = _name(path).removesuffix("s"), type(value)
                    if handle not in there:
                        continue
                    ways = []
                    for put in (_nobodys(type(value)), there[handle]):
                        await asyncio.to_thread(house.rest)
                        asked.clear()
                        reply = await house.ask(RIVAL, tool, _with(arguments, path, put))
                        ways.append([re.sub(SAID, "?", one) for one in asked])
                        if not _is_read(tool) and "error" not in reply:
                            break  # It makes what is not there.
                    else:
                        tried.add(tool)
                        assert ways[0] == ways[1], (tool, path)
            assert len(tried) > 15, tried
        finally:
            await asyncio.to_thread(house.node.close)

    asyncio.run(test())


def _nobodys(kind: type) -> int | str:
    """An id, or a name that could be one, which nobody has."""
    number = next(_absent)
    return number if kind is int else f"00000000-0000-4000-8000-{number:012}"


def _name(path: tuple[Any, ...]) -> str:
    return next((one for one in reversed(path) if isinstance(one, str)), "")
