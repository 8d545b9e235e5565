"""Answering reads on a node: threads, one moment of the state, and what has to be there first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress

import msgspec
from msgspec.structs import replace

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Answered
from mnemolog.events.trace import within
from mnemolog.projections.ports import Choice, IndexDamaged, VectorsAway
from mnemolog.services import tracing
from mnemolog.services.api import Answer, Unavailable
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.fair import FairThreads
from mnemolog.services.node.host import Host
from mnemolog.services.reader.reader import Reader

READ_THREADS = 4
AHEAD_THREADS = 8
"""That wait for the vectors of queries from elsewhere, so that no reader does."""
HEAVY_THREADS = 1
"""Reads that take seconds wait for each other, so that the others never wait for them."""
MAX_WAITING = 1024
"""Reads that wait for a reader, and for the vector of a query."""
MAX_HEAVY = 64
"""Those that wait for each other."""
MAX_REPLY_BYTES = 16 * 1024 * 1024
"""Of a read. What a write answers is part of its decision, which is smaller."""


class Answering:
    """`record` has a read that was answered put on the log, soon; `describe_wait_s` is how long one
    that awaits descriptions waits for them."""

    def __init__(self, host: Host, record: Callable[[Asked], None], describe_wait_s: float) -> None:
        self._host = host
        self._record = record
        self._describe_wait_s = describe_wait_s
        self.threads = FairThreads(READ_THREADS, "read", MAX_WAITING, "reads")
        self._heavy = FairThreads(HEAVY_THREADS, "examine", MAX_HEAVY, "long reads")
        self._ahead = FairThreads(AHEAD_THREADS, "ask-ahead", MAX_WAITING, "reads")

    async def answer(self, asked: Asked) -> Answer:
        """A read's answer; `Refused` when it has none."""
        tool, embedding, tenant = asked.tool, self._host.embedding, asked.call.tenant
        assert tool is not None
        threads = self._heavy if tool.heavy else self.threads
        if tool.awaits and embedding.embedder.status == "loading":
            await threads.run(tenant, embedding.wait_for_model)
        text = None if tool.asks is None else tool.asks(asked.args)
        until_s, pause_s = time.monotonic() + self._describe_wait_s, 0.001
        while True:
            last = not tool.awaits or time.monotonic() >= until_s
            found = await threads.run(tenant, self._read, asked, last, text is not None)
            if isinstance(found, Answer):
                return found
            if found is not None and text is not None:
                await self._ahead.run(tenant, self._ask_ahead, asked, found, text)
                text, until_s = None, time.monotonic() + self._describe_wait_s
                continue
            await asyncio.sleep(pause_s)
            pause_s = min(0.02, pause_s * 1.5)

    async def shown(self, asked: Asked, answer: Answer) -> Answer:
        """The answer to a write, completed from the state that this node shows."""
        if answer.refused or asked.tool is None:
            return answer
        if asked.tool.says is not None:
            said = asked.tool.says(msgspec.json.decode(answer.reply))
            answer = replace(answer, text=msgspec.json.encode(said))
        if asked.tool.shows is None:
            return answer
        return await self.threads.run(asked.call.tenant, self._shown, asked, answer, must=True)

    def again(self, asked: Asked) -> Future[None]:
        """Whether a read that failed still fails; it is not recorded, nor told to anybody."""
        assert asked.tool is not None
        threads = self._heavy if asked.tool.heavy else self.threads
        return threads.submit(asked.call.tenant, self._try, asked)

    def waiting(self) -> dict[str, int]:
        """Reads that no thread has taken up yet."""
        return {
            "reading": self.threads.waiting,
            "examining": self._heavy.waiting,
            "asking_ahead": self._ahead.waiting,
        }

    def close(self) -> None:
        self.threads.shutdown()
        self._host.embedding.stop_passages()
        self._heavy.shutdown(drop=True)
        self._ahead.shutdown(drop=True)

    def _elsewhere(self, asked: Asked) -> list[Choice]:
        """The models that the call's space is configured for, but for the service's own."""
        host = self._host
        own = host.embedding.named
        with host.using.shared():
            view = host.projections.states[asked.partition].reader()
            found = [one.choice(view, asked.call.space) for one in host.catalogue.provided]
        usual = ("", None if own is None else own.name)
        return [one for one in found if one is not None and one.name not in usual]

    def _ask_ahead(self, asked: Asked, choices: Sequence[Choice], text: str) -> None:
        """Have the query's vector made; whoever answers then finds it at hand, or learns at once
        that there is none."""
        for choice in choices:
            embedding = tracing.part("embed", asked.call)
            with suppress(VectorsAway), within(asked.call.trace), embedding:
                self._host.models.query(choice, text)

    def _try(self, asked: Asked) -> None:
        self._found(asked, last=True)

    def _read(self, asked: Asked, last: bool, looks: bool) -> Answer | list[Choice] | None:
        """Answer from the projections, then have the call recorded with what it returned. None:
        what the tool awaits is not there yet, and this is not the `last` time it is asked. What
        `looks` for a text is not answered where the space has other models: they are to be asked
        for the vector first."""
        if looks and (choices := self._elsewhere(asked)):
            return choices
        assert asked.tool is not None
        part = tracing.part("read", asked.call, tool=asked.tool.name, partition=asked.partition)
        with part, within(asked.call.trace):
            found = self._found(asked, last)
        if found is None:
            return None
        answer, answered = found
        self._record(replace(asked, call=replace(asked.call, answered=answered)))
        return answer

    def _shown(self, asked: Asked, answer: Answer) -> Answer:
        host, tool = self._host, asked.tool
        assert tool is not None and tool.shows is not None
        with host.using.shared(), host.moments.shared():
            view = host.projections.states[asked.partition].reader()
            with view.moment():
                reply = tool.shows(view, msgspec.json.decode(answer.reply))
        return replace(answer, reply=msgspec.json.encode(reply))

    def _found(self, asked: Asked, last: bool) -> tuple[Answer, Answered] | None:
        host, tool, call, partition = self._host, asked.tool, asked.call, asked.partition
        assert tool is not None and tool.answer is not None
        embedding = host.embedding
        started = time.perf_counter()
        with host.using.shared(), ExitStack() as within:
            projections = host.projections
            view = projections.states[partition].reader()
            if not tool.heavy:  # One that takes seconds would hold up the state's upkeep.
                within.enter_context(host.moments.shared())
                within.enter_context(view.moment())
            pending = host.late.pending(view, call.space, tool.awaits) if tool.awaits else None
            if pending is not None and pending.worth_waiting and not last:
                return None
            position = view.next_offset() - 1
            reader = Reader(
                view,
                projections.text,
                projections.vectors,
                embedding.query,
                embedding.passages,
                embedding.named,
                embedding.loaded,
                0 if pending is None else pending.count,
                host,
                host.models,
            )
            try:
                read = tool.answer(reader, call, asked.args)
            except IndexDamaged as error:
                raise Unavailable(
                    f"{error} If its files are damaged, this has begun by itself; try again soon"
                ) from error
        reply = msgspec.json.encode(read.reply)
        if len(reply) > MAX_REPLY_BYTES:
            raise Refused(
                f"The answer has {len(reply):,} bytes; at most {MAX_REPLY_BYTES:,} are given at a "
                "time: ask for less"
            )
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        answered = Answered(ids=read.ids, mode=read.mode, ms=took_ms)
        return Answer(reply=reply, position=f"{partition}:{position}"), answered
