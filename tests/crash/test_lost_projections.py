"""Everything but the log can be lost: it comes back, and it is the same."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from tests.crash import stored
from tests.crash.process import NO_MODEL, Stdio, stderr_of
from tests.crash.writer import COLLECTION, Memory, Writer, write, write_one, write_until_gone

TAUGHT = "Squeeze eggs only very gently, their shells break under more than 3 N"
MEANING = "delicate food needs a soft grasp"


@pytest.fixture(scope="module")
def killed_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Memory]:
    """A store with vectors, killed under load; the hash of its state, and a memory that is in it.
    Tests work on copies."""
    data = tmp_path_factory.mktemp("lost") / "store"
    writer = Writer(1, Random())
    with Stdio(data, model=None) as client:
        taught = client.call("learn", {"insight": TAUGHT, "collection": "kitchen"})
        assert taught.body["status"] == "created"
        for _ in range(100):
            write_one(client, writer)
        killer = threading.Timer(writer.chance.uniform(0, 0.4), client.kill)
        killer.start()
        write_until_gone(client, writer, 8)
    known = next(one for one in writer.memories.values() if one.status == "active")
    looked_at = copy(data, data.with_name("looked-at"))
    return data, stored.check_rebuild(looked_at, model=None), known


def copy(data: Path, to: Path) -> Path:
    return Path(shutil.copytree(data, to, ignore=shutil.ignore_patterns("socket")))


def open_and_close(data: Path, *, model: str | None) -> None:
    """Start on the store and end in good order. The call is refused, which changes no state."""
    with Stdio(data, model=model) as client:
        reply = client.call("forget", {"memory_id": 10**9, "reason": "it is not there"})
        assert reply.error is None and reply.refused
        assert client.finish() == 0


def check_search(data: Path, known: Memory) -> None:
    """Meaning is found where no word is shared, and words where they are."""
    with Stdio(data, model=None) as client:
        reply = client.call("recall", {"query": MEANING, "collection": "kitchen"})
        assert reply.body["mode"] == "vec_only"
        assert [one["content"] for one in reply.body["memories"]] == [TAUGHT]
        words = " ".join(known.content.split()[2:])
        reply = client.call("recall", {"query": words, "collection": COLLECTION})
        assert reply.body["mode"] == "hybrid"
        assert reply.body["memories"][0]["content"] == known.content
        assert client.finish() == 0


@pytest.mark.parametrize("lost", ["", "state", "text", "vectors"])
def test_lost_projections_come_back_the_same(
    killed_store: tuple[Path, str, Memory], data: Path, lost: str
) -> None:
    before, state_hash, known = killed_store
    copy(before, data)
    place = data / "projections" / lost
    shutil.rmtree(place)
    open_and_close(data, model=None)
    assert any(place.rglob("*")), "nothing was made anew"
    assert stored.check_rebuild(data, model=None) == state_hash
    check_search(data, known)


def test_a_rebuild_switches_over_to_the_same(
    killed_store: tuple[Path, str, Memory], data: Path
) -> None:
    before, state_hash, known = killed_store
    copy(before, data)
    told = stored.run(data, "rebuild", "--json", model=None)
    assert told.code == 0 and told.json["state_hash"] == state_hash, told.err
    assert stored.check_rebuild(data, model=None) == state_hash
    check_search(data, known)


def test_a_rebuild_under_load_loses_nothing(data: Path, chance: Random) -> None:
    writer = Writer(1, chance)
    stop = threading.Event()
    with Stdio(data) as client:
        for _ in range(200):
            write_one(client, writer)

        failures: list[BaseException] = []

        def load() -> None:
            try:
                write(client, writer, stop)
            except BaseException as error:
                failures.append(error)

        loading = threading.Thread(target=load, daemon=True)
        loading.start()
        try:
            for arguments in (["--verify"], [], ["--verify"]):
                before = writer.acknowledged
                told = stored.run(data, "rebuild", "--json", *arguments)
                assert told.code == 0 and told.json["differences"] == [], f"{told.out} {told.err}"
                assert writer.acknowledged > before, "the service stood still"
            with ThreadPoolExecutor() as both:
                asked = [both.submit(stored.run, data, "rebuild", "--json") for _ in range(2)]
                for told in [one.result() for one in asked]:
                    assert told.code == 0, told.err
        finally:
            stop.set()
            loading.join()
            if failures:
                raise failures[0]
        stored.check_answers(client, writer, 5)
        client.kill()
    open_and_close(data, model=NO_MODEL)
    stored.check(data, writer)
    stored.check_whole(data)
    stored.check_rebuild(data)


def garbage_at_the_beginning(database: Path) -> None:
    database.write_bytes(b"\xa5" * 4096 + database.read_bytes()[4096:])


def garbage_after_the_first_page(database: Path) -> None:
    size = database.stat().st_size
    database.write_bytes(database.read_bytes()[:4096] + b"\xa5" * (size - 4096))


@pytest.mark.parametrize("damage", [garbage_at_the_beginning, garbage_after_the_first_page])
def test_a_damaged_state_names_its_remedy(
    killed_store: tuple[Path, str, Memory], data: Path, damage: Callable[[Path], None]
) -> None:
    before, state_hash, known = killed_store
    copy(before, data)
    open_and_close(data, model=NO_MODEL)  # in good order, so that the file alone holds the state
    database = data / "projections" / "state" / "p0000.db"
    assert not database.with_name("p0000.db-wal").exists()
    damage(database)
    database.with_name("p0000.db.seal").unlink()  # Or it would be noticed, and made anew.
    with Stdio(data) as client:
        reply = client.call("learn", {"insight": "Trial 1: this cannot be kept"})
        assert reply.error is not None and "`mnemolog rebuild`" in reply.error, reply
        assert client.finish() == 0
    for arguments in (
        ["call", "learn", '{"insight": "Trial 2: nor this"}'],
        ["rebuild", "--verify"],
    ):
        told = stored.run(data, *arguments)
        assert told.code == 1, told.out
        assert "`mnemolog rebuild`" in told.err and "Traceback" not in told.err, told.err
    told = stored.run(data, "rebuild", "--json")
    assert told.code == 0 and told.json["state_hash"] == state_hash, told.err
    with Stdio(data) as client:
        query = {"query": known.content, "collection": COLLECTION}
        assert client.call("recall", query).body["memories"][0]["content"] == known.content


def one_flipped_bit(database: Path) -> None:
    found = bytearray(database.read_bytes())
    found[len(found) // 2] ^= 1
    database.write_bytes(found)


def cut_in_half(database: Path) -> None:
    database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])


@pytest.mark.parametrize(
    "damage",
    [garbage_at_the_beginning, garbage_after_the_first_page, one_flipped_bit, cut_in_half],
)
def test_a_state_that_is_not_what_was_written_is_made_anew(
    killed_store: tuple[Path, str, Memory], data: Path, damage: Callable[[Path], None]
) -> None:
    before, _, known = killed_store
    copy(before, data)
    open_and_close(data, model=NO_MODEL)
    damage(data / "projections" / "state" / "p0000.db")
    told = stored.run(data, "rebuild", "--verify", "--json")
    assert told.code == 1, told.out
    with Stdio(data) as client:
        query = {"query": known.content, "collection": COLLECTION}
        assert client.call("recall", query).body["memories"][0]["content"] == known.content
        assert client.finish() == 0
    assert "is made anew from the log" in stderr_of(data).read_text()
    stored.check_rebuild(data)
