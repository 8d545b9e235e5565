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
from infra.embedder.catalogue import covers
from projections.state.robot import without_vector
from services.api import Unavailable
from services.decider.catalogue import TOOLS
from services.decider.robot.embed import NAME, EmbedMissing, Missing

if TYPE_CHECKING:
    from services.node.embedded import EmbeddedNode

BATCH = 16
PAGE = 256

_log = structlog.get_logger("mnemolog.embed")


class MissingVectors:
    def __init__(self, node: EmbeddedNode) -> None:
        self._node = node
        self._look = threading.Event()
        self._look.set()
        self._stopping = threading.Event()
        self._done = 0
        self._running = False
        self._thread = threading.Thread(target=self._run, name="embed-missing", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Look again: something was stored without a vector."""
        self._look.set()

    def stop(self) -> None:
        self._stopping.set()
        self._look.set()
        self._thread.join()

    def progress(self) -> dict[str, Any]:
        return {"running": self._running, "embedded": self._done}

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
                for partition in range(self._node.log.partitions):
                    self._embed_partition(partition)
            except Unavailable as error:
                _log.warning("embedding of missing vectors was put off", reason=str(error))
                self._stopping.wait(1.0)
                self._look.set()
            finally:
                self._running = False

    def _embed_partition(self, partition: int) -> None:
        model = self._node.model
        assert model is not None
        after, started = 0, time.monotonic()
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
            if by_space and time.monotonic() - started > 5:
                _log.info("embedding memories", model=model.name, embedded=self._done)

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
        answer = self._node.submit(call, partition, TOOLS[NAME], args).result()
        self._done += int(msgspec.json.decode(answer.reply).get("embedded", 0))
