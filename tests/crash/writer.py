"""A client that writes without pause and remembers what it was promised.

`Writer` makes the calls, takes the replies, and knows from them what the store must hold: every
acknowledged write once, as it was acknowledged. What was sent and not answered is kept aside until
it is asked again under its idempotency key, or is looked up in the store (`stored.settle`).
"""

from __future__ import annotations

import threading
from random import Random
from typing import Any, Protocol

import msgspec

from tests.crash.process import Gone, Reply, Stdio

COLLECTION = "crash"
SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


class Sent(msgspec.Struct):
    """One call. `touches` is the memory or session that no other call may touch meanwhile."""

    number: int
    tool: str
    arguments: dict[str, Any]
    key: str | None = None
    touches: int | str | None = None
    reply: dict[str, Any] | None = None


class Memory(msgspec.Struct):
    """What the store has to say of a memory."""

    id: int
    content: str
    kind: str
    session: str | None = None
    version: int = 1
    status: str = "active"
    forgotten_because: str | None = None


class Caller(Protocol):
    """Anything that carries one call to the service and brings its reply, or raises `Gone`."""

    def call(self, tool: str, arguments: dict[str, Any], key: str | None = None) -> Reply: ...


class Writer:
    """One client's calls, from a random source of its own. `name` is unlike that of any other."""

    def __init__(self, name: int, chance: Random) -> None:
        self.chance = chance
        self.memories: dict[int, Memory] = {}
        self.sessions: dict[str, bool] = {}
        """Session ids, and whether the session has ended."""
        self.in_order: list[int] = []
        """Ids of memories in the order they were acknowledged, where nothing else was under way."""
        self.unanswered: list[Sent] = []
        self.kept: list[Sent] = []
        """Some acknowledged calls with a key, to be sent again."""
        self.acknowledged = 0
        self.retried = 0
        self._name = name
        self._count = 0
        self._busy: set[int | str] = set()

    def next(self) -> Sent:
        """The next call, mostly a write."""
        self._count += 1
        number = self._name * 1_000_000 + self._count
        pick = self.chance.random()
        sent = self._change(number, pick) if pick < 0.3 else None
        if sent is None:
            sent = self._create(number)
        if sent.tool != "recall" and self.chance.random() < 0.5:
            sent.key = f"key-{number}"
        if sent.touches is not None:
            self._busy.add(sent.touches)
        return sent

    def take(self, sent: Sent, reply: Reply, *, first_time: bool) -> None:
        """An acknowledgement: from here on the store owes us this. `first_time`: it was sent once,
        with nothing else under way."""
        assert reply.error is None, f"{sent} got the error {reply.error!r}"
        assert not reply.refused, f"{sent} was refused: {reply.body}"
        self.acknowledged += 1
        if sent.touches is not None:
            self._busy.discard(sent.touches)
        body, given = reply.body, sent.arguments
        match sent.tool:
            case "learn":
                assert body["status"] == "created", f"{sent}: {body}"
                self.adopt(sent, body["memory_id"])
            case "save_perception":
                self.adopt(sent, body["memory_id"])
            case "update":
                assert body["old_content"] == self.memories[given["memory_id"]].content
                self.adopt(sent)
            case "forget":
                assert body["content"] == self.memories[given["memory_id"]].content
                self.adopt(sent)
            case "start_session":
                self.adopt(sent, body["session_id"])
            case "end_session":
                assert body["consolidated"]["superseded_count"] == 0, "these texts are all unlike"
                self.adopt(sent)
        if first_time and sent.tool in ("learn", "save_perception"):
            self.in_order.append(body["memory_id"])
        if sent.key is not None and self.chance.random() < 0.1:
            sent.reply = body
            self.kept.append(sent)

    def adopt(self, sent: Sent, identity: Any = None) -> None:
        """`sent` was carried out: this is what the store holds since."""
        given = sent.arguments
        match sent.tool:
            case "learn" | "save_perception":
                content = given.get("insight") or given["description"]
                kind = "fact" if sent.tool == "learn" else "perception"
                assert identity not in self.memories, f"{sent} got the id of another: {identity}"
                self.memories[identity] = Memory(identity, content, kind, given.get("session_id"))
            case "update":
                memory = self.memories[given["memory_id"]]
                memory.content, memory.version = given["new_content"], memory.version + 1
            case "forget":
                memory = self.memories[given["memory_id"]]
                memory.status, memory.forgotten_because = "invalidated", given["reason"]
            case "start_session":
                self.sessions[identity] = False
            case "end_session":
                self.sessions[given["session_id"]] = True

    def settled(self, sent: Sent) -> None:
        """What became of `sent` is known."""
        self.unanswered.remove(sent)
        if sent.touches is not None:
            self._busy.discard(sent.touches)

    def text(self, number: int) -> str:
        """No two are alike for any layer of the duplicate check: each has a number and words of
        its own."""
        words = ["".join(self.chance.choices(SYLLABLES, k=4)) for _ in range(6)]
        return f"Trial {number}: {' '.join(words)}"

    def _create(self, number: int) -> Sent:
        given: dict[str, Any] = {"collection": COLLECTION}
        session = None
        if self.chance.random() < 0.3 and (open_ones := self._free_sessions()):
            session = given["session_id"] = self.chance.choice(open_ones)
        if self.chance.random() < 0.1:
            given |= {"description": self.text(number), "data": {"reading": number}}
            return Sent(number, "save_perception", given, touches=session)
        given |= {"insight": self.text(number)}
        return Sent(number, "learn", given, touches=session)

    def _change(self, number: int, pick: float) -> Sent | None:
        """None where there is nothing to change yet."""
        if pick < 0.03:
            given = {"collection": COLLECTION, "context": {"mark": number}}
            return Sent(number, "start_session", given)
        if pick < 0.06:
            sessions = self._free_sessions()
            if not sessions:
                return None
            session = self.chance.choice(sessions)
            return Sent(number, "end_session", {"session_id": session}, touches=session)
        memory = self._some_memory()
        if memory is None:
            return None
        if pick < 0.12:
            query = " ".join(memory.content.split()[2:])
            return Sent(number, "recall", {"query": query, "collection": COLLECTION})
        target: dict[str, Any] = {"memory_id": memory.id}
        if pick < 0.22:
            given = {**target, "new_content": self.text(number)}
            return Sent(number, "update", given, touches=memory.id)
        given = {**target, "reason": f"trial {number} was wrong"}
        return Sent(number, "forget", given, touches=memory.id)

    def _some_memory(self) -> Memory | None:
        """An active memory that no call under way touches, if one is found quickly."""
        numbers = self.in_order[-200:]
        for number in self.chance.sample(numbers, min(8, len(numbers))):
            if self.memories[number].status == "active" and number not in self._busy:
                return self.memories[number]
        return None

    def _free_sessions(self) -> list[str]:
        return [one for one, ended in self.sessions.items() if not ended and one not in self._busy]


def write(caller: Caller, writer: Writer, stop: threading.Event | None = None) -> None:
    """One call after the other, until `stop` is set or the other side is gone (`Gone`)."""
    while stop is None or not stop.is_set():
        write_one(caller, writer)


def write_one(caller: Caller, writer: Writer) -> None:
    sent = writer.next()
    writer.unanswered.append(sent)
    reply = caller.call(sent.tool, sent.arguments, sent.key)
    writer.unanswered.remove(sent)
    writer.take(sent, reply, first_time=True)


def write_many(client: Stdio, writer: Writer, depth: int) -> None:
    """Keep `depth` calls under way until the process is gone; always ends with `Gone`."""
    under_way: dict[int, Sent] = {}
    while True:
        while len(under_way) < depth:
            sent = writer.next()
            writer.unanswered.append(sent)
            under_way[client.send(sent.tool, sent.arguments, sent.key)] = sent
        reply = client.receive()
        sent = under_way.pop(reply.id)
        writer.unanswered.remove(sent)
        writer.take(sent, reply, first_time=False)


def ask_again(caller: Caller, writer: Writer, share: float = 1.0) -> None:
    """Send again what was not answered and has a key, or a `share` of it, and a few calls that
    were acknowledged: each is carried out once, whatever happened the first time."""
    keyed = [one for one in writer.unanswered if one.key is not None]
    for sent in keyed:
        if writer.chance.random() < share:
            reply = caller.call(sent.tool, sent.arguments, sent.key)
            writer.settled(sent)
            writer.take(sent, reply, first_time=False)
            writer.retried += 1
    for sent in writer.chance.sample(writer.kept, min(2, len(writer.kept))):
        reply = caller.call(sent.tool, sent.arguments, sent.key)
        assert reply.error is None and reply.body == sent.reply, f"{sent} now says {reply}"


def write_until_gone(client: Stdio, writer: Writer, depth: int) -> None:
    try:
        if depth == 1:
            write(client, writer)
        else:
            write_many(client, writer, depth)
    except Gone:
        return
