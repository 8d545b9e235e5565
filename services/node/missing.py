"""Gives vectors to the memories that have none yet: the model was missing, or is a new one.

One background thread looks through the state once the model is there, and asks the decider, like
any caller, to embed what it finds.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from events.envelope import Call
from infra.embedder.catalogue import Model, covers
from projections.state.robot import count_without_vector, without_vector
from services.api import Unavailable
from services.decider.catalogue import TOOLS
from services.decider.robot.embed import NAME, EmbedMissing, Missing

if TYPE_CHECKING:
    from services.node.node import Node

BATCH = 16
PAGE = 256
TELL_EVERY_S = 10.0

_log = structlog.get_logger("mnemolog.embed")


class MissingVectors:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._look = threading.Event()
        self._look.set()
        self._stopping = threading.Event()
        self._done = 0
        self._left = 0
        self._running = False
        self._thread = threading.Thread(target=self._run, name="embed-missing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self) -> None:
        """Look again: something was stored without a vector."""
        self._look.set()

    def stop(self) -> None:
        self._stopping.set()
        self._look.set()
        self._thread.join()

    def progress(self) -> dict[str, Any]:
        """How many were embedded since the start, and how many are left to look at."""
        return {"running": self._running, "embedded": self._done, "left": self._left}

    def _run(self) -> None:
        while True:
            self._look.wait()
            if self._stopping.is_set():
                return
            if self._node.embedder.wait(1.0) is None:
                self._stopping.wait(1.0)
                continue
            self._look.clear()
            if self._stopping.is_set():
                return  # `stop` came between: its signal to look is the one just cleared
            self._running = True
            try:
                self._embed_all()
            except Unavailable as error:
                _log.warning("embedding of missing vectors was put off", reason=str(error))
                self._stopping.wait(1.0)
                self._look.set()
            except Exception as error:
                _log.error("embedding of missing vectors failed", error=str(error), exc_info=True)
            finally:
                self._running = False

    def _embed_all(self) -> None:
        model, before = self._node.model, self._done
        assert model is not None
        with self._node.using.shared():
            self._left = sum(
                count_without_vector(state.reader(), model.name)
                for state in self._node.projections.states
            )
        if self._left > PAGE:
            _log.info("embedding memories in the background", model=model.name, count=self._left)
        for partition in range(self._node.log.partitions):
            self._embed_partition(partition, model)
        if self._done > before:
            _log.info("memories were embedded", model=model.name, count=self._done - before)

    def _embed_partition(self, partition: int, model: Model) -> None:
        after, told_s = 0, time.monotonic()
        while not self._stopping.is_set():
            with self._node.using.shared():
                view = self._node.projections.states[partition].reader()
                page = without_vector(view, model.name, after, PAGE)
            if not page:
                break
            after = page[-1][0]
            by_space: dict[str, list[Missing]] = {}
            for number, space, content in page:
                if covers(model, content):
                    missing = Missing(memory_id=number, content=content)
                    by_space.setdefault(space, []).append(missing)
            for space, found in by_space.items():
                for start in range(0, len(found), BATCH):
                    if self._stopping.is_set():
                        return
                    self._ask(partition, space, found[start : start + BATCH])
            self._left = max(0, self._left - len(page))
            if time.monotonic() - told_s > TELL_EVERY_S:
                told_s = time.monotonic()
                _log.info("embedding memories", embedded=self._done, left=self._left)

    def _ask(self, partition: int, space: str, memories: list[Missing]) -> None:
        args = EmbedMissing(space=space, memories=memories)
        now_us = time.time_ns() // 1000
        call = Call(
            id=f"embed-{now_us}-{memories[0].memory_id}",
            tool=NAME,
            arguments=msgspec.json.encode(args),
            space=space,
            received_at_us=now_us,
            tenant=space.split("/", 1)[0],
            actor="mnemolog",
            client="mnemolog",
        )
        answer = self._node.submit_embedded(call, partition, TOOLS[NAME].texts(args)).result()
        self._done += int(msgspec.json.decode(answer.reply).get("embedded", 0))
