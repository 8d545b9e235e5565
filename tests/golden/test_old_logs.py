"""A log of the version before opens, is whole, and makes the state that it made."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.events.codec import decode_decision
from mnemolog.events.envelope import Decision
from mnemolog.infra.embedder.catalogue import DEFAULT_MODEL, covers
from mnemolog.infra.kafka.broker import Broker
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.settings import Settings
from mnemolog.services.api import Answer, Follow, Request
from mnemolog.services.node.embedded.node import EmbeddedNode
from mnemolog.services.node.kafka.node import KafkaNode
from mnemolog.services.node.node import Node
from tests.bus.fleet import until
from tests.e2e.conftest import run
from tests.families import CATALOGUE
from tests.golden.old_logs import (
    CALLS,
    DAY_US,
    DECISIONS,
    END_US,
    EXPECTED,
    PARTITIONS,
    UNDECIDED,
    Counted,
    counted,
    digests,
    old_state,
    write,
)

VOIDS, REFUSED = 1, 32
"""How many of the decisions do not count, and how many do and refuse."""
TOMORROW_US = END_US + DAY_US

_numbers = itertools.count()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the log, and nothing that follows from it."""
    write(tmp_path)
    return tmp_path


def played(data: Path, test: Callable[[Node], Awaitable[None]], **settings: Any) -> None:
    """A node of today on the directory, the day after its log ended."""

    async def play() -> None:
        given = Settings(**{"data": str(data), "model": "none", **settings})
        node = await asyncio.to_thread(EmbeddedNode, given, CATALOGUE, clock=lambda: TOMORROW_US)
        try:
            await test(node)
        finally:
            await node.aclose()

    asyncio.run(play())


async def ask(node: Node, tool: str, arguments: Any, **more: Any) -> Answer:
    given: dict[str, Any] = {
        "tool": tool,
        "arguments": arguments if isinstance(arguments, bytes) else msgspec.json.encode(arguments),
        "call_id": f"today-{next(_numbers)}",
        "received_at_us": TOMORROW_US,
        **more,
    }
    return await node.call(Request(**given))


async def told(node: Node, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await ask(node, tool, arguments)
    reply: dict[str, Any] = msgspec.json.decode(answer.reply)
    assert not answer.refused, reply
    return reply


async def again(node: Node, one: Counted) -> Answer:
    """The same call once more: under its own id, or as a new one under the same key."""
    call, tool = one.call, CATALOGUE.tools[one.call.tool]
    return await ask(
        node,
        call.tool,
        call.arguments,
        **({"call_id": call.id} if one.decision.own_key else {}),
        idempotency_key=call.idempotency_key,
        tenant=call.tenant,
        actor=call.actor,
        client=call.client,
        internal=tool.internal,
    )


def decision_at(node: Node, answer: Answer) -> Decision:
    partition, offset = map(int, (answer.position or "").split(":"))
    return decode_decision(node.log.decisions(partition, offset, 1)[0].data)


def stands(node: Node) -> list[tuple[int, int]]:
    ends = [node.log.end(partition) for partition in range(PARTITIONS)]
    return [(end.calls, end.decisions) for end in ends]


def verified(data: Path) -> list[dict[str, Any]]:
    """What `audit verify` says of each partition; the log must be whole."""
    shown = run("audit", "verify", "--json", "--data", str(data))
    found = json.loads(shown.stdout)
    assert found["whole"] and shown.returncode == 0, found
    partitions: list[dict[str, Any]] = found["partitions"]
    return partitions


def rebuilt(data: Path) -> None:
    shown = run("rebuild", "--verify", "--json", "--data", str(data))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert json.loads(shown.stdout)["differences"] == []


def test_the_log_is_whole_and_the_state_is_what_it_was(data: Path) -> None:
    async def test(node: Node) -> None:
        assert digests(node) == EXPECTED.state
        assert stands(node) == [
            (len(calls), len(decisions)) for calls, decisions in zip(CALLS, DECISIONS, strict=True)
        ]

    played(data, test)
    for report, calls in zip(verified(data), CALLS, strict=True):
        assert report["calls"] == report["counting"] == len(calls) > 25
        assert report["undecided"] == 0
    assert sum(report["void"] for report in verified(data)) == VOIDS
    assert sum(report["refused"] for report in verified(data)) == REFUSED
    rebuilt(data)


def test_every_tool_and_every_fact_there_was_is_on_it() -> None:
    """Else the other tests would show less than they say."""
    facts = CATALOGUE.projected.facts
    tools = {CATALOGUE.tools[one.call.tool].name for one in counted() if not one.decision.refused}
    found = {type(fact) for one in counted() for fact in facts.decode(one.decision.facts)}
    assert (len(tools), len(found)) == (32, 25)
    assert all(one.decision.key_space == "" for one in counted())


def test_it_answers(data: Path) -> None:
    async def test(node: Node) -> None:
        found = await told(node, "recall", query="charger", collection="kitchen", n=1)
        assert found["memories"][0]["content"] == "The charger is beside the window"
        found = await told(node, "recall", query="steel", collection="garage")
        assert [one["content"] for one in found["memories"]] == []
        found = await told(node, "open_nodes", names=["Astro", "Old [red] plan"])
        (entity,) = found["entities"]
        assert (entity["name"], entity["entityType"]) == ("Astro", "Component")
        assert entity["observations"] == [
            "A web framework",
            "It builds islands",
            "Version 6 is out",
        ]
        found = await told(node, "search_nodes", query="vercel", include_ended=True)
        assert {one["name"] for one in found["entities"]} == {"CachorroSpace", "Vercel"}

    played(data, test)
    shown = run("audit", "show", "4", "--json", "--data", str(data))
    life = [(one["actor"], one["changes"], one["why"]) for one in json.loads(shown.stdout)["life"]]
    assert life == [
        ("arm-1", ["learned: Cups are made of steel"], ""),
        ("ana", ["forgotten"], "the sensor was wrong"),
    ]
    shown = run("audit", "show", "entity:Old [red] plan", "--json", "--data", str(data))
    assert json.loads(shown.stdout)["life"][-1]["changes"] == [
        "deleted; it said:\n- It was given up\n- CachorroSpace follows Old [red] plan"
    ]


def test_what_has_a_vector_is_found_by_meaning_and_not_embedded_again(data: Path) -> None:
    async def test(node: Node) -> None:
        assert node.model is not None
        found = await told(node, "search_semantic", query="a tool to build web pages", limit=1)
        assert found["results"][0]["name"] == "Astro"
        assert found["results"][0]["distance"] is not None
        assert "pending" not in found
        found = await told(node, "recall", query="robot lamp noise", collection="attic", n=1)
        assert (found["mode"], found["total"]) == ("hybrid", 1)
        for state in node.projections.states:
            view = state.reader()
            assert [queue.count(view, DEFAULT_MODEL) for queue in CATALOGUE.queues] == [0, 0]
            for sweep in CATALOGUE.sweeps:
                waiting = sweep.page(view, DEFAULT_MODEL, 0, 100)
                assert not any(covers(node.model, one.text) for one in waiting)

    played(data, test, model=DEFAULT_MODEL)


def test_an_outcome_is_given_again_under_its_key(data: Path) -> None:
    """Whatever the call was placed by: a space, an id or a session."""
    kept = [one for one in counted() if one.decision.key is not None]
    late = [one for one in kept if one.decision.at_us < TOMORROW_US - 30 * DAY_US]
    asked = [one for one in kept if one not in late]
    own = {one.call.tool for one in asked if not one.decision.own_key}
    assert own >= {"learn", "forget", "update", "end_session", "end_relation", "migrate"}

    async def test(node: Node) -> None:
        for one in asked:
            answer = await again(node, one)
            assert (answer.reply, answer.refused) == (one.decision.reply, False), one.call
            assert decision_at(node, answer).facts == []
        changed = await ask(node, "learn", {"insight": "something else"}, idempotency_key="grip-1")
        assert changed.refused and b"was used for another call" in changed.reply
        assert digests(node) == EXPECTED.state

    played(data, test)
    verified(data)
    rebuilt(data)


def test_an_outcome_of_long_ago_is_known_while_few_calls_came_after_it(data: Path) -> None:
    (one,) = [one for one in counted() if one.call.idempotency_key == "long-ago"]

    async def test(node: Node) -> None:
        assert (await again(node, one)).reply == one.decision.reply

    played(data, test)


def test_its_changes_can_be_followed_from_the_start(data: Path) -> None:
    changes = [
        one.call.id
        for one in counted()
        if one.call.tenant == "default" and CATALOGUE.is_news(one.decision)
    ]

    async def test(node: Node) -> None:
        events = node.events(Follow(after="start", live=False))
        found = [msgspec.json.decode(one.data) async for one in events if one.kind == "decided"]
        assert sorted(one["call_id"] for one in found) == sorted(changes)

    played(data, test)
    assert len(changes) > 30


def test_a_directory_that_the_version_before_served_is_opened(data: Path) -> None:
    """Its state has another format: it is made anew from the log."""

    async def test(node: Node) -> None:
        assert digests(node) == EXPECTED.state
        found = await told(node, "recall", query="charger", collection="kitchen", n=1)
        assert found["memories"][0]["content"] == "The charger is beside the window"

    old_state(data)
    verified(data)
    played(data, test)
    verified(data)
    rebuilt(data)


def test_calls_that_nobody_had_decided_are_decided_at_the_start(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        decided_as_before(node)

    write(tmp_path, undecided=True)
    played(tmp_path, test)
    assert [report["undecided"] for report in verified(tmp_path)] == [0, 0]
    rebuilt(tmp_path)


def decided_as_before(node: Node) -> None:
    """As the version before decided them; how a refusal is worded is for each version."""
    assert digests(node) == EXPECTED.decided
    assert [end for end, _ in stands(node)] == [
        len(calls) + len(late) for calls, late in zip(CALLS, UNDECIDED, strict=True)
    ]
    replies = {}
    for partition in range(PARTITIONS):
        for one in node.log.decisions(partition, len(DECISIONS[partition]), 100):
            decision = decode_decision(one.data)
            reply, tool = msgspec.json.decode(decision.reply), CATALOGUE.tools.get(decision.tool)
            if tool is not None and tool.shows is not None and not decision.refused:
                reply = tool.shows(node.projections.states[partition].reader(), reply)
            replies[decision.call_id] = (decision.refused, reply)
    for call, expected in EXPECTED.replies.items():
        refused, reply = replies[call]
        assert refused is expected["refused"], reply
        assert refused or reply == expected["reply"]


def on_kafka(
    broker: Broker,
    data: Path,
    test: Callable[[KafkaNode], Awaitable[None]],
    *,
    undecided: bool = False,
) -> None:
    """The records on topics of their own, and a node of today that follows them."""
    topics = f"before-{uuid.uuid4().hex[:12]}"

    async def play() -> None:
        log = await KafkaLog.open(broker.bootstrap, PARTITIONS, prefix=topics)
        for partition in range(PARTITIONS):
            late = UNDECIDED[partition] if undecided else []
            await log.append_decisions(partition, DECISIONS[partition])
            await log.append_calls(partition, [*CALLS[partition], *late])
        await log.close()
        settings = Settings(
            data=str(data), log=f"kafka://{broker.bootstrap}", topics=topics, model="none"
        )
        node = await KafkaNode.open(settings, CATALOGUE, clock=lambda: TOMORROW_US)
        try:
            await until(lambda: all(one.ours for one in node.partitions))
            await test(node)
        finally:
            await node.aclose()

    asyncio.run(play())


def test_a_node_on_kafka_follows_it_to_the_same_state(broker: Broker, tmp_path: Path) -> None:
    (one,) = [
        one
        for one in counted()
        if one.call.idempotency_key == "forget-1" and one.decision.key is not None
    ]

    async def test(node: KafkaNode) -> None:
        assert digests(node) == EXPECTED.state
        found = await told(node, "open_nodes", names=["Astro"])
        assert found["entities"][0]["entityType"] == "Component"
        answer = await again(node, one)
        assert (answer.reply, answer.refused) == (one.decision.reply, False)

    on_kafka(broker, tmp_path, test)
    verified(tmp_path)
    rebuilt(tmp_path)


def test_a_node_on_kafka_decides_what_nobody_had_decided(broker: Broker, tmp_path: Path) -> None:
    async def test(node: KafkaNode) -> None:
        wanted = [len(one) + len(late) for one, late in zip(DECISIONS, UNDECIDED, strict=True)]
        await until(lambda: [one.shown for one in node.partitions] == wanted)
        await asyncio.to_thread(decided_as_before, node)

    on_kafka(broker, tmp_path, test, undecided=True)
    verified(tmp_path)
