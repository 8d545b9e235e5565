"""Fills stores before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks import corpus
from benchmarks.mcp_client import BenchmarkError, StdioClient
from benchmarks.peers import mnemolog
from mnemolog.events.chain import Head, extend
from mnemolog.events.codec import encode_call, encode_decision, encode_fact
from mnemolog.events.envelope import Call, Decision, Embedding, sha256
from mnemolog.events.robot import MemoryLearned
from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.infra.embedder.store import models_dir
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.projections.robot.state import robot_space
from mnemolog.services.catalogue import load
from mnemolog.services.families import FAMILIES
from mnemolog.services.node.following.projections import Projections

PREPARED_SEED = 1
GENERATED_FROM = 5_000
"""Stores of this size on are written as a log; smaller ones are filled through the tools."""
REAL_VECTORS = 2_000
CHUNK = 500
Progress = Callable[[int], None]


def prepare_store(directory: Path, count: int, progress: Progress | None = None) -> None:
    """Leave a Mnemolog data directory at `directory` with `count` memories in it.

    `progress` is told how many more are done. No process has the directory open afterwards.
    """
    if count >= GENERATED_FROM:
        generate(directory, count, progress)
        return
    with StdioClient(mnemolog.THIS.server(directory)) as client:
        client.initialize()
        fill(client, count, progress)


def fill(client: StdioClient, count: int, progress: Progress | None = None) -> None:
    """Learn `count` memories through the server's own tool; every one must be new to it."""
    for memory in islice(corpus.memories(PREPARED_SEED), count):
        body = client.call("learn", memory.arguments()).body
        if body.get("status") != "created":
            raise BenchmarkError(
                f"{client.server.name} did not take a prepared memory as new, so its store would "
                f"be smaller than it should be: {memory.insight!r} gave {body}"
            )
        if progress is not None:
            progress(1)


def generate(directory: Path, count: int, progress: Progress | None = None) -> None:
    """Write a log of `count` learned memories and build the projections from it.

    The first vectors are the model's own; the others are mixed from pairs of them, with noise, so
    that they lie as real ones do without embedding a hundred thousand texts.
    """
    model = CATALOGUE[DEFAULT_MODEL]
    log = SqliteLog(directory / "log.db", 1)
    head, memories = Head(), corpus.memories(PREPARED_SEED)
    texts = (memory.insight for memory in corpus.memories(PREPARED_SEED))
    vectors = mixed_vectors(texts, min(REAL_VECTORS, count))
    space = robot_space("default", "default")
    for start in range(0, count, CHUNK):
        calls, decisions = [], []
        for number in range(start, min(start + CHUNK, count)):
            memory = next(memories)
            call = Call(
                id=f"generated-{number}",
                tool="learn",
                arguments=msgspec.json.encode(memory.arguments()),
                space=space,
                received_at_us=1_760_000_000_000_000 + number * 1_000_000,
                actor="benchmark",
            )
            data = encode_call(call)
            fact = MemoryLearned(
                memory_id=number + 1,
                collection="default",
                content=memory.insight,
                category="code",
                tags=["code"],
                confidence=0.8,
                embedding=0,
            )
            decision = Decision(
                call_id=call.id,
                call_offset=number,
                call_hash=sha256(data),
                previous=head.hash,
                at_us=call.received_at_us,
                tool=call.tool,
                tenant=call.tenant,
                space=space,
                reply=msgspec.json.encode({"status": "created", "memory_id": number + 1}),
                facts=[encode_fact(fact)],
                inputs=[Embedding(model.name, next(vectors).tobytes())],
            )
            encoded = encode_decision(decision)
            head = extend(head, decision, encoded)
            calls.append((space, data))
            decisions.append((space, encoded))
        log.append(0, calls, decisions)
    projections = Projections(directory / "projections", 1, load(FAMILIES).projected, model)
    done = 0

    def advance(decisions: int) -> None:
        # Three projections go through the log one after the other.
        nonlocal done
        before, done = done // 3, done + decisions
        if progress is not None:
            progress(done // 3 - before)

    projections.catch_up(log, advance)
    projections.close()
    log.shut()


def mixed_vectors(texts: Iterator[str], real: int) -> Iterator[NDArray[np.float16]]:
    """The model's own vectors of the first `real` texts, then endless mixtures of two of them."""
    embedder = OnnxEmbedder.load(CATALOGUE[DEFAULT_MODEL], models_dir())
    made = []
    for text in islice(texts, real):
        made.append(embedder.embed_passage(text))
        yield made[-1]
    base = np.stack(made).astype(np.float32)
    random = np.random.default_rng(PREPARED_SEED)
    while True:
        first, second = random.integers(0, len(base), 2)
        noise = np.asarray(random.standard_normal(base.shape[1]) * 0.01, dtype=np.float32)
        mixed: NDArray[np.float32] = 0.6 * base[first] + 0.4 * base[second] + noise
        yield np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float16)
