"""What a store really holds, read past the service, and compared with what it promised."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from tests.crash.process import (
    ANSWER_WITHIN_S,
    NO_MODEL,
    command,
    environment,
    stderr_of,
    tail,
)
from tests.crash.writer import COLLECTION, Caller, Memory, Sent, Writer


class Stored(msgspec.Struct, frozen=True):
    memories: dict[int, Memory]
    sessions: dict[str, bool]
    marks: dict[int, str]
    """The number of the call that started a session: the session's id."""

    def with_content(self, content: str) -> int | None:
        return next((one.id for one in self.memories.values() if one.content == content), None)


def read(data: Path) -> Stored:
    """Everything in the state database, read-only, while the service runs or not."""
    path = data / "projections" / "state" / "p0000.db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as state:
        memories = [
            Memory(*row)
            for row in state.execute(
                "SELECT id, content, kind, session, version, status, forgotten_because FROM memory"
            )
        ]
        sessions = state.execute("SELECT id, ended_at_us IS NOT NULL, context FROM session")
        rows = sessions.fetchall()
    return Stored(
        {one.id: one for one in memories},
        {number: bool(ended) for number, ended, _ in rows},
        {json.loads(context)["mark"]: number for number, _, context in rows},
    )


def check(data: Path, *writers: Writer) -> None:
    """The store, with nothing under way, holds what its writers were promised: all of it, once, in
    order, and nothing else but calls that were sent and not answered, once each."""
    stored = read(data)
    twice = [
        content
        for content, count in Counter(one.content for one in stored.memories.values()).items()
        if count > 1
    ]
    assert not twice, f"stored more than once: {twice}"
    memories: dict[int, Memory] = {}
    sessions: dict[str, bool] = {}
    for writer in writers:
        for sent in list(writer.unanswered):
            settle(stored, writer, sent)
        assert writer.in_order == sorted(writer.in_order), "ids are not in the order of the replies"
        assert not memories.keys() & writer.memories.keys(), "an id was given to two clients"
        memories |= writer.memories
        sessions |= writer.sessions
    wrong = _differences(memories, stored.memories) + _differences(sessions, stored.sessions)
    assert not wrong, wrong


def settle(stored: Stored, writer: Writer, sent: Sent) -> None:
    """Look up what became of a call that was not answered; it stays so from now on."""
    given = sent.arguments
    match sent.tool:
        case "learn" | "save_perception":
            found = stored.with_content(given.get("insight") or given["description"])
            if found is not None:
                writer.adopt(sent, found)
        case "update":
            if stored.memories[given["memory_id"]].content == given["new_content"]:
                writer.adopt(sent)
        case "forget":
            if stored.memories[given["memory_id"]].status == "invalidated":
                writer.adopt(sent)
        case "start_session":
            if sent.number in stored.marks:
                writer.adopt(sent, stored.marks[sent.number])
        case "end_session":
            if stored.sessions[given["session_id"]]:
                writer.adopt(sent)
    writer.settled(sent)


def _differences(promised: dict[Any, Any], there: dict[Any, Any]) -> list[str]:
    return [
        f"{key}: promised {promised.get(key)}, there is {there.get(key)}"
        for key in promised.keys() | there.keys()
        if promised.get(key) != there.get(key)
    ][:5]


def check_answers(caller: Caller, writer: Writer, count: int = 2) -> None:
    """The service itself finds some of what it promised, and nothing that was forgotten."""
    known = list(writer.memories.values())
    for memory in writer.chance.sample(known, min(count, len(known))):
        query = " ".join(memory.content.split()[2:])
        reply = caller.call("recall", {"query": query, "collection": COLLECTION})
        assert reply.error is None, reply.error
        found = {one["id"]: one["content"] for one in reply.body["memories"]}
        if memory.status == "active":
            assert found.get(memory.id) == memory.content, f"{memory} is not in {found}"
        else:
            assert memory.id not in found, f"{memory} was forgotten"


class Told(msgspec.Struct, frozen=True):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return msgspec.json.decode(self.out)


def run(data: Path, *arguments: str, model: str | None = NO_MODEL) -> Told:
    """`mnemolog ARGUMENTS --data DATA`, to its end."""
    done = subprocess.run(
        command(*arguments, "--data", str(data)),
        capture_output=True,
        env=environment(model),
        cwd=data.parent,
        stdin=subprocess.DEVNULL,
        timeout=3 * ANSWER_WITHIN_S,
    )
    return Told(done.returncode, done.stdout.decode(), done.stderr.decode())


def check_whole(data: Path) -> None:
    """`mnemolog audit verify` finds nothing changed, removed or swapped, and no process on the
    store met with anything that it had not reckoned with."""
    assert "Traceback" not in stderr_of(data).read_text(), tail(data)
    told = run(data, "audit", "verify", "--json")
    assert told.code == 0 and told.json["whole"] is True, f"{told.out} {told.err}"


def check_rebuild(data: Path, *, model: str | None = NO_MODEL) -> str:
    """What is live equals a rebuild from nothing; the canonical hash of the state."""
    told = run(data, "rebuild", "--verify", "--json", model=model)
    assert told.code == 0, f"{told.out} {told.err}"
    assert told.json["verified"] and told.json["differences"] == []
    return str(told.json["state_hash"])


def check_life(data: Path, memory: Memory) -> None:
    """`mnemolog audit show` tells every change of a memory."""
    told = run(data, "audit", "show", str(memory.id), "--json")
    assert told.code == 0, told.err
    assert told.json["memory"]["content"] == memory.content
    assert told.json["memory"]["status"] == memory.status
    facts = [fact["fact"] for call in told.json["life"] for fact in call["facts"]]
    assert facts.count("robot.memory_learned") == 1
    assert facts.count("robot.memory_updated") == memory.version - 1
    assert facts.count("robot.memory_forgotten") == (memory.status == "invalidated")


def check_lives(data: Path, writer: Writer, count: int = 2) -> None:
    for memory in writer.chance.sample(list(writer.memories.values()), count):
        check_life(data, memory)
