"""Gives vectors to what has none yet: a memory whose model was missing or is a new one, and the
knowledge graph's entities and reflections, which are always embedded after the reply.

One background thread looks through the state once the model is there, and asks the decider, like
any caller, to embed what it finds. The newest comes first, and of an entity that changes often only
what it says when its turn comes is embedded.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec
import structlog

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Call, Decision
from mnemolog.infra.embedder.catalogue import Model, covers
from mnemolog.infra.embedder.lazy import BackgroundEmbedder
from mnemolog.projections.state import meaning
from mnemolog.projections.state.robot import count_without_vector, without_vector
from mnemolog.projections.state.store import View
from mnemolog.services.api import Answer, Unavailable
from mnemolog.services.decider.catalogue import TOOLS
from mnemolog.services.decider.graph import describe
from mnemolog.services.decider.robot import embed
from mnemolog.services.node.follow import ReadableLog
from mnemolog.services.node.gate import Gate
from mnemolog.services.node.projections import Projections

BATCH = 16
BATCH_CHARACTERS = 6_000
"""A batch of long texts is a smaller one: what is asked for meanwhile should not wait for long."""
PAGE = 256
TELL_EVERY_S = 10.0
MOMENT_S = 0.05
"""How long a change waits for the next one, so that a burst of them is described once."""
BUSY_S, BUSY_BATCH, REST = 0.2, 2, 9
"""So long after a write others may follow; then little is done at once, and the work rests nine
times as long as it takes."""

PAUSE_S, FAILED_MOST_S, LEFTOVER_MOST_S = 0.1, 5.0, 60.0
"""Before what failed, or what was left over, is tried again: longer each time, up to so long."""

_log = structlog.get_logger("mnemolog.embed")


class Node(Protocol):
    """What the thread uses of the node it works for."""

    model: Model | None
    embedder: BackgroundEmbedder
    using: Gate
    projections: Projections

    clock: Callable[[], int]

    @property
    def log(self) -> ReadableLog: ...

    def decides(self, partition: int) -> bool:
        """Whether this node decides the partition's calls; another one embeds for the others."""
        ...

    def submit_embedded(self, call: Call, partition: int, texts: list[str]) -> Future[Answer]: ...


class Pending(msgspec.Struct, frozen=True):
    """How much is not described as it is now, and whether that will change in a moment."""

    count: int
    worth_waiting: bool


class MissingVectors:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._wake = threading.Event()
        self._memories, self._descriptions = threading.Event(), threading.Event()
        """What to look for next."""
        self._hurry = threading.Event()
        self._stopping = threading.Event()
        self._changed_s = 0.0
        self._done = 0
        self._left = 0
        self._running = False
        self._leftover: dict[int, dict[tuple[str, int], int]] = {}
        """By partition what could not be described as it has been since then. It is tried again
        after a pause, and nobody waits for it."""
        self._told_s = 0.0
        self._shown = {
            state.partition: meaning.last_described(state.reader(), node.model.name)
            for state in node.projections.states
            if node.model is not None
        }
        """By partition the last description that the indexes show."""
        self._memories.set()
        self._descriptions.set()
        self._wake.set()
        self._thread = threading.Thread(target=self._run, name="embed-missing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self) -> None:
        """Look again: a memory was stored without a vector, or another node's work is ours now."""
        self._memories.set()
        self._descriptions.set()
        self._wake.set()

    def saw(self, partition: int, decision: Decision, facts: Sequence[Fact]) -> None:
        """To be told of every decision that state and indexes show: it may leave something to be
        described, or be a description."""
        if meaning.describes(facts):
            self._shown[partition] = decision.call_offset
        if meaning.asks_for_description(facts):
            self._changed_s = time.monotonic()
            self._descriptions.set()
            self._wake.set()

    def pending(self, view: View, space: str, kind: str) -> Pending:
        """How many of a space's entities or reflections wait to be described. Somebody is waiting
        for them, so the work hurries. Without a model there is nothing to wait for."""
        model = self._node.model
        if model is None or self._node.embedder.status != "ready":
            return Pending(0, worth_waiting=False)
        count = meaning.count_undescribed(view, model.name, space, kind)
        leftover = self._leftover.get(view.partition, {})
        hopeless = sum(
            meaning.waits_since(view, model.name, space, kind, number, since)
            for (one, number), since in leftover.items()
            if one == kind
        )
        if count > hopeless:
            self._hurry.set()
            return Pending(count, worth_waiting=True)
        # The state is committed before the indexes are told: for a moment it is ahead of them.
        ahead = meaning.last_described(view, model.name) > self._shown.get(view.partition, -1)
        return Pending(count + ahead, worth_waiting=ahead)

    def stop(self) -> None:
        self._stopping.set()
        self._hurry.set()
        self._wake.set()
        self._thread.join()

    def progress(self) -> dict[str, Any]:
        """How many were embedded since the start, and how many are left to look at."""
        return {"running": self._running, "embedded": self._done, "left": self._left}

    def _run(self) -> None:
        pause_s, again_s = PAUSE_S, math.inf
        while True:
            now_s = time.monotonic()
            self._wake.wait(None if again_s == math.inf else max(0.0, again_s - now_s))
            if self._stopping.is_set():
                return
            if self._node.embedder.wait(1.0) is None:
                self._stopping.wait(1.0)
                continue
            self._running = True
            self._hurry.wait(MOMENT_S)
            self._wake.clear()
            if self._stopping.is_set():
                return  # `stop` came between: its signal to look is the one just cleared
            memories, descriptions = _taken(self._memories), _taken(self._descriptions)
            if time.monotonic() >= again_s:
                again_s, descriptions = math.inf, True
                self._leftover.clear()
            failed = not self._try(memories, descriptions)
            left = failed or any(self._leftover.values())
            if not left:
                pause_s, again_s = PAUSE_S, math.inf
            elif again_s == math.inf:
                again_s = time.monotonic() + pause_s
                pause_s = min(FAILED_MOST_S if failed else LEFTOVER_MOST_S, 2 * pause_s)
            self._running = left or self._wake.is_set()

    def _try(self, memories: bool, descriptions: bool) -> bool:
        try:
            self._embed_all(memories, descriptions)
            return True
        except Unavailable as error:
            _log.warning("embedding of missing vectors was put off", reason=str(error))
        except Exception:
            _log.error("embedding of missing vectors failed", exc_info=True)
        self._memories.set()
        self._descriptions.set()
        return False

    def _embed_all(self, memories: bool, descriptions: bool) -> None:
        model, before = self._node.model, self._done
        assert model is not None
        self._told_s = time.monotonic()
        self._left = self._count(model, memories, descriptions)
        if self._left > PAGE:
            _log.info("embedding in the background", model=model.name, count=self._left)
        for partition in range(self._node.log.partitions):
            if not self._node.decides(partition):
                self._leftover.pop(partition, None)
                continue
            if descriptions:
                self._describe_partition(partition, model)
            if memories:
                self._embed_partition(partition, model)
        if self._done - before > PAGE:
            _log.info("embedded", model=model.name, count=self._done - before)

    def _count(self, model: Model, memories: bool, descriptions: bool) -> int:
        with self._node.using.shared():
            views = [
                state.reader()
                for state in self._node.projections.states
                if self._node.decides(state.partition)
            ]
            return sum(
                (count_without_vector(view, model.name) if memories else 0)
                + (meaning.count_undescribed(view, model.name) if descriptions else 0)
                for view in views
            )

    # --- memories --------------------------------------------------------------------------------

    def _embed_partition(self, partition: int, model: Model) -> None:
        after = 0
        while not self._stopping.is_set():
            with self._node.using.shared():
                view = self._node.projections.states[partition].reader()
                page = without_vector(view, model.name, after, PAGE)
            if not page:
                break
            after = page[-1][0]
            by_space: dict[str, list[embed.Missing]] = {}
            for number, space, content in page:
                if covers(model, content):
                    missing = embed.Missing(memory_id=number, content=content)
                    by_space.setdefault(space, []).append(missing)
            for space, found in by_space.items():
                for start in range(0, len(found), BATCH):
                    if self._stopping.is_set():
                        return
                    memories = found[start : start + BATCH]
                    args = embed.EmbedMissing(space=space, memories=memories)
                    self._ask(partition, space, embed.NAME, args, f"embed-{memories[0].memory_id}")
                    if _taken(self._descriptions):  # Somebody may be waiting for these.
                        self._describe_partition(partition, model)
            self._tell(len(page))

    # --- entities and reflections ----------------------------------------------------------------

    def _describe_partition(self, partition: int, model: Model) -> None:
        """Batch after batch, each from the newest change on. What was not described, because it
        changed again or could not be embedded, is passed over until all else is done; what then
        still is as it was, is left over."""
        passed_over = dict(self._leftover.get(partition, {}))
        embedder = self._node.embedder.wait(1.0)
        if embedder is None:
            raise Unavailable("the model is not loaded")
        while not self._stopping.is_set():
            started_s = time.monotonic()
            with self._node.using.shared():
                view = self._node.projections.states[partition].reader()
                waiting = meaning.undescribed(view, model.name, BATCH + len(passed_over))
                found = [
                    one for one in waiting if passed_over.get((one.kind, one.number)) != one.since
                ]
                if not found:
                    self._leftover[partition] = {
                        (one.kind, one.number): one.since for one in waiting
                    }
                    break
                size = BUSY_BATCH if self._in_the_way() else BATCH
                found = [one for one in found if one.space == found[0].space][:size]
                made = describe.describe(
                    view, found, embedder.count_tokens, lambda text: covers(model, text)
                )
            batch = _within(made, BATCH_CHARACTERS)
            if not batch:
                continue  # It was deleted between two looks.
            args = describe.Describe(space=found[0].space, descriptions=batch)
            told = self._ask(partition, args.space, describe.NAME, args, "describe")
            if told < len(batch):
                since = {(one.kind, one.number): one.since for one in found}
                for one in batch:
                    passed_over[one.kind, one.number] = since[one.kind, one.number]
            self._tell(told)
            self._rest(time.monotonic() - started_s)
        self._hurry.clear()

    def _in_the_way(self) -> bool:
        """Whether others write, and nobody waits for this."""
        return not self._hurry.is_set() and time.monotonic() - self._changed_s < BUSY_S

    def _rest(self, worked_s: float) -> None:
        if self._in_the_way():
            self._hurry.wait(worked_s * REST)

    def _ask(self, partition: int, space: str, tool: str, args: Arguments, name: str) -> int:
        now_us = self._node.clock()
        call = Call(
            id=f"{name}-{partition}-{now_us}",
            tool=tool,
            arguments=msgspec.json.encode(args),
            space=space,
            received_at_us=now_us,
            tenant=space.split("/", 1)[0],
            actor="mnemolog",
            client="mnemolog",
        )
        answer = self._node.submit_embedded(call, partition, TOOLS[tool].texts(args)).result()
        embedded = int(msgspec.json.decode(answer.reply).get("embedded", 0))
        self._done += embedded
        return embedded

    def _tell(self, worked: int) -> None:
        self._left = max(0, self._left - worked)
        if time.monotonic() - self._told_s > TELL_EVERY_S:
            self._told_s = time.monotonic()
            _log.info("embedding", embedded=self._done, left=self._left)


def _taken(sign: threading.Event) -> bool:
    found = sign.is_set()
    if found:
        sign.clear()
    return found


def _within(made: list[describe.Description], characters: int) -> list[describe.Description]:
    """The first few that are short enough together, one at least."""
    batch: list[describe.Description] = []
    for one in made:
        characters -= len(one.text)
        if batch and characters < 0:
            break
        batch.append(one)
    return batch
