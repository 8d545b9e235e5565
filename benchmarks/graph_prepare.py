"""Fills knowledge graphs before anything is measured."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks import graph_corpus
from benchmarks.mcp_client import BenchmarkError, child_environment
from benchmarks.peers import mnemolog
from benchmarks.prepare import PREPARED_SEED, Progress, mixed_vectors
from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Call
from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.infra.embedder.store import models_dir
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.projections.graph import meaning
from mnemolog.services.catalogue import load
from mnemolog.services.decider.decide import Deciding, Inputs
from mnemolog.services.decider.partition import PartitionDecider
from mnemolog.services.families import FAMILIES
from mnemolog.services.families.graph.describing.describe import NAME, Describe, descriptions
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.reader.reader import VectorModel

BATCH = 200
REAL_VECTORS = 500
IMPORT_TIMEOUT_S = 1800


def prepare_graph(directory: Path, file: Path, progress: Progress) -> None:
    """Leave a Mnemolog data directory at `directory` with what is in `file`, all of it described
    for the search by meaning. No process has the directory open afterwards."""
    command = [mnemolog.THIS.program(), "import", str(file), "--data", str(directory), "--json"]
    # Its entities are described below, a good deal faster than by embedding each.
    environment = {**mnemolog.THIS.environment(), "MNEMOLOG_MODEL": "none"}
    done = subprocess.run(
        command,
        env=child_environment(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=IMPORT_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"mnemolog did not import {file.name}: {done.stdout}{done.stderr}")
    _describe_all(directory, progress)


def _describe_all(directory: Path, progress: Progress) -> None:
    """Decide descriptions of everything, through the log, as the service does after a reply.

    The first vectors are the model's own, the others mixed from pairs of them: embedding 30,000
    entities takes a model many minutes, and how long a search takes is the same.
    """
    model = CATALOGUE[DEFAULT_MODEL]
    embedder = OnnxEmbedder.load(model, models_dir())
    families = load(FAMILIES)
    log = SqliteLog(directory / "log.db", 1)
    projections = Projections(directory / "projections", 1, families.projected, model)
    projections.catch_up(log)
    state = projections.states[0]
    decider = PartitionDecider(state, Deciding(families, families.rules))
    vectors = _vectors()
    while found := meaning.DESCRIBED.waiting(state.reader(), model.name, BATCH):
        made = descriptions(state.reader(), found, embedder.count_tokens, lambda _: True)
        args = Describe(space=found[0].space, descriptions=made)
        at_us = time.time_ns() // 1000
        call = Call(
            id=f"described-{at_us}",
            tool=NAME,
            arguments=msgspec.json.encode(args),
            space=args.space,
            received_at_us=at_us,
            actor="benchmark",
        )
        given = {one.text: next(vectors).tobytes() for one in made}
        data = encode_call(call)
        decider.state.begin()
        inputs = Inputs(VectorModel(model.name, model.dedup_cosine), given)
        decided = decider.decide(data, decider.read(data), inputs)
        decision = decided.counted.decision
        if decision.refused or not decision.facts:
            raise BenchmarkError(f"Prepared descriptions were not taken: {decision.reply!r}")
        log.append(0, [(args.space, data)], [decided.row])
        decider.state.commit()
        projections.show(0, decided.counted)
        progress(len(made))
    projections.commit()
    projections.close()
    log.shut()


def _vectors() -> Iterator[NDArray[np.float16]]:
    texts = (
        f"{one.name} ({one.kind}): {' | '.join(one.observations)}"
        for one in graph_corpus.entities(PREPARED_SEED)
    )
    return mixed_vectors(texts, REAL_VECTORS)
