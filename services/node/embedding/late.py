"""Gives vectors to what has none yet: what families say is embedded after the reply, and what was
written while the model was missing, or with another one.

One background thread looks through the state once the model is there, and asks the decider, like
any caller, to note what it embedded. The newest comes first, and of something that changes often
only what it says when its turn comes is embedded.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import msgspec
import structlog

from mnemolog.events.arguments import Arguments
from mnemolog.events.envelope import Call
from mnemolog.infra.embedder.catalogue import Model, covers
from mnemolog.projections.ports import Waiting
from mnemolog.projections.state.view import View
from mnemolog.services.api import Unavailable
from mnemolog.services.counted import Counted
from mnemolog.services.late import Queue, Ready, Sweep, Swept
from mnemolog.services.node.failing import Complaints
from mnemolog.services.node.host import Host

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

PUT_OFF = "embedding of missing vectors was put off"

_log = structlog.get_logger("mnemolog.embed")


class Pending(msgspec.Struct, frozen=True):
    """How much is not described as it is now, and whether that will change in a moment."""

    count: int
    worth_waiting: bool


class LateVectors:
    def __init__(self, host: Host) -> None:
        self._host = host
        catalogue = host.catalogue
        self._queues, self._sweeps = catalogue.queues, catalogue.sweeps
        self._queue_of = {kind: queue for queue in self._queues for kind in queue.kinds}
        self._asks = tuple(fact for queue in self._queues for fact in queue.asks)
        self._noted_by = {fact: queue.tool for queue in self._queues for fact in queue.notes}
        self._wake = threading.Event()
        self._sweep, self._drain = threading.Event(), threading.Event()
        """What to look for next."""
        self._hurry = threading.Event()
        self._stopping = threading.Event()
        self._changed_s = 0.0
        self._done = 0
        self._left = 0
        self._running = False
        self._leftover: dict[tuple[str, int], dict[tuple[str, int], Waiting]] = {}
        """By queue and partition what could not be described as it has been since then. It is
        tried again after a pause, and nobody waits for it."""
        self._told_s = 0.0
        self._complaints = Complaints(_log)
        self._shown = {
            (queue.tool, state.partition): queue.last_noted(
                state.reader(), host.embedding.model.name
            )
            for queue in self._queues
            for state in host.projections.states
            if host.embedding.model is not None
        }
        """By queue and partition the last call that described something, as the indexes show it."""
        self._sweep.set()
        self._drain.set()
        self._wake.set()
        self._thread = threading.Thread(target=self._run, name="embed-late", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self) -> None:
        """Look again: something was stored without a vector, or another node's work is ours now."""
        self._sweep.set()
        self._drain.set()
        self._wake.set()

    def saw(self, partition: int, counted: Counted) -> None:
        """To be told of every decision that state and indexes show: it may leave something to be
        described, or be a description."""
        for fact in counted.facts:
            tool = self._noted_by.get(type(fact))
            if tool is not None:
                self._shown[tool, partition] = counted.decision.call_offset
            elif isinstance(fact, self._asks):
                self._changed_s = time.monotonic()
                self._drain.set()
                self._wake.set()

    def pending(self, view: View, space: str, kind: str) -> Pending:
        """How many things of a kind wait to be described in a space. Somebody is waiting for them,
        so the work hurries. Without a model there is nothing to wait for."""
        model, queue = self._host.embedding.model, self._queue_of[kind]
        if model is None or self._host.embedding.embedder.status != "ready":
            return Pending(0, worth_waiting=False)
        count = queue.count_in(view, model.name, space, kind)
        leftover = self._leftover.get((queue.tool, view.partition), {})
        hopeless = sum(
            queue.waits_since(view, model.name, one)
            for one in leftover.values()
            if one.kind == kind and one.space == space
        )
        if count > hopeless:
            self._hurry.set()
            return Pending(count, worth_waiting=True)
        # The state is committed before the indexes are told: for a moment it is ahead of them.
        shown = self._shown.get((queue.tool, view.partition), -1)
        ahead = queue.last_noted(view, model.name) > shown
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
            if self._host.embedding.embedder.wait(1.0) is None:
                self._stopping.wait(1.0)
                continue
            self._running = True
            self._hurry.wait(MOMENT_S)
            self._wake.clear()
            if self._stopping.is_set():
                return  # `stop` came between: its signal to look is the one just cleared
            sweep, drain = _taken(self._sweep), _taken(self._drain)
            if time.monotonic() >= again_s:
                again_s, drain = math.inf, True
                self._leftover.clear()
            failed = not self._try(sweep, drain)
            left = failed or any(self._leftover.values())
            if not left:
                pause_s, again_s = PAUSE_S, math.inf
            elif again_s == math.inf:
                again_s = time.monotonic() + pause_s
                pause_s = min(FAILED_MOST_S if failed else LEFTOVER_MOST_S, 2 * pause_s)
            self._running = left or self._wake.is_set()

    def _try(self, sweep: bool, drain: bool) -> bool:
        """Whether it worked; whatever it met, it is tried again after a pause."""
        try:
            self._embed_all(sweep, drain)
        except BaseException as error:
            self._complaints.of(PUT_OFF, error)
        else:
            self._complaints.gone(PUT_OFF)
            return True
        self._sweep.set()
        self._drain.set()
        return False

    def _embed_all(self, sweep: bool, drain: bool) -> None:
        model, before = self._host.embedding.model, self._done
        assert model is not None
        self._told_s = time.monotonic()
        self._left = self._count(model, sweep, drain)
        if self._left > PAGE:
            _log.info("embedding in the background", model=model.name, count=self._left)
        for partition in range(self._host.log.partitions):
            if not self._host.decides(partition):
                for queue in self._queues:
                    self._leftover.pop((queue.tool, partition), None)
                continue
            if drain:
                self._drain_all(partition, model)
            if sweep:
                for one in self._sweeps:
                    self._sweep_partition(one, partition, model)
        if self._done - before > PAGE:
            _log.info("embedded", model=model.name, count=self._done - before)

    def _count(self, model: Model, sweep: bool, drain: bool) -> int:
        counts = [one.count for one in self._sweeps if sweep]
        counts += [one.count for one in self._queues if drain]
        with self._host.using.shared():
            views = [
                state.reader()
                for state in self._host.projections.states
                if self._host.decides(state.partition)
            ]
            return sum(count(view, model.name) for view in views for count in counts)

    # --- once through everything -----------------------------------------------------------------

    def _sweep_partition(self, sweep: Sweep, partition: int, model: Model) -> None:
        after = 0
        while not self._stopping.is_set():
            with self._host.using.shared():
                view = self._host.projections.states[partition].reader()
                page = sweep.page(view, model.name, after, PAGE)
            if not page:
                break
            after = page[-1].number
            by_space: dict[str, list[Swept]] = {}
            for one in page:
                if covers(model, one.text):
                    by_space.setdefault(one.space, []).append(one)
            for space, found in by_space.items():
                for start in range(0, len(found), BATCH):
                    if self._stopping.is_set():
                        return
                    batch = found[start : start + BATCH]
                    args = sweep.ask(space, batch)
                    self._ask(partition, space, sweep.tool, args, f"embed-{batch[0].number}")
                    if _taken(self._drain):  # Somebody may be waiting for these.
                        self._drain_all(partition, model)
            self._tell(len(page))

    # --- the newest change first -----------------------------------------------------------------

    def _drain_all(self, partition: int, model: Model) -> None:
        for queue in self._queues:
            self._drain_queue(queue, partition, model)

    def _drain_queue(self, queue: Queue, partition: int, model: Model) -> None:
        """Batch after batch, each from the newest change on. What was not described, because it
        changed again or could not be embedded, is passed over until all else is done; what then
        still is as it was, is left over."""
        place = (queue.tool, partition)
        passed_over = dict(self._leftover.get(place, {}))
        embedder = self._host.embedding.embedder.wait(1.0)
        if embedder is None:
            raise Unavailable("the model is not loaded")
        while not self._stopping.is_set():
            started_s = time.monotonic()
            with self._host.using.shared():
                view = self._host.projections.states[partition].reader()
                waiting = queue.waiting(view, model.name, BATCH + len(passed_over))
                found = [one for one in waiting if passed_over.get((one.kind, one.number)) != one]
                if not found:
                    self._leftover[place] = {(one.kind, one.number): one for one in waiting}
                    break
                size = BUSY_BATCH if self._in_the_way() else BATCH
                found = [one for one in found if one.space == found[0].space][:size]
                made = queue.made(
                    view, found, embedder.count_tokens, lambda text: covers(model, text)
                )
            batch = _within(made, BATCH_CHARACTERS)
            if not batch:
                continue  # It was deleted between two looks.
            space = found[0].space
            told = self._ask(partition, space, queue.tool, queue.ask(space, batch), "describe")
            if told < len(batch):
                asked = {(one.kind, one.number): one for one in found}
                for one in batch:
                    passed_over[one.kind, one.number] = asked[one.kind, one.number]
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
        now_us = self._host.clock()
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
        answer = self._host.submit_embedded(call).result()
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


def _within(made: list[Ready], characters: int) -> list[Ready]:
    """The first few that are short enough together, one at least."""
    batch: list[Ready] = []
    for one in made:
        characters -= one.characters
        if batch and characters < 0:
            break
        batch.append(one)
    return batch
