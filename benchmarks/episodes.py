"""The episodes family measured: searches as the store grows, writes beside a write of the knowledge
graph, code beside a bare `deno run` of the same file."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks import corpus, graph_corpus, words
from benchmarks.mcp_client import BenchmarkError, StdioClient
from benchmarks.measure import SETTLE_S, in_turns
from benchmarks.prepare import CHUNK, PREPARED_SEED, Progress, mixed_vectors
from benchmarks.results import (
    ADD_STEP,
    BARE_DENO,
    COMPLETE_EPISODE,
    CREATE_EPISODE,
    EPISODE_OPERATIONS,
    EXECUTE_CODE,
    GRAPH_WRITE,
    QUERY_MEMORY,
    SEARCH_PATTERNS,
    Taken,
)
from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Call
from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.infra.sandbox.sandbox import find_deno
from mnemolog.projections.episodes.state import DESCRIBED, episodes_space
from mnemolog.services.catalogue import load
from mnemolog.services.decider.decide import Deciding, Inputs
from mnemolog.services.decider.partition import Made, PartitionDecider
from mnemolog.services.families import FAMILIES
from mnemolog.services.families.episodes.describing.describe import NAME, ask, made
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.reader.reader import VectorModel

STEPS = 10
MEASURED_SEED = 3001
REAL_VECTORS = 500
DESCRIBED_AT_ONCE = 200
TOOLS = ("planner", "editor", "compiler", "tester", "reviewer", "deployer")
DOMAINS = ("web-api", "robotics", "data", "embedded", "infra")
TASKS = ("code_generation", "debugging", "refactoring", "testing", "analysis", "documentation")
CODE = "function process(data) { return data.map(x => x * 2); } process(input);"


class EpisodePlan(msgspec.Struct, frozen=True):
    """How much is measured. Of the code so many runs."""

    sizes: tuple[int, ...]
    operations: int
    warm_up: int
    runs: int


FULL = EpisodePlan((300, 3_000, 30_000), 80, 10, 40)
QUICK = EpisodePlan((100,), 10, 3, 5)


class Task(msgspec.Struct, frozen=True):
    """An episode as its calls take it; `steps` has the tool and the action of each."""

    description: str
    domain: str
    task_type: str
    steps: list[tuple[str, str, bool]]
    succeeds: bool

    def created(self) -> dict[str, Any]:
        return {
            "task_description": self.description,
            "domain": self.domain,
            "task_type": self.task_type,
        }

    def step(self, number: int, episode_id: str) -> dict[str, Any]:
        tool, action, failed = self.steps[number - 1]
        return {
            "episode_id": episode_id,
            "step_number": number,
            "tool": tool,
            "action": action,
            "result": {"type": "error" if failed else "success"},
            "latency_ms": 20 * number,
        }

    def completed(self, episode_id: str) -> dict[str, Any]:
        how = (
            {"outcome_type": "success", "verdict": "It works"}
            if self.succeeds
            else {"outcome_type": "failure", "reason": "It does not work"}
        )
        return {"episode_id": episode_id, **how}


def tasks(seed: int) -> Iterator[Task]:
    """Endless tasks of ten steps, from a seed."""
    random = Random(f"episodes {seed}")
    for memory in corpus.memories(seed):
        steps = [
            (
                random.choice(TOOLS),
                f"Look at the {random.choice(words.OBJECTS)} and check it",
                random.random() < 0.1,
            )
            for _ in range(STEPS)
        ]
        yield Task(
            memory.insight,
            random.choice(DOMAINS),
            random.choice(TASKS),
            steps,
            random.random() < 0.7,
        )


# --- prepared ------------------------------------------------------------------------------------


class _Store:
    """A store that is written without a process, as the service writes it."""

    def __init__(self, directory: Path) -> None:
        self.model = CATALOGUE[DEFAULT_MODEL]
        families = load(FAMILIES)
        self.log = SqliteLog(directory / "log.db", 1)
        self.projections = Projections(directory / "projections", 1, families.projected, self.model)
        self.projections.catch_up(self.log)
        self.state = self.projections.states[0]
        self._decider = PartitionDecider(self.state, Deciding(families, families.rules))
        self._number = 0
        self._calls: list[tuple[str, bytes]] = []
        self._made: list[Made] = []

    def call(self, tool: str, arguments: Any, inputs: Inputs | None = None) -> dict[str, Any]:
        """Decided at once; on the log with the others of its batch."""
        if not self._calls:
            self.state.begin()
        self._number += 1
        space = episodes_space("default")
        call = Call(
            id=f"prepared-{self._number}",
            tool=tool,
            arguments=msgspec.json.encode(arguments),
            space=space,
            received_at_us=1_760_000_000_000_000 + self._number * 100_000,
            actor="benchmark",
        )
        data = encode_call(call)
        decided = self._decider.decide(data, self._decider.read(data), inputs or Inputs())
        decision = decided.counted.decision
        if decision.refused:
            raise BenchmarkError(f"A prepared call was refused: {decision.reply!r}")
        self._calls.append((space, data))
        self._made.append(decided)
        reply: dict[str, Any] = msgspec.json.decode(decision.reply)
        return reply

    def flush(self) -> None:
        if self._calls:
            self.log.append(0, self._calls, [one.row for one in self._made])
            self.state.commit()
            for one in self._made:
                self.projections.show(0, one.counted)
            self._calls, self._made = [], []

    def close(self) -> None:
        self.flush()
        self.projections.commit()
        self.projections.close()
        self.log.shut()


def prepare_episodes(directory: Path, count: int, progress: Progress) -> None:
    """Leave a data directory with `count` completed episodes of ten steps, all of it described. No
    process has the directory open afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    store = _Store(directory)
    for number, task in enumerate(islice(tasks(PREPARED_SEED), count)):
        episode = store.call("create_episode", task.created())["episode_id"]
        for step in range(1, STEPS + 1):
            store.call("add_episode_step", task.step(step, episode))
        store.call("complete_episode", task.completed(episode))
        if number % (CHUNK // STEPS) == 0:
            store.flush()
        progress(1)
    store.flush()
    _describe_all(store)
    store.close()


def _describe_all(store: _Store) -> None:
    """The first vectors are the model's own, the others mixtures of them."""
    vectors = mixed_vectors((one.description for one in tasks(PREPARED_SEED)), REAL_VECTORS)
    model = VectorModel(store.model.name, store.model.dedup_cosine)
    while found := DESCRIBED.waiting(store.state.reader(), model.name, DESCRIBED_AT_ONCE):
        ready = made(store.state.reader(), found, len, lambda _: True)
        args = ask(found[0].space, ready)
        given = {one.text: next(vectors).tobytes() for one in args.descriptions}
        store.call(NAME, args, Inputs(model, given))
        store.flush()


# --- measured ------------------------------------------------------------------------------------


class EpisodeTarget(Taken):
    """One running server with so many episodes, and what was measured on it."""

    def __init__(self, client: StdioClient, size: int) -> None:
        super().__init__(client.server.name, size, EPISODE_OPERATIONS)
        self.client = client
        self.rss_mb = 0.0
        self._tasks = tasks(MEASURED_SEED)
        self._entities = graph_corpus.entities(MEASURED_SEED)
        self._queries = corpus.queries(MEASURED_SEED)
        self._open: list[tuple[Task, str]] = []

    def query(self) -> None:
        asked = {"query": next(self._queries), "domain": "web-api", "limit": 10}
        body = self._call(QUERY_MEMORY, "query_memory", asked)
        self._check("query_memory found 10", len(body["episodes"]) == 10)

    def patterns(self) -> None:
        asked = {"query": next(self._queries), "domain": "web-api", "min_relevance": 0.0}
        body = self._call(SEARCH_PATTERNS, "search_patterns", asked)
        self._check("search_patterns found 5", len(body["patterns"]) == 5)

    def create(self) -> None:
        task = next(self._tasks)
        body = self._call(CREATE_EPISODE, "create_episode", task.created())
        self._open.append((task, body["episode_id"]))
        self._graph_write()

    def step(self, number: int) -> None:
        """The first step of the next episode that is open."""
        task, episode = self._open[number % len(self._open)]
        at = 1 + number // len(self._open)
        self._call(ADD_STEP, "add_episode_step", task.step(at, episode))
        self._graph_write()

    def complete(self) -> None:
        task, episode = self._open.pop()
        body = self._call(COMPLETE_EPISODE, "complete_episode", task.completed(episode))
        self._check("completed", body["success"] is True)
        self._graph_write()

    def _graph_write(self) -> None:
        """Right after the other, so that both meet the same disk."""
        entity = next(self._entities)
        self._call(GRAPH_WRITE, "create_entities", {"entities": [entity.arguments()]})

    def run_code(self, file: Path) -> None:
        """In the sandbox, then the same in `file` without it."""
        asked = {"code": CODE, "context": {"task": "double", "input": [1, 2, 3, 4, 5]}}
        body = self._call(EXECUTE_CODE, "execute_agent_code", asked)
        self._check("code doubled", body["items"] == [2, 4, 6, 8, 10])
        deno = find_deno()
        if deno is None:
            raise BenchmarkError("Deno is missing: make setup")
        began = time.perf_counter()
        done = subprocess.run([deno, "run", str(file)], capture_output=True, check=True)
        took_ms = (time.perf_counter() - began) * 1000
        self._check("deno doubled", b"2, 4, 6, 8, 10" in done.stdout)
        self._keep(BARE_DENO, took_ms)

    def note_rss(self) -> None:
        self.rss_mb = max(self.rss_mb, self.client.rss_mb())

    def settle(self) -> None:
        time.sleep(SETTLE_S)

    def _call(self, operation: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        reply = self.client.call(tool, arguments)
        self._keep(operation, reply.milliseconds)
        return reply.body


def measure_episodes(targets: Sequence[EpisodeTarget], plan: EpisodePlan, work: Path) -> None:
    """Reads first, because they leave the stores as they are; then writes, those of the graph
    between those of episodes; then code, on the smallest store."""
    in_turns(targets, plan, lambda target, _: target.query())
    in_turns(targets, plan, lambda target, _: target.patterns())
    in_turns(targets, plan, lambda target, _: target.create())
    in_turns(targets, plan, lambda target, i: target.step(i))
    in_turns(targets, plan, lambda target, _: target.complete())
    file = work / "double.js"
    file.write_text(
        f"const input = [1, 2, 3, 4, 5];\n{CODE.replace('process(input);', '')}\n"
        "console.log(process(input));\n"
    )
    smallest = targets[:1]
    few = EpisodePlan(plan.sizes, plan.runs, plan.warm_up, plan.runs)
    in_turns(smallest, few, lambda target, _: target.run_code(file))
