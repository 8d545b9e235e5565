"""The benchmark: `python -m benchmarks.run [--only PART] [--system NAME] [--quick] [--json]`,
or with `--beside DIR` instead of `--system` another version of Mnemolog as the only peer.

Parts of the robot family: `robot.operations` (learn and recall beside robotmem at several store
sizes), `robot.start` (cold starts), `robot.scale` (a store of 100,000). `robot` means all three.
`graph.operations` measures the knowledge graph beside server-memory, `episodes.operations` episodes
as their store grows, beside the graph's writes and a bare Deno, `bus.operations` the service on
Kafka beside the embedded one, with one, two and three nodes, `gateway.operations` what keys and
limits cost a call over HTTP.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import bus, episodes, gateway, goals, graph_corpus, graph_measure, report
from benchmarks.beside import Beside
from benchmarks.episodes import EpisodeTarget, measure_episodes, prepare_episodes
from benchmarks.graph_measure import GraphTarget, measure_graph
from benchmarks.graph_prepare import REAL_VECTORS, prepare_graph
from benchmarks.mcp_client import BenchmarkError, Server, StdioClient
from benchmarks.measure import (
    FULL,
    QUICK,
    Plan,
    Target,
    measure_operations,
    measure_recalls,
    measure_starts,
)
from benchmarks.model import default_model
from benchmarks.peers import mnemolog, robotmem, server_memory
from benchmarks.prepare import PREPARED_SEED, fill, prepare_store
from benchmarks.results import Memory, Results
from mnemolog.infra.kafka.broker import BrokerError

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"
RESULTS = ROOT / "benchmarks" / "results"
PARTS = (
    "robot.operations",
    "robot.start",
    "robot.scale",
    "graph.operations",
    "episodes.operations",
    "bus.operations",
    "gateway.operations",
)
FAMILIES = tuple(dict.fromkeys(part.split(".")[0] for part in PARTS))
SYSTEMS = (mnemolog.NAME, robotmem.NAME, server_memory.NAME)
CLIENT = (
    "lean JSON-RPC over stdio (benchmarks/mcp_client.py), over HTTP for bus and gateway "
    "(benchmarks/http_client.py); the same for every system"
)
BUSY_LOAD = 0.5
ROBOT_SYSTEMS = (mnemolog.NAME, robotmem.NAME)
GRAPH_SYSTEMS = (mnemolog.NAME, server_memory.NAME)


class Bench:
    """One run: where its stores are, which systems take part, and what it found so far."""

    def __init__(
        self, quick: bool, systems: tuple[str, ...], work: Path, results: Results, console: Console
    ) -> None:
        self.plan: Plan = QUICK if quick else FULL
        self.graph_plan = graph_measure.QUICK if quick else graph_measure.FULL
        self.episode_plan = episodes.QUICK if quick else episodes.FULL
        self.bus_plan = bus.QUICK if quick else bus.FULL
        self.gateway_plan = gateway.QUICK if quick else gateway.FULL
        self.systems = systems
        self._robotmem: tuple[Path, Path] | None = None
        self.work = work
        self.results = results
        self.console = console

    def operations(self) -> None:
        """Learn and recall at each size, all systems and sizes in turns."""
        if not self._sizes():
            return
        with ExitStack() as stack:
            # All stores are ready before the first server that is measured starts.
            servers = [
                (self._prepared(system, f"operations-{size}", size), size)
                for system, size in self._sizes()
            ]
            targets = [Target(self._opened(stack, server), size) for server, size in servers]
            self._say("measuring operations")
            measure_operations(targets, self.plan)
            self._keep(targets)

    def start(self) -> None:
        """Cold starts of each system on a store with nothing in it."""
        self._say("measuring cold starts")
        systems = [system for system in self.systems if system in ROBOT_SYSTEMS]
        servers = [self._server(system, "start") for system in systems]
        self.results.starts += measure_starts(servers, 0, self.plan.starts)

    def scale(self) -> None:
        """A large store of ours beside a small one: start, recall, memory."""
        if mnemolog.NAME not in self.systems:
            return
        servers = {
            size: self._prepared(mnemolog.NAME, f"scale-{size}", size)
            for size in self.plan.scale_sizes
        }
        self._say("measuring starts at scale")
        for size, server in servers.items():
            self.results.starts += measure_starts([server], size, self.plan.starts)
        self._say("measuring recall at scale")
        with ExitStack() as stack:
            targets = [
                Target(self._opened(stack, server), size) for size, server in servers.items()
            ]
            measure_recalls(targets, self.plan)
            self._keep(targets)

    def graph(self) -> None:
        """The knowledge graph's operations at each size, all systems and sizes in turns."""
        systems = [system for system in self.systems if system in GRAPH_SYSTEMS]
        if not systems:
            return
        program = None
        if server_memory.NAME in systems:
            self._say(f"getting {server_memory.NAME} {server_memory.VERSION} ready")
            program = server_memory.install()
            self.results.machine[server_memory.NAME] = server_memory.describe()
        ready: list[tuple[Server, list[graph_corpus.Entity]]] = []
        for size in self.graph_plan.sizes:
            directory = self.work / f"{server_memory.NAME}-{size}"
            file = directory / server_memory.MEMORY_FILE
            prepared = graph_corpus.write_file(file, size, PREPARED_SEED)
            if mnemolog.NAME in systems:
                ready.append((self._prepared_graph(file, size), prepared))
            if program is not None:
                ready.append((server_memory.server(program, directory), prepared))
        with ExitStack() as stack:
            targets = [
                GraphTarget(
                    self._opened(stack, server),
                    prepared,
                    by_meaning=server.name == mnemolog.NAME,
                )
                for server, prepared in ready
            ]
            self._say("measuring the knowledge graph's operations")
            measure_graph(targets, self.graph_plan)
            self._keep(targets)
        self.results.notes.append(
            "graph: create_entities makes one entity of three observations; it is embedded after "
            "the reply, within the same server's turn; of the prepared entities' vectors those "
            f"past {REAL_VECTORS} are mixtures"
        )

    def episodes(self) -> None:
        """Searches among episodes at each size, writes beside the graph's, code beside Deno."""
        if mnemolog.NAME not in self.systems:
            return
        servers = []
        for size in self.episode_plan.sizes:
            server = self._server(mnemolog.NAME, f"episodes-{size}")
            with self._progress() as progress:
                task = progress.add_task(f"preparing {size:,} episodes", total=size)
                prepare_episodes(server.directory, size, partial(progress.advance, task))
            servers.append((server, size))
        with ExitStack() as stack:
            targets = [EpisodeTarget(self._opened(stack, server), size) for server, size in servers]
            self._say("measuring episodes")
            measure_episodes(targets, self.episode_plan, self.work)
            self._keep(targets)

    def bus(self) -> None:
        """The service on Kafka beside the embedded one."""
        if mnemolog.NAME not in self.systems:
            return
        self._say("starting Kafka")
        bus.measure(self.work, self.bus_plan, self.results, self._say)

    def gateway(self) -> None:
        """A server that asks who calls and counts the calls, beside one that does not."""
        if mnemolog.NAME in self.systems:
            gateway.measure(self.work, self.gateway_plan, self.results, self._say)

    def _prepared_graph(self, file: Path, count: int) -> Server:
        server = self._server(mnemolog.NAME, f"graph-{count}")
        with self._progress() as progress:
            task = progress.add_task(f"preparing {count:,} entities", total=count)
            prepare_graph(server.directory, file, lambda more: progress.advance(task, more))
        return server

    def _keep(self, targets: Sequence[Target | GraphTarget | EpisodeTarget]) -> None:
        for target in targets:
            self.results.figures += target.figures()
            self.results.checks += target.checks()
            self.results.memory.append(Memory(target.system, target.size, round(target.rss_mb, 1)))

    def _sizes(self) -> list[tuple[str, int]]:
        sizes = {mnemolog.NAME: self.plan.sizes, robotmem.NAME: self.plan.peer_sizes}
        systems = [system for system in self.systems if system in ROBOT_SYSTEMS]
        return [(system, size) for system in systems for size in sizes[system]]

    def _server(self, system: str, label: str) -> Server:
        directory = self.work / f"{system}-{label}"
        if system == mnemolog.NAME:
            return mnemolog.THIS.server(directory)
        if self._robotmem is None:
            self._robotmem = self._ready_robotmem()
        return robotmem.server(*self._robotmem, directory)

    def _prepared(self, system: str, label: str, count: int) -> Server:
        server = self._server(system, label)
        with self._progress() as progress:
            task = progress.add_task(f"preparing {system} with {count:,} memories", total=count)

            def done(more: int) -> None:
                progress.advance(task, more)

            if system == mnemolog.NAME:
                prepare_store(server.directory, count, done)
            else:
                with StdioClient(server) as client:
                    client.initialize()
                    fill(client, count, done)
                self._prove_robotmem_embeds(server.directory, count)
        return server

    def _prove_robotmem_embeds(self, directory: Path, count: int) -> None:
        embedded = robotmem.embedded_count(directory)
        if embedded != count:
            raise BenchmarkError(
                f"robotmem has {embedded} of {count} memories in its vector index, so it would be "
                "measured doing less than it is meant to. Remove .cache/bench/robotmem and run "
                "again."
            )

    def _opened(self, stack: ExitStack, server: Server) -> StdioClient:
        client = stack.enter_context(StdioClient(server))
        client.initialize()
        return client

    def _ready_robotmem(self) -> tuple[Path, Path]:
        self._say(f"getting {robotmem.NAME} {robotmem.VERSION} ready")
        python = robotmem.install(CACHE)
        self.results.machine[robotmem.NAME] = robotmem.describe(python)
        return python, robotmem.offer_model(self.work, default_model())

    def _progress(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        return Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True)

    def _say(self, what: str) -> None:
        self.console.print(f"{what} …", style="dim", highlight=False)


@click.command(help="Measure Mnemolog beside its peers, in one run.")
@click.option(
    "--only",
    multiple=True,
    metavar="PART",
    help=f"{', '.join(FAMILIES)}, or one of {', '.join(PARTS)}; may be given several times.",
)
@click.option(
    "--system",
    "systems",
    multiple=True,
    type=click.Choice(SYSTEMS),
    help="Measure this system only; may be given several times.",
)
@click.option(
    "--beside",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Measure this version beside another checkout, set up there, instead of the peers.",
)
@click.option("--quick", is_flag=True, help="Small sizes, under a minute: does the harness work?")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def main(
    only: tuple[str, ...],
    systems: tuple[str, ...],
    beside: Path | None,
    quick: bool,
    as_json: bool,
) -> None:
    """Run the chosen parts, show what was found, and write it to benchmarks/results/."""
    progress_console = Console(stderr=True)
    parts = _chosen(only)
    if beside is not None and systems:
        raise click.UsageError("--beside measures Mnemolog only; leave --system out.")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    results = Results(quick=quick, machine=_machine(), client=CLIENT, notes=_notes())
    try:
        with _work_folder() as work:
            bench = (
                Bench(quick, systems or SYSTEMS, work, results, progress_console)
                if beside is None
                else Beside(beside, quick, work, results, progress_console)
            )
            steps = (
                bench.operations,
                bench.start,
                bench.scale,
                bench.graph,
                bench.episodes,
                bench.bus,
                bench.gateway,
            )
            actions = dict(zip(PARTS, steps, strict=True))
            for part in parts:
                actions[part]()
    except (BenchmarkError, BrokerError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException("Stopped; every server that was started has ended.") from None
    if beside is None:
        results.goals = goals.judge(results, {part.split(".")[0] for part in parts})
    path = report.write(results, RESULTS)
    if as_json:
        click.echo(report.as_json(results))
    else:
        report.show(results, Console(width=max(110, Console().width)))
    progress_console.print(f"written to {path.relative_to(ROOT)}", style="dim", highlight=False)


def _chosen(only: tuple[str, ...]) -> list[str]:
    for name in only:
        if name not in (*FAMILIES, *PARTS):
            raise click.BadParameter(
                f"{name} is none of {', '.join((*FAMILIES, *PARTS))}", param_hint="--only"
            )
    return [part for part in PARTS if not only or {part, part.split(".")[0]} & set(only)]


@contextmanager
def _work_folder() -> Iterator[Path]:
    """A folder for the stores of this run, beside the cache, removed afterwards."""
    CACHE.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _machine() -> dict[str, str]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def _notes() -> list[str]:
    notes = [
        "a store holds the stated number of memories or entities when measuring starts; what is "
        "measured adds to it"
    ]
    if os.getloadavg()[0] > BUSY_LOAD * (os.cpu_count() or 1):
        notes.append("the machine was busy when the run began: trust ratios more than times")
    return notes


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
