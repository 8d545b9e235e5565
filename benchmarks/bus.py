"""The service on Kafka beside the embedded one, over HTTP, with one, two and three nodes.

One broker on this machine, 16 partitions, and collections in all of them. The nodes, the broker
and the clients share the machine, so what a second node adds here is its cost, not its use.
"""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks import corpus
from benchmarks.goals import ON_KAFKA, OURS, WRITERS
from benchmarks.http_client import HttpNode, cpu_s
from benchmarks.mcp_client import BenchmarkError
from benchmarks.measure import SETTLE_S, Pace, in_turns
from benchmarks.results import (
    BUS_OPERATIONS,
    HTTP_LEARN,
    HTTP_RECALL,
    RECALL_ELSEWHERE,
    Memory,
    Rate,
    Results,
    Taken,
)
from mnemolog.events.ids import partition_of_space
from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.infra.embedder.store import models_dir
from mnemolog.infra.kafka.broker import Broker
from mnemolog.projections.robot.state import robot_space

PARTITIONS = 16
COLLECTIONS = 32
SHARED_WITHIN_S = 60.0
LEARN_SEED, PROBE_SEED, WRITE_SEED = 3001, 3100, 3200
MAX_WRITES_PER_S = 1_000
MODEL_ALONE = "the model alone"
WITHOUT_MODEL = f"{ON_KAFKA}, no model"


class BusPlan(msgspec.Struct, frozen=True):
    """How much is measured."""

    nodes: int
    operations: int
    warm_up: int
    warm_up_s: float
    seconds: float


FULL = BusPlan(3, 80, 20, 3.0, 15.0)
QUICK = BusPlan(2, 20, 5, 1.0, 3.0)


class BusTarget(Taken):
    """One node, or several on one log: what is learned at the first is looked for at the last."""

    def __init__(self, system: str, nodes: Sequence[HttpNode], collections: Sequence[str]) -> None:
        super().__init__(system, len(nodes), BUS_OPERATIONS)
        self.nodes = nodes
        self.rss_mb = 0.0
        self._collections = collections
        self._first, self._last = nodes[0].client(), nodes[-1].client()

    def learn(self, number: int, memory: corpus.Memory) -> tuple[int, str]:
        """Time one learn at the first node; the id it got, and its position."""
        arguments = {**memory.arguments(), "collection": self._collection(number)}
        reply = self._first.call("learn", arguments)
        self._keep(HTTP_LEARN, reply.milliseconds)
        self._check("learned as new", reply.body.get("status") == "created")
        return int(reply.body.get("memory_id") or 0), reply.position

    def learn_then_recall(self, number: int, probe: corpus.Probe) -> None:
        """Time a recall, right after a learn, at the last node: it must be as new as the learn."""
        memory_id, position = self.learn(number, probe.memory)
        asked = {"query": probe.query, "n": 5, "collection": self._collection(number)}
        reply = self._last.call("recall", asked, {"after": position})
        operation = RECALL_ELSEWHERE if len(self.nodes) > 1 else HTTP_RECALL
        self._keep(operation, reply.milliseconds)
        found = [int(memory["id"]) for memory in reply.body["memories"]]
        self._check("found what was just learned", memory_id in found)

    def note_rss(self) -> None:
        """Keep the largest resident size seen, of the node that has most."""
        self.rss_mb = max(self.rss_mb, *(node.rss_mb() for node in self.nodes), 0.0)

    def settle(self) -> None:
        """Its threads go to sleep before the next target is timed."""
        time.sleep(SETTLE_S)

    def close(self) -> None:
        """Hang up."""
        self._first.close()
        self._last.close()

    def _collection(self, number: int) -> str:
        return self._collections[number % len(self._collections)]


def measure(work: Path, plan: BusPlan, results: Results, say: Callable[[str], None]) -> None:
    """Embedded and one node on Kafka in turns; then more nodes, one after the other."""
    collections = spread_collections()
    seeds = itertools.count()
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(work / "kafka"))
        assert broker.process is not None
        log = ("--log", f"kafka://{broker.bootstrap}", "--partitions", str(PARTITIONS))
        topics = {"MNEMOLOG_TOPICS": f"bench-{uuid.uuid4().hex[:8]}"}
        embedded = stack.enter_context(HttpNode(work / "bus-embedded", environment={}))
        nodes = [stack.enter_context(HttpNode(work / "bus-1", *log, environment=topics))]
        wait_until_shared(nodes)
        say("measuring one client, embedded and on Kafka")
        _one_client({OURS: [embedded], ON_KAFKA: nodes}, collections, plan, results, next(seeds))
        say(f"measuring {WRITERS} clients")
        results.rates.append(_model_alone(plan, next(seeds)))
        results.rates.append(_rate(OURS, [embedded], None, collections, plan, next(seeds)))
        embedded.close()
        by_words = {"MNEMOLOG_TOPICS": f"{topics['MNEMOLOG_TOPICS']}-words"}
        words = ("--model", "none")
        with HttpNode(work / "bus-words", *log, *words, environment=by_words) as node:
            wait_until_shared([node])
            pid = broker.process.pid
            results.rates.append(_rate(WITHOUT_MODEL, [node], pid, collections, plan, next(seeds)))
        while True:
            rate = _rate(ON_KAFKA, nodes, broker.process.pid, collections, plan, next(seeds))
            results.rates.append(rate)
            if len(nodes) == plan.nodes:
                break
            number = len(nodes) + 1
            say(f"measuring {number} nodes")
            directory = work / f"bus-{number}"
            nodes.append(stack.enter_context(HttpNode(directory, *log, environment=topics)))
            wait_until_shared(nodes)
            _one_client({ON_KAFKA: nodes}, collections, plan, results, next(seeds))
    results.notes.append(
        "bus: nodes, broker and clients share this machine; Kafka has one broker here, whose "
        "acknowledgement means its memory, where the embedded log's means the disk"
    )


def _one_client(
    systems: dict[str, list[HttpNode]],
    collections: Sequence[str],
    plan: BusPlan,
    results: Results,
    seed: int,
) -> None:
    targets = [BusTarget(system, list(nodes), collections) for system, nodes in systems.items()]
    one_client(targets, plan, seed)
    for target in targets:
        results.figures += target.figures()
        results.checks += target.checks()
        results.memory.append(Memory(target.system, target.size, round(target.rss_mb, 1)))


def one_client(targets: Sequence[BusTarget], plan: Pace, seed: int) -> None:
    """Learns, then learns with a recall after each, the targets in turns; then hang up."""
    count = plan.warm_up + plan.operations
    memories = corpus.take(count, LEARN_SEED + seed)
    probes = list(itertools.islice(corpus.probes(PROBE_SEED + seed), count))
    try:
        in_turns(targets, plan, lambda target, i: target.learn(i, memories[i]))
        in_turns(targets, plan, lambda target, i: target.learn_then_recall(i, probes[i]))
    finally:
        for target in targets:
            target.close()


class _Writer(threading.Thread):
    """One client that learns one thing after another until it is told to end."""

    def __init__(self, node: HttpNode, collection: str, texts: Iterator[corpus.Memory]) -> None:
        super().__init__(daemon=True)
        self.done: list[tuple[float, float]] = []
        """When a reply came, and how many milliseconds it took."""
        self.failed: BaseException | None = None
        self.ended = threading.Event()
        self._client = node.client()
        self._collection = collection
        self._texts = texts

    def run(self) -> None:
        try:
            for memory in self._texts:
                if self.ended.is_set():
                    return
                arguments = {**memory.arguments(), "collection": self._collection}
                reply = self._client.call("learn", arguments)
                if reply.body.get("status") != "created":
                    raise BenchmarkError(f"A text was not new: {memory.insight!r}: {reply.body}")
                self.done.append((time.perf_counter(), reply.milliseconds))
            raise BenchmarkError("The prepared texts ran out: raise MAX_WRITES_PER_S")
        except BaseException as error:
            self.failed = error
        finally:
            self._client.close()


def _rate(
    system: str,
    nodes: Sequence[HttpNode],
    broker: int | None,
    collections: Sequence[str],
    plan: BusPlan,
    seed: int,
) -> Rate:
    """Durable writes per second by many clients."""
    taken, seconds, spent = many_clients(nodes, broker, collections, plan, seed)
    return _summary(system, len(nodes), WRITERS, taken, seconds, spent)


def many_clients(
    nodes: Sequence[HttpNode],
    broker: int | None,
    collections: Sequence[str],
    plan: BusPlan,
    seed: int,
) -> tuple[list[float], float, dict[str, float]]:
    """Many clients learn at once, each at one of the nodes, in a collection each: milliseconds of
    each learn, the seconds in which they were answered, and processor time by who took it."""
    needed = int((plan.warm_up_s + plan.seconds) * MAX_WRITES_PER_S)
    texts = corpus.take(needed, WRITE_SEED + seed)
    writers = [
        _Writer(nodes[i % len(nodes)], collections[i % len(collections)], iter(texts[i::WRITERS]))
        for i in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    try:
        time.sleep(plan.warm_up_s)
        started_s, before = time.perf_counter(), _taken(nodes, broker)
        time.sleep(plan.seconds)
        ended_s, after = time.perf_counter(), _taken(nodes, broker)
    finally:
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join()
    for writer in writers:
        if writer.failed is not None:
            raise writer.failed
    taken = [ms for one in writers for at, ms in one.done if started_s <= at < ended_s]
    return taken, ended_s - started_s, {who: after[who] - before[who] for who in after}


def _model_alone(plan: BusPlan, seed: int) -> Rate:
    """How many such texts the model embeds with every core at work on nothing else: what writes
    per second cannot exceed on this machine, whatever the service does."""
    embedder = OnnxEmbedder.load(CATALOGUE[DEFAULT_MODEL], models_dir())
    threads = os.cpu_count() or 1
    needed = int((plan.warm_up_s + plan.seconds) * MAX_WRITES_PER_S)
    texts = corpus.take(needed, WRITE_SEED + seed)
    ended = threading.Event()

    def embed(first: int) -> list[tuple[float, float]]:
        done = []
        for memory in texts[first::threads]:
            if ended.is_set():
                break
            started_s = time.perf_counter()
            embedder.embed_passage(memory.insight)
            now_s = time.perf_counter()
            done.append((now_s, (now_s - started_s) * 1000))
        return done

    with ThreadPoolExecutor(threads) as pool:
        working = [pool.submit(embed, first) for first in range(threads)]
        time.sleep(plan.warm_up_s)
        started_s, before = time.perf_counter(), cpu_s(os.getpid())
        time.sleep(plan.seconds)
        ended_s, after = time.perf_counter(), cpu_s(os.getpid())
        ended.set()
    done = [one for each in working for one in each.result()]
    taken = [ms for at, ms in done if started_s <= at < ended_s]
    return _summary(MODEL_ALONE, 0, threads, taken, ended_s - started_s, {"model": after - before})


def _summary(
    system: str,
    nodes: int,
    clients: int,
    taken: list[float],
    seconds: float,
    cpu: dict[str, float],
) -> Rate:
    if len(taken) < 2:
        raise BenchmarkError(f"{system} with {nodes} nodes took no writes; see its log")
    return Rate(
        system,
        nodes,
        clients,
        round(seconds, 2),
        round(len(taken) / seconds, 1),
        round(statistics.median(taken), 2),
        round(statistics.quantiles(taken, n=20, method="inclusive")[-1], 2),
        {who: round(spent / seconds, 2) for who, spent in cpu.items()},
    )


def _taken(nodes: Sequence[HttpNode], broker: int | None) -> dict[str, float]:
    """Processor seconds taken until now, by whom."""
    found = {"nodes": sum(node.cpu_s() for node in nodes)}
    if broker is not None:
        found["broker"] = cpu_s(broker)
    return {**found, "clients": cpu_s(os.getpid())}


def spread_collections() -> list[str]:
    """Names of collections that lie in all partitions, one after the other, equally many."""
    found: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
    each = COLLECTIONS // PARTITIONS
    for i in itertools.count():
        name = f"cell-{i}"
        place = found[partition_of_space(robot_space("default", name), PARTITIONS)]
        if len(place) < each:
            place.append(name)
        if all(len(names) == each for names in found.values()):
            return [names[n] for n in range(each) for names in found.values()]
    raise AssertionError


def wait_until_shared(nodes: Sequence[HttpNode]) -> None:
    """Until every partition is decided by one node, and every node decides some; twice in a row."""
    deadline, good = time.monotonic() + SHARED_WITHIN_S, 0
    while good < 2:
        time.sleep(0.5)
        owned = [
            {one["partition"] for one in node.health()["partitions"] if one["decided_here"]}
            for node in nodes
        ]
        shared = all(owned) and sorted(itertools.chain(*owned)) == list(range(PARTITIONS))
        good = good + 1 if shared else 0
        if time.monotonic() > deadline:
            raise BenchmarkError(f"The nodes did not share the partitions: {owned}")
