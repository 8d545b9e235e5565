"""Has the vectors made that spaces wait for whose model was chosen, a provider's or a local one.

One thread goes round the spaces that have something waiting, a batch each, and asks the decider to
note what was made. A provider that does not answer is left alone for longer each time; what was
missed waits in the state. What it does not want (one text can spoil a batch) is found by halving
the batch, and passed over until all else is done.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

import msgspec
import structlog

from mnemolog.events.envelope import Call
from mnemolog.projections.ports import Choice, Vector
from mnemolog.services.api import Unavailable
from mnemolog.services.counted import Counted
from mnemolog.services.late import Provided, Ready
from mnemolog.services.node.background import Background
from mnemolog.services.node.embedding.chosen import BATCH_S, ChosenModels, Left
from mnemolog.services.node.failing import Complaints
from mnemolog.services.node.host import Host

MOMENT_S = 0.05
"""How long a change waits for the next one, so that a burst of them is embedded together."""
LOOK_EVERY_S = 10.0
"""In case nobody tells: a partition may have become ours."""
PAUSE_S, PAUSE_MOST_S = 0.5, 60.0
CALL_BYTES = 256 * 1024
"""Of vectors in one call."""

_log = structlog.get_logger("mnemolog.embed")


class _Trouble:
    """Of one space: when it may be tried again, with how many at once, and without which."""

    def __init__(self, size: int) -> None:
        self.again_s = 0.0
        self.pause_s = PAUSE_S
        self.size = size
        self.passed: set[tuple[str, int, int]] = set()

    def put_off(self, after_s: float = 0.0) -> None:
        self.again_s = time.monotonic() + max(self.pause_s, after_s)
        self.pause_s = min(PAUSE_MOST_S, 2 * self.pause_s)


class ProvidedVectors(Background):
    def __init__(self, host: Host, models: ChosenModels) -> None:
        super().__init__("embed-provided")
        self._host = host
        self._models = models
        self._asks = tuple(fact for one in host.catalogue.provided for fact in one.asks)
        self._wake = threading.Event()
        self._troubles: dict[tuple[str, str], _Trouble] = {}
        self._complaints = Complaints(_log)

    def saw(self, counted: Counted) -> None:
        """To be told of every decision that the state shows."""
        if any(isinstance(fact, self._asks) for fact in counted.facts):
            self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        super().stop()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            again_s = math.inf
            with self._complaints.about("embedding by providers was put off"):
                again_s = self._round()
            until_s = min(LOOK_EVERY_S, max(0.0, again_s - time.monotonic()))
            if self._wake.wait(until_s):
                self._stopping.wait(MOMENT_S)

    def _round(self) -> float:
        """One batch of each space that may be tried now; when to look again."""
        again_s, seen = math.inf, set()
        for partition in range(self._host.log.partitions):
            if not self._host.decides(partition):
                continue
            for provided in self._host.catalogue.provided:
                for choice in self._choices(provided, partition):
                    if self._stopping.is_set():
                        return math.inf
                    seen.add((choice.space, choice.name))
                    again_s = min(again_s, self._step(provided, partition, choice))
        for gone in self._troubles.keys() - seen:
            del self._troubles[gone]
        return again_s

    def _choices(self, provided: Provided, partition: int) -> list[Choice]:
        """What the service's own model does is done elsewhere."""
        own = self._host.embedding.model
        with self._host.using.shared():
            view = self._host.projections.states[partition].reader()
            found = provided.choices(view)
        return [one for one in found if own is None or one.name != own.name]

    def _step(self, provided: Provided, partition: int, choice: Choice) -> float:
        """Embed some of a space, if it may be tried; when to go on with it."""
        most = self._models.at_once(choice)
        trouble = self._troubles.setdefault((choice.space, choice.name), _Trouble(most))
        if time.monotonic() < trouble.again_s:
            return trouble.again_s
        size = min(trouble.size, most)
        with self._host.using.shared():
            view = self._host.projections.states[partition].reader()
            found = provided.waiting(view, choice, size + len(trouble.passed))
        batch = [one for one in found if _change(one) not in trouble.passed][:size]
        if not batch:
            trouble.passed.clear()
            trouble.put_off(PAUSE_MOST_S)
            return trouble.again_s
        try:
            vectors = self._models.passages(choice, [one.item.text for one in batch], BATCH_S)
        except Left as error:
            self._failed(choice, trouble, batch, error)
            return trouble.again_s
        except BaseException as error:  # The runtime's own errors are no `Exception`.
            self._failed(choice, trouble, batch, Left(f"Embedding met a {type(error).__name__}"))
            return trouble.again_s
        noted = self._note(provided, partition, choice, batch, vectors)
        self._models.met(choice, "")
        self._complaints.gone(_complaint(choice))
        trouble.pause_s, trouble.again_s = PAUSE_S, 0.0
        trouble.size = min(most, 2 * size)
        if not noted:  # All of it has changed meanwhile, or the choice has.
            trouble.put_off()
        return trouble.again_s

    def _failed(
        self, choice: Choice, trouble: _Trouble, batch: Sequence[Ready], error: Left
    ) -> None:
        self._models.met(choice, str(error))
        self._complaints.of(_complaint(choice), Unavailable(str(error)))
        if not error.unfit:
            trouble.put_off(error.after_s)
        elif len(batch) > 1:
            trouble.size = max(1, len(batch) // 2)
        else:
            trouble.passed.add(_change(batch[0]))
            trouble.put_off()

    def _note(
        self,
        provided: Provided,
        partition: int,
        choice: Choice,
        batch: Sequence[Ready],
        vectors: Sequence[Vector | None],
    ) -> int:
        """Have them noted, a few at a time: a decision has a limit."""
        noted, few = 0, max(1, CALL_BYTES // (2 * max(1, choice.dims)))
        for start in range(0, len(batch), few):
            part = slice(start, start + few)
            args = provided.ask(choice, batch[part], vectors[part])
            now_us = self._host.clock()
            call = Call(
                id=f"provide-{partition}-{now_us}-{start}",
                tool=provided.tool,
                arguments=msgspec.json.encode(args),
                space=choice.space,
                received_at_us=now_us,
                tenant=choice.space.split("/", 1)[0],
                actor="mnemolog",
                client="mnemolog",
            )
            answer = self._host.submit_embedded(call).result()
            noted += int(msgspec.json.decode(answer.reply).get("embedded", 0))
        return noted


def _change(one: Ready) -> tuple[str, int, int]:
    return one.kind, one.number, one.since


def _complaint(choice: Choice) -> str:
    return f"{choice.name} does not embed for {choice.space}"
