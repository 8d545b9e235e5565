"""Every file of the search indexes, lost, cut short or changed in one bit: whatever was found is
found as before, by words and by meaning."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash import stored
from tests.crash.process import ANSWER_WITHIN_S, Reply, Stdio, stderr_of
from tests.crash.test_emptied_parts import wait_until_described

COLLECTIONS = ("kitchen", "garage")
MEMORIES = 30
MEANING = "how strongly must I squeeze"
"""Shares no word with a lesson: what finds them is their vectors."""
PLACES = ("text", "vectors")

Found = dict[str, tuple[str, frozenset[int]]]


def lesson(number: int) -> str:
    colour = ("red", "blue", "green", "old")[number % 4]
    return f"Lesson {number}: the {colour} clamp needs {3 * number + 1} N at station {number * 7}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found]:
    """A store that ended in good order, and what is found in it."""
    data = tmp_path_factory.mktemp("whole") / "store"
    with Stdio(data, model=None) as client:
        fill(client)
        found = look(client)
        assert client.finish() == 0
    return data, found


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found]:
    """A store whose process was killed once its indexes were durable, and what is found in it."""
    data = tmp_path_factory.mktemp("killed") / "store"
    with Stdio(data, model=None) as client:
        fill(client)
        found = look(client)
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not durable(data):
            assert time.monotonic() < deadline, "the indexes are never made durable"
            time.sleep(0.05)
        client.kill()
    return data, found


def fill(client: Stdio) -> None:
    session = client.call("start_session", {"collection": "kitchen"}).body["session_id"]
    for number in range(MEMORIES):
        place = COLLECTIONS[number % 2]
        arguments: dict[str, Any] = {"insight": lesson(number), "collection": place}
        if place == "kitchen":
            arguments["session_id"] = session
        assert client.call("learn", arguments).body["status"] == "created"
    entities = [
        {"name": f"Clamp {n}", "entityType": "tool", "observations": [f"Hangs on hook {n}"]}
        for n in range(3)
    ]
    assert not client.call("create_entities", {"entities": entities}).refused
    wait_until_described(client)


def durable(data: Path) -> bool:
    """Whether both indexes have been committed with everything, as far as it tells from outside."""
    manifests = [*(data / "projections").glob("*/manifest.json")]
    manifests += (data / "projections").glob("vectors/*/manifest.json")
    ends = {one.read_bytes().split(b'"checkpoints":')[1].split(b"}")[0] for one in manifests}
    return len(manifests) == 2 and len(ends) == 1 and b":" in ends.pop()


def look(client: Stdio) -> Found:
    """What every memory, and every entity, is found by."""
    found: Found = {}
    for number in range(MEMORIES):
        query = {"query": lesson(number), "collection": COLLECTIONS[number % 2], "n": 5}
        reply = answered(client, "recall", query)
        best = reply.body["memories"][:1]
        found[lesson(number)] = (reply.body["mode"], frozenset(one["id"] for one in best))
    for place in COLLECTIONS:
        for more in ({}, {"min_confidence": 0.5}):
            query = {"query": MEANING, "collection": place, "n": MEMORIES, **more}
            reply = answered(client, "recall", query)
            every = frozenset(one["id"] for one in reply.body["memories"])
            found[f"{place} {more}"] = (reply.body["mode"], every)
    reply = answered(client, "search_semantic", {"query": "hook", "limit": 10})
    mode = reply.body.get("mode", "")
    found["entities"] = (mode, frozenset(one["id"] for one in reply.body["results"]))
    return found


def answered(client: Stdio, tool: str, arguments: dict[str, Any]) -> Reply:
    """A reply that has everything: one that says that an index is being made anew is not it."""
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while True:
        reply = client.call(tool, arguments)
        if reply.error is None and reply.body.get("mode") != "bm25_only":
            return reply
        assert reply.error is None or "makes it anew" in reply.error, reply
        assert time.monotonic() < deadline, f"it does not become whole: {reply}"
        time.sleep(0.1)


def remove(path: Path, _: Random) -> None:
    path.unlink()


def cut(path: Path, _: Random) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def flip(path: Path, chance: Random) -> None:
    """One bit of one byte, where there is something rather than nothing, if there is."""
    data = path.read_bytes()
    places = [at for at, byte in enumerate(data) if byte] or list(range(len(data)))
    if places:
        at = chance.choice(places)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes([data[at] ^ 1 << chance.randrange(8)]))


Damage = Callable[[Path, Random], None]
DAMAGES: tuple[Damage, ...] = (remove, cut, flip)


def cases(data: Path) -> list[tuple[Damage, Path]]:
    files = sorted(
        path.relative_to(data)
        for place in PLACES
        for path in (data / "projections" / place).rglob("*")
        if path.is_file()
    )
    return [(damage, path) for path in files for damage in DAMAGES]


def check(
    before: tuple[Path, Found],
    data: Path,
    case: tuple[Damage, Path],
    chance: Random,
    within_s: float = 0.0,
) -> None:
    """`within_s`: how long it may take until what is wrong is noticed."""
    damage, path = case
    # Sparse: nearly all of a small shard is room for more.
    subprocess.run(["cp", "-a", "--sparse=always", before[0], data], check=True)
    (data / "socket").unlink(missing_ok=True)
    damage(data / path, chance)
    told = f"{damage.__name__} {path}"
    with Stdio(data, model=None) as client:
        deadline = time.monotonic() + within_s
        while (found := look(client)) != before[1] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert found == before[1], told
        assert client.finish() == 0, told
    words = stderr_of(data).read_text()
    assert "Traceback" not in words, f"{told}: {words}"


def check_all(
    before: tuple[Path, Found],
    data: Path,
    chosen: list[tuple[Damage, Path]],
    chance: Random,
    within_s: float = 0.0,
) -> None:
    for number, case in enumerate(chosen):
        one = data.with_name(f"store-{number}")
        check(before, one, case, chance, within_s)
        subprocess.run(["rm", "-r", one], check=True)


def test_a_damaged_file_costs_nothing(
    whole: tuple[Path, Found], data: Path, chance: Random
) -> None:
    check_all(whole, data, chance.sample(cases(whole[0]), 8), chance)


def test_a_damaged_file_of_a_killed_process_costs_nothing(
    killed: tuple[Path, Found], data: Path, chance: Random
) -> None:
    """Nobody took checksums at its end: a bit may be noticed by the background alone."""
    check_all(killed, data, chance.sample(cases(killed[0]), 3), chance, ANSWER_WITHIN_S)


def test_a_field_that_turned_into_another_is_noticed(
    killed: tuple[Path, Found], data: Path, chance: Random
) -> None:
    """A search under that field misses a point; it does not stumble."""

    def turn(path: Path, _: Random) -> None:
        found = path.read_bytes()
        at = found.rindex(b"robot/garage") + len("robot/garage") - 1
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"f")

    (path,) = (one for _, one in cases(killed[0])[::3] if one.match("*-space-map/page_0.dat"))
    check(killed, data, (turn, path), chance, ANSWER_WITHIN_S)


@pytest.mark.faults
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_costs_nothing(
    whole: tuple[Path, Found], data: Path, chance: Random, damage: Damage, place: str
) -> None:
    chosen = [one for one in cases(whole[0]) if one[0] is damage and one[1].parts[1] == place]
    check_all(whole, data, chosen, chance)


def test_words_that_are_lost_while_it_runs_come_back(whole: tuple[Path, Found], data: Path) -> None:
    """Nobody has looked at them since the start, so the files are not open."""
    subprocess.run(["cp", "-a", "--sparse=always", whole[0], data], check=True)
    with Stdio(data, model=None) as client:
        reply = client.call("forget", {"memory_id": 10**9, "reason": "it is not there"})
        assert reply.error is None and reply.refused
        for path in (data / "projections" / "text" / "spaces").iterdir():
            shutil.rmtree(path)
        query = {"query": lesson(0), "collection": "kitchen"}
        reply = client.call("recall", query)
        assert reply.error is not None and "its files are missing" in reply.error, reply
        assert look(client) == whole[1]
        reply = client.call("learn", {"insight": "It goes on", "collection": "kitchen"})
        assert reply.body["status"] == "created"
        assert client.finish() == 0
    stored.check_rebuild(data, model=None)


def test_vectors_that_are_spoilt_while_it_runs_come_back(
    whole: tuple[Path, Found], data: Path
) -> None:
    """What they are stored with turns into noise under the engine's hands."""
    subprocess.run(["cp", "-a", "--sparse=always", whole[0], data], check=True)
    with Stdio(data, model=None) as client:
        query = {"query": lesson(0), "collection": "kitchen"}
        assert client.call("recall", query).body["mode"] == "hybrid"
        for path in data.glob("projections/vectors/*/shard/segments/*/payload_storage/page_0.dat"):
            with path.open("r+b") as file:
                file.write(b"\xa5" * 65536)
        reply = client.call("recall", query)
        assert reply.body["mode"] == "bm25_only", reply
        assert reply.body["memories"][0]["content"] == lesson(0)
        assert look(client) == whole[1]
        assert client.finish() == 0
    stored.check_rebuild(data, model=None)
