"""This version of Mnemolog beside another checkout of it, in one run.

Each prepares its stores with its own code, in its own interpreter. The two then take turns of ten
calls, the same calls in the same order, so that what the machine does meanwhile hits both alike.
All of that is done in several sessions, each with new processes on new copies of the stores: two
processes of the same version may differ by a few percent, too.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from rich.console import Console

from benchmarks import bus, graph_corpus, graph_measure, measure
from benchmarks.compare import Session, compare, rounds
from benchmarks.http_client import HttpNode
from benchmarks.mcp_client import StdioClient
from benchmarks.peers import mnemolog
from benchmarks.peers.mnemolog import Checkout
from benchmarks.prepare import PREPARED_SEED
from benchmarks.results import FIRST_RECALL, INITIALIZE, MANY_LEARNS, Check, Memory, Results
from mnemolog.infra.kafka.broker import Broker

# All that is asked of another checkout, beside its program: these two functions of its benchmark.
FILL_ROBOT = (
    "import sys; from pathlib import Path; from benchmarks.prepare import prepare_store; "
    "prepare_store(Path(sys.argv[1]), int(sys.argv[2]))"
)
FILL_GRAPH = (
    "import sys; from pathlib import Path; from benchmarks.graph_prepare import prepare_graph; "
    "prepare_graph(Path(sys.argv[1]), Path(sys.argv[2]), lambda more: None)"
)
ON_KAFKA = ", on Kafka"
SPELL_SEED = 100
_NOT_COPIED = shutil.ignore_patterns("lock", "socket", "bench-stderr.log")


class BesidePlan(msgspec.Struct, frozen=True):
    """How much is measured: in how many sessions, and in each of them."""

    sessions: int
    bus_sessions: int
    starts: int
    windows: int
    """How many times many clients write for as long as `bus` says."""
    robot: measure.Plan
    graph: graph_measure.GraphPlan
    bus: bus.BusPlan


FULL = BesidePlan(6, 3, 20, 6, measure.FULL, graph_measure.FULL, bus.BusPlan(2, 80, 20, 1.0, 3.0))
QUICK = BesidePlan(2, 1, 3, 2, measure.QUICK, graph_measure.QUICK, bus.BusPlan(2, 20, 5, 0.5, 1.0))


class Measured(Protocol):
    """What is read of a target when a session is over."""

    system: str
    size: int
    rss_mb: float
    milliseconds: dict[str, list[float]]

    def checks(self) -> list[Check]: ...


_Target = TypeVar("_Target", measure.Target, graph_measure.GraphTarget)


class Beside:
    """The parts of the benchmark, with another version of Mnemolog as the only peer."""

    def __init__(
        self, root: Path, quick: bool, work: Path, results: Results, console: Console
    ) -> None:
        self.plan = QUICK if quick else FULL
        self.work = work
        self.results = results
        self.console = console
        self.versions = (mnemolog.THIS, mnemolog.beside(root))
        self._collections = bus.spread_collections()
        self._sessions: dict[tuple[str, int], dict[str, list[Session]]]
        self._right: dict[tuple[str, int, str], list[int]]
        self._rss_mb: dict[tuple[str, int], float]
        self._forget()
        for version in self.versions:
            version.program()
            results.machine[version.name] = version.describe()

    def operations(self) -> None:
        """Learn and recall at each size."""
        for size in self.plan.robot.sizes:
            with self._stores(f"{size:,} memories", FILL_ROBOT, str(size)) as stores:
                self._robot(stores, size, measure.measure_operations)
        self._compare()

    def start(self) -> None:
        """Cold starts on a store with nothing in it."""
        with self._stores("nothing", "") as stores:
            self._starts(stores, 0)
        self._compare()

    def scale(self) -> None:
        """A large store beside a small one: start, recall, memory."""
        for size in self.plan.robot.scale_sizes:
            with self._stores(f"{size:,} memories", FILL_ROBOT, str(size)) as stores:
                self._starts(stores, size)
                self._robot(stores, size, measure.measure_recalls)
        self._compare()

    def graph(self) -> None:
        """The knowledge graph's operations at each size."""
        for size in self.plan.graph.sizes:
            self._graph(size)
        self._compare()

    def episodes(self) -> None:
        """Nothing: a version without episodes may be the one beside."""

    def bus(self) -> None:
        """Over HTTP: embedded, then on one broker with topics of each version's own."""
        with Broker(self.work / "kafka") as broker:
            for number in range(self.plan.bus_sessions):
                self._say(f"measuring over HTTP, session {number + 1}")
                self._embedded(number)
                self._on_kafka(number, broker)
        self._compare()

    def gateway(self) -> None:
        """Nothing: a version without keys may be the one beside."""

    def _robot(
        self,
        stores: dict[str, Path],
        size: int,
        operate: Callable[[Sequence[measure.Target], measure.Plan], None],
    ) -> None:
        self._in_sessions(
            stores,
            lambda client: measure.Target(client, size),
            lambda targets: operate(targets, self.plan.robot),
        )

    def _graph(self, size: int) -> None:
        file = self.work / f"graph-{size}.jsonl"
        prepared = graph_corpus.write_file(file, size, PREPARED_SEED)
        with self._stores(f"{size:,} entities", FILL_GRAPH, str(file)) as stores:
            self._in_sessions(
                stores,
                lambda client: graph_measure.GraphTarget(client, prepared, by_meaning=True),
                lambda targets: graph_measure.measure_graph(targets, self.plan.graph),
            )

    def _in_sessions(
        self,
        stores: dict[str, Path],
        target_of: Callable[[StdioClient], _Target],
        operate: Callable[[Sequence[_Target]], None],
    ) -> None:
        for number in range(self.plan.sessions):
            self._say(f"measuring, session {number + 1} of {self.plan.sessions}")
            with ExitStack() as stack:
                clients = [
                    self._opened(stack, version, stores[version.name])
                    for version in self._order(number)
                ]
                targets = [target_of(client) for client in clients]
                operate(targets)
                self._keep(targets)

    def _starts(self, stores: dict[str, Path], size: int) -> None:
        self._say("measuring cold starts")
        servers = [version.server(stores[version.name]) for version in self.versions]
        taken = measure.take_starts(servers, self.plan.starts)
        for server, times in zip(servers, taken, strict=True):
            first_replies, first_recalls = zip(*times, strict=True)
            self._add(INITIALIZE, size, server.name, rounds(first_replies, 1))
            self._add(FIRST_RECALL, size, server.name, rounds(first_recalls, 1))

    def _embedded(self, session: int) -> None:
        with ExitStack() as stack:
            nodes = {
                version.name: [
                    stack.enter_context(HttpNode(self._folder(), environment={}, checkout=version))
                ]
                for version in self._order(session)
            }
            self._over_http(nodes, "", session)
            self._many_clients(nodes, "", session)

    def _on_kafka(self, session: int, broker: Broker) -> None:
        """One node of each version; then a second one, at which what the first learned is read."""
        log = ("--log", f"kafka://{broker.bootstrap}", "--partitions", str(bus.PARTITIONS))
        topics = {version.name: f"bench-{uuid.uuid4().hex[:8]}" for version in self.versions}
        with ExitStack() as stack:
            nodes: dict[str, list[HttpNode]] = {
                version.name: [] for version in self._order(session)
            }
            for number in range(self.plan.bus.nodes):
                for version in self._order(session):
                    node = HttpNode(
                        self._folder(),
                        *log,
                        environment={"MNEMOLOG_TOPICS": topics[version.name]},
                        checkout=version,
                    )
                    nodes[version.name].append(stack.enter_context(node))
                    bus.wait_until_shared(nodes[version.name])
                self._over_http(nodes, ON_KAFKA, session + self.plan.bus_sessions * (number + 1))
                if number == 0:
                    self._many_clients(nodes, ON_KAFKA, session)

    def _over_http(self, nodes: dict[str, list[HttpNode]], where: str, seed: int) -> None:
        targets = [bus.BusTarget(name, list(own), self._collections) for name, own in nodes.items()]
        bus.one_client(targets, self.plan.bus, seed)
        self._keep(targets, where)

    def _many_clients(self, nodes: dict[str, list[HttpNode]], where: str, session: int) -> None:
        """Short spells in turns. A spell counts as one call that takes as long as its median one:
        of so many clients that wait for their replies, twice as long means half as many writes."""
        medians: dict[str, list[float]] = {name: [] for name in nodes}
        for window in range(self.plan.windows):
            seed = SPELL_SEED + session * self.plan.windows + window
            order = list(nodes.items())
            for name, own in order[:: -1 if window % 2 else 1]:
                taken, _, _ = bus.many_clients(own, None, self._collections, self.plan.bus, seed)
                medians[name].append(statistics.median(taken))
        for name, milliseconds in medians.items():
            self._add(f"{MANY_LEARNS}{where}", 1, name, rounds(milliseconds, 1))

    def _order(self, session: int) -> tuple[Checkout, ...]:
        """The versions, each first in every second session."""
        return self.versions[:: -1 if session % 2 else 1]

    @contextmanager
    def _stores(self, label: str, code: str, *args: str) -> Iterator[dict[str, Path]]:
        """A store of each version, by its name, that its own `code` has filled."""
        stores = {version.name: self._folder() for version in self.versions}
        for version in self.versions:
            self._say(f"preparing {label} in {version.name}")
            version.run(code, str(stores[version.name]), *args)
        try:
            yield stores
        finally:
            for folder in stores.values():
                shutil.rmtree(folder)

    def _opened(self, stack: ExitStack, version: Checkout, store: Path) -> StdioClient:
        """A server of this version on a copy of its store."""
        folder = self._folder()
        stack.callback(shutil.rmtree, folder)
        shutil.copytree(store, folder, ignore=_NOT_COPIED, dirs_exist_ok=True)
        # What is written back later would be written back while something is measured.
        os.sync()
        client = stack.enter_context(StdioClient(version.server(folder)))
        client.initialize()
        return client

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="store-", dir=self.work))

    def _keep(self, targets: Sequence[Measured], where: str = "") -> None:
        """Keep what was measured in one session."""
        for target in targets:
            for operation, milliseconds in target.milliseconds.items():
                if milliseconds:
                    name = f"{operation}{where}"
                    self._add(name, target.size, target.system, rounds(milliseconds))
            for check in target.checks():
                so_far = self._right[check.system, check.size, f"{check.what}{where}"]
                so_far[0] += check.right
                so_far[1] += check.total
            place = (f"{target.system}{where}", target.size)
            self._rss_mb[place] = max(self._rss_mb[place], target.rss_mb)

    def _add(self, operation: str, size: int, system: str, session: Session) -> None:
        self._sessions[operation, size][system].append(session)

    def _compare(self) -> None:
        """Put what the sessions of a part have shown into the results."""
        names = [version.name for version in self.versions]
        self.results.comparisons += [
            compare(operation, size, *(taken[name] for name in names))
            for (operation, size), taken in self._sessions.items()
        ]
        self.results.checks += [
            Check(system, size, what, right, total)
            for (system, size, what), (right, total) in self._right.items()
        ]
        self.results.memory += [
            Memory(system, size, round(rss_mb, 1))
            for (system, size), rss_mb in self._rss_mb.items()
        ]
        self._forget()

    def _forget(self) -> None:
        self._sessions = defaultdict(lambda: defaultdict(list))
        self._right = defaultdict(lambda: [0, 0])
        self._rss_mb = defaultdict(float)

    def _say(self, what: str) -> None:
        self.console.print(f"{what} …", style="dim", highlight=False)
