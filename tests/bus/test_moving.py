"""A store moves up: its log is copied from its data directory to Kafka and goes on there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Call
from mnemolog.events.log import LogError
from mnemolog.infra.kafka.broker import Broker
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.infra.settings import Settings
from mnemolog.services.api import Request, Unavailable
from mnemolog.services.node.embedded.node import EmbeddedNode
from mnemolog.services.node.kafka.moving import Moved, move
from mnemolog.services.node.kafka.node import KafkaNode
from tests.bus.fleet import PARTITIONS, Fleet, call, settings_of, until
from tests.e2e.conftest import PATIENCE_S, HttpClient, Server, environment, run
from tests.families import CATALOGUE
from tests.spec.given import collection_in

ROBOTS = [collection_in(number, PARTITIONS) for number in range(PARTITIONS)]
THINGS = ("1", "2", "entity:Gripper", "entity:Arm", "relation:1", "reflection:1")


def imported(
    fleet: Fleet, directory: Path, *args: str, topics: str = ""
) -> subprocess.CompletedProcess[str]:
    os.environ["MNEMOLOG_TOPICS"] = topics or fleet.topics
    try:
        return run("import", "--from-data", str(directory), "--log", fleet.log, *args)
    finally:
        del os.environ["MNEMOLOG_TOPICS"]


def moved(fleet: Fleet, directory: Path) -> Moved:
    told = imported(fleet, directory, "--json")
    assert told.returncode == 0, told.stderr
    return msgspec.json.decode(told.stdout, type=Moved)


def said(*args: str) -> Any:
    told = run(*args, "--json")
    assert told.returncode == 0, told.stdout + told.stderr
    return json.loads(told.stdout)


def hash_of(directory: Path) -> str:
    report = said("rebuild", "--verify", "--data", str(directory))
    assert report["differences"] == []
    return str(report["state_hash"])


def lives(directory: Path) -> dict[str, Any]:
    return {
        thing: said("audit", "show", thing, "--data", str(directory))["life"] for thing in THINGS
    }


def live_a_little(client: HttpClient) -> dict[str, Any]:
    """Some of everything; what the store says of it afterwards."""
    for i, robot in enumerate(ROBOTS):
        session = client.ok("start_session", {"collection": robot})["session_id"]
        learned = [
            client.ok("learn", {"insight": text, "collection": robot, "session_id": session})
            for text in (f"robot {i} grips cups at 12N", f"shelf {i} is behind the blue door")
        ]
        client.ok("update", {"memory_id": learned[0]["memory_id"], "new_content": "grips at 11N"})
        client.ok("forget", {"memory_id": learned[1]["memory_id"], "reason": "moved"})
        client.ok("learn", {"insight": f"drive slowly on ramp {i}", "collection": robot})
        client.ok("recall", {"query": "ramp", "collection": robot})
        client.ok("end_session", {"session_id": session, "outcome_score": 0.5})
    entities = [
        {"name": "Arm", "entityType": "Part", "observations": ["has six joints"]},
        {"name": "Gripper", "entityType": "Part", "observations": ["is worn", "closes at 12N"]},
        {"name": "Old", "entityType": "Part", "observations": ["was thrown away"]},
    ]
    client.ok("create_entities", {"entities": entities})
    relations = [
        {"from": "Gripper", "to": "Arm", "relationType": "part_of"},
        {"from": "Old", "to": "Arm", "relationType": "part_of"},
    ]
    client.ok("create_relations", {"relations": relations})
    about = {"target_type": "entity", "target_id": 1, "content": "the arm is the oldest part"}
    client.ok("add_reflection", about)
    gone = {"entityName": "Gripper", "observations": ["is worn"]}
    client.ok("delete_observations", {"deletions": [gone]})
    client.ok("delete_entities", {"entityNames": ["Old"]})
    client.ok("open_nodes", {"names": ["Arm", "Gripper"]})
    client.refused("learn", {"insight": ""})
    return known(client)


def known(client: HttpClient) -> dict[str, Any]:
    """What is stored, by id."""
    found: dict[str, Any] = {"graph": client.ok("read_graph", {"limit": 50})["entities"]}
    for robot in ROBOTS:
        rows = client.ok("recall", {"query": "ramp grips", "collection": robot, "n": 50})
        found[robot] = {one["id"]: one["content"] for one in rows["memories"]}
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Server]:
    """An embedded store that is being served."""
    server = Server(tmp_path / "embedded", "--model", "none", "--partitions", str(PARTITIONS))
    yield server
    server.process.kill()
    server.process.wait()


def test_a_store_goes_on_on_kafka_as_if_it_had_always_been_there(
    store: Server, fleet: Fleet
) -> None:
    before = live_a_little(store.client())
    refused = imported(fleet, store.data)
    assert refused.returncode == 1
    assert f"in use by process {store.process.pid}; stop that server" in refused.stderr
    assert store.stop() == 0
    exported = run("export", "--data", str(store.data)).stdout
    assert '"type":"entity"' in exported
    whole = said("audit", "verify", "--data", str(store.data))
    state, told = hash_of(store.data), lives(store.data)

    shown = imported(fleet, store.data)
    assert shown.returncode == 0, shown.stderr
    assert f"mnemolog serve --log {fleet.log}" in shown.stdout
    report = moved(fleet, store.data)
    counting = sum(one["counting"] for one in whole["partitions"])
    assert (report.partitions, report.decisions, report.calls) == (PARTITIONS, counting, counting)
    assert report.already_there == 2 * counting

    node = fleet.node("one")
    assert node.stop() == 0
    assert fleet.hash_of("one") == state
    assert fleet.verify("one") == whole["partitions"]
    assert lives(fleet.data("one")) == told
    assert run("export", "--data", str(fleet.data("one"))).stdout == exported

    client = fleet.node("one").client()
    assert run("export", "--data", str(fleet.data("one"))).stdout == exported
    assert known(client) == before
    for robot in ROBOTS:
        same = client.ok("learn", {"insight": "drives carefully", "collection": robot})
        # Three memories, of which the session's two came first; ids are dense in a partition.
        assert same["memory_id"] == 3 * PARTITIONS + ROBOTS.index(robot) + 1
    client.ok("create_entities", {"entities": [{"name": "New"}]})
    ids = [one["id"] for one in client.ok("open_nodes", {"names": ["New", "Arm"]})["entities"]]
    assert len(set(ids)) == 2
    again = moved(fleet, store.data)
    assert again.already_there == again.calls + again.decisions
    fleet.end()
    assert sum(one["counting"] for one in fleet.verify("one")) > counting


def test_wrong_arguments_are_told(tmp_path: Path) -> None:
    def told(*args: str) -> str:
        shown = run("import", *args)
        assert shown.returncode != 0
        return " ".join(shown.stderr.split())

    kafka = ("--log", "kafka://127.0.0.1:1")
    there = ("--from-data", str(tmp_path))
    assert "not both" in told("memory.jsonl", *there, *kafka)
    assert "leave --data out" in told(*there, *kafka, "--data", "x")
    assert "--log kafka://HOST:PORT" in told(*there)
    assert "goes with --from-data" in told("memory.jsonl", *kafka)
    assert "There is no embedded log" in told(*there, *kafka)
    assert list(tmp_path.iterdir()) == []
    SqliteLog(tmp_path / "log.db").shut()
    assert "No Kafka answers at 127.0.0.1:1" in told(*there, *kafka)


# --- in this process -----------------------------------------------------------------------------


def filled(data: Path, count: int, partitions: int = PARTITIONS) -> None:
    """A store with that many memories."""
    asyncio.run(_filled(data, count, partitions))


async def _filled(data: Path, count: int, partitions: int) -> None:
    settings = Settings(data=str(data), model="none", partitions=partitions)
    node = await asyncio.to_thread(EmbeddedNode, settings, CATALOGUE)
    try:
        for start in range(0, count, 50):
            await asyncio.gather(*(learn(node, number) for number in range(start, start + 50)))
    finally:
        await node.aclose()


async def learn(node: EmbeddedNode, number: int) -> None:
    insight = f"{uuid.uuid4().hex} {uuid.uuid4().hex}"
    arguments = {"insight": insight, "collection": ROBOTS[number % PARTITIONS]}
    request = Request(
        tool="learn",
        arguments=msgspec.json.encode(arguments),
        call_id=uuid.uuid4().hex,
        received_at_us=1_700_000_000_000_000,
    )
    assert not (await node.call(request)).refused


async def written(broker: Broker, topics: str) -> None:
    log = await KafkaLog.open(broker.bootstrap, 1, prefix=topics)
    await log.append_calls(0, [("x", b"x")])
    await log.close()


def killed(fleet: Fleet, directory: Path, share: float) -> None:
    """An import whose process is killed with SIGKILL a moment after that share is copied."""
    program = f"""
import contextlib, os, signal, threading, time
from mnemolog.services.cli import moves
from mnemolog.services.cli.main import main

killer = threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGKILL))

def told(done, total):
    if killer.ident is not None:
        time.sleep(3600)  # It is on its way, however late.
    elif done >= {share} * total:
        killer.start()

@contextlib.contextmanager
def bar(*_, **__):
    yield told

moves.progress_bar = bar
main()
"""
    arguments = ["import", "--from-data", str(directory), "--log", fleet.log, "--json"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**environment(), "MNEMOLOG_TOPICS": fleet.topics},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_killed_import_goes_on_where_it_stopped(fleet: Fleet, tmp_path: Path) -> None:
    data = tmp_path / "embedded"
    filled(data, 1_200)
    state, whole = hash_of(data), said("audit", "verify", "--data", str(data))
    for share in (0.1, 0.5, 0.8):
        killed(fleet, data, share)
    report = moved(fleet, data)
    total = report.calls + report.decisions
    assert total == 2_400
    assert 0.8 * total <= report.already_there < total
    assert fleet.node("one").stop() == 0
    assert fleet.hash_of("one") == state
    assert fleet.verify("one") == whole["partitions"]


def test_topics_that_hold_something_else_are_refused(fleet: Fleet, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    filled(mine, 50)
    filled(other, 100)
    moved(fleet, other)
    refused = imported(fleet, mine)
    assert refused.returncode == 1
    assert "The topics hold other decisions in partition 0 than this store" in refused.stderr

    single = tmp_path / "single"
    filled(single, 50, partitions=1)
    refused = imported(fleet, single)
    assert refused.returncode == 1
    assert "was made with 4 partitions, not 1" in refused.stderr

    # Topics that were written to where the store has nothing.
    topics = f"{fleet.topics}-written"
    asyncio.run(written(fleet.broker, topics))
    refused = imported(fleet, single, topics=topics)
    assert "The topics hold other calls in partition 0 than this store" in refused.stderr
    empty = tmp_path / "empty"
    SqliteLog(empty / "log.db").shut()
    assert "nothing to move" in imported(fleet, empty, topics=topics).stderr


class Stop(Exception):
    pass


@pytest.mark.parametrize("hears_of", ["everything", "calls before their decisions"])
def test_a_node_that_runs_on_the_topics_meanwhile_does_no_harm(
    broker: Broker, tmp_path: Path, hears_of: str
) -> None:
    """It takes no calls until the store's own are all there, decides none of those again, and goes
    on with the next ids."""
    filled(tmp_path / "embedded", 1_000)
    asyncio.run(_runs_meanwhile(broker, tmp_path, hears_of))


async def _runs_meanwhile(broker: Broker, tmp_path: Path, hears_of: str) -> None:
    topics = f"moving-{uuid.uuid4().hex[:12]}"
    source = SqliteLog(tmp_path / "embedded" / "log.db", read_only=True)
    target = await KafkaLog.open(broker.bootstrap, PARTITIONS, prefix=topics)
    node = await KafkaNode.open(settings_of(broker, topics, tmp_path / "node"), CATALOGUE)
    if hears_of != "everything":
        node._members[0]._told = lambda *_: None
    try:
        await until(lambda: all(one.ours for one in node.partitions))
        first = source.end(0)
        for stop_at in (first.decisions // 2, first.decisions, first.decisions + 1):

            def told(done: int, total: int, stop_at: int = stop_at) -> None:
                if done >= stop_at:
                    raise Stop

            with pytest.raises(Stop):
                await move(source, target, told)
            await until(lambda: node.partitions[0].state.next_offset > 0)
            with pytest.raises(Unavailable, match="a store is being moved to this log"):
                await call(node, "learn", insight="too early", collection=ROBOTS[0])
        report = await move(source, target, lambda done, total: None)
        assert report.decisions == 1_000
        for partition, robot in enumerate(ROBOTS):
            answer = await call(node, "learn", insight="in good time", collection=robot)
            number = msgspec.json.decode(answer.reply)["memory_id"]
            assert number == 250 * PARTITIONS + partition + 1
            assert answer.position == f"{partition}:{source.end(partition).decisions}"
        assert all(one.voids == 0 for one in node.partitions)
        assert (await node.health())["status"] == "ok"
    finally:
        await node.aclose()
        await target.close()
        source.shut()


def test_somebody_who_writes_in_between_is_noticed(broker: Broker, tmp_path: Path) -> None:
    filled(tmp_path / "embedded", 800, partitions=1)
    asyncio.run(_writes_in_between(broker, tmp_path))


async def _writes_in_between(broker: Broker, tmp_path: Path) -> None:
    source = SqliteLog(tmp_path / "embedded" / "log.db", read_only=True)
    target = await KafkaLog.open(broker.bootstrap, 1, prefix=f"moving-{uuid.uuid4().hex[:12]}")
    writing: list[asyncio.Task[list[int]]] = []

    def told(done: int, total: int) -> None:
        if done > 0 and not writing:
            writing.append(asyncio.create_task(target.append_decisions(0, [("x", b"x")])))

    try:
        with pytest.raises(LogError, match="Somebody else wrote to decisions of partition 0"):
            await move(source, target, told)
        with pytest.raises(LogError, match="The topics hold other decisions in partition 0"):
            await move(source, target, lambda done, total: None)
    finally:
        await target.close()
        source.shut()


def test_calls_without_a_decision_are_decided_after_the_move(fleet: Fleet, tmp_path: Path) -> None:
    """As a crash between the two leaves them."""
    data = tmp_path / "embedded"
    filled(data, 50, partitions=1)
    log = SqliteLog(data / "log.db")
    left = [
        Call(
            id=f"left-{number}",
            tool="learn",
            arguments=msgspec.json.encode({"insight": f"lesson {number} was left behind"}),
            space="default/robot/default",
            received_at_us=1_700_000_001_000_000 + number,
            tenant="default",
            actor="ann",
            client="test",
        )
        for number in (7, 8)
    ]
    log.append(0, [(one.space, encode_call(one)) for one in left], ())
    log.shut()
    report = moved(fleet, data)
    assert report.calls == report.decisions + 2
    client = fleet.node("one", "--partitions", "1").client()
    # Decided after those that were left.
    assert client.ok("learn", {"insight": "the next one"})["memory_id"] == 53
    found = client.ok("recall", {"query": "lesson left behind", "n": 10})["memories"]
    assert {one["id"]: one["content"] for one in found} == {
        51: "lesson 7 was left behind",
        52: "lesson 8 was left behind",
    }
    fleet.end()
    (partition,) = fleet.verify("one")
    assert partition["counting"] == report.calls + 2
    assert (
        said("audit", "show", "51", "--data", str(fleet.data("one")))["life"][0]["actor"] == "ann"
    )
    fleet.hash_of("one")
