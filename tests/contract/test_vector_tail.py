"""Searching a shared server with the tail in memory: the same as a server that has everything."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemolog.projections.ports import Hit, PutVector, Remove, Vector, VectorChange, VectorsAway
from mnemolog.projections.vectors.breaker import Breaker
from mnemolog.projections.vectors.points import ranked
from mnemolog.projections.vectors.server import ServerVectors
from mnemolog.projections.vectors.tail import Tail, TailedVectors
from tests.contract.qdrant_local import LocalServer, away
from tests.contract.test_vector_index import DIMS, SPACE, cosine, ids, put, unit

PATIENCE_S = 240
"""How long a test waits before it fails; nothing is measured by it."""


class Clock:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def local() -> Iterator[LocalServer]:
    local = LocalServer()
    yield local
    local.stop()


@pytest.fixture
def writer(local: LocalServer) -> ServerVectors:
    """The process that feeds the server."""
    return ServerVectors(local.server(), DIMS, "test-model")


def node(local: LocalServer, *, most: int = 50_000, clock: Clock | None = None) -> TailedVectors:
    breaker = Breaker(pause_s=3.0, clock=clock or Clock())
    return TailedVectors(local.server(), DIMS, "test-model", most=most, breaker=breaker)


def requests(local: LocalServer, name: str) -> int:
    return [one for one, _ in local.requests].count(name)


# --- tail and server together --------------------------------------------------------------------


def test_before_anything_was_written_the_tail_answers_alone(local: LocalServer) -> None:
    index = node(local)
    assert index.checkpoint(0) == -1
    assert index.search(SPACE, unit(1), 5) == []
    assert index.digest() == {}
    index.apply(0, 0, [put(1), put(2)])
    assert ids(index, unit(2)) == [2, 1]
    assert index.health() == {"status": "ok", "reason": None, "tail": 2, "dropped": 0}
    index.commit()
    assert local.get_collections().collections == []


def test_a_node_feeds_what_the_server_does_not_have(
    local: LocalServer, writer: ServerVectors
) -> None:
    writer.apply(0, 4, [put(1)])
    writer.apply(2, 9, [put(2)])
    writer.commit()
    index = node(local)
    assert [index.checkpoint(partition) for partition in range(3)] == [4, -1, 9]
    index.apply(0, 4, [put(1, seed=50, version=7)])
    assert index.health()["tail"] == 0
    index.apply(0, 5, [put(3)])
    index.apply(0, 5, [put(3, seed=51, version=7)])
    assert next((hit.id, hit.version) for hit in index.search(SPACE, unit(3), 9)) == (3, 1)
    assert sorted(ids(index, unit(3))) == [1, 2, 3]


def test_the_tail_wins_and_its_removals_hide(local: LocalServer, writer: ServerVectors) -> None:
    writer.apply(0, 0, [put(1), put(2), put(3)])
    writer.commit()
    index = node(local)
    index.checkpoint(0)
    index.apply(0, 1, [put(1, seed=40, version=2), Remove(SPACE, 2)])
    index.apply(0, 2, [put(9, space="acme/leg")])
    hits = index.search(SPACE, unit(40), 10)
    assert next((hit.id, hit.version) for hit in hits) == (1, 2)
    assert hits[0].score == pytest.approx(1.0, abs=1e-3)
    assert sorted(hit.id for hit in hits) == [1, 3]
    index.apply(0, 3, [put(2, seed=41, version=2)])
    assert ids(index, unit(41), 1) == [2]


def test_what_the_tail_hides_does_not_crowd_out_the_rest(
    local: LocalServer, writer: ServerVectors
) -> None:
    """More is removed than the server is asked for at first, and all of it nearer."""
    near = unit(1)
    writer.apply(0, 0, [PutVector(SPACE, n, 1, near) for n in range(700)])
    writer.apply(0, 1, [put(n) for n in range(1_000, 1_010)])
    writer.commit()
    index = node(local)
    index.checkpoint(0)
    index.apply(0, 2, [Remove(SPACE, n) for n in range(700)])
    assert sorted(ids(index, near, 10)) == list(range(1_000, 1_010))


def test_refresh_lets_go_of_what_the_server_has(local: LocalServer, writer: ServerVectors) -> None:
    index = node(local)
    index.checkpoint(0)
    for offset in range(6):
        index.apply(0, offset, [put(offset)])
        writer.apply(0, offset, [put(offset)])
        if offset == 3:
            writer.commit()
    assert index.health()["tail"] == 6
    assert index.refresh() is True
    assert index.health()["tail"] == 2
    assert sorted(ids(index, unit(1))) == [0, 1, 2, 3, 4, 5]
    writer.commit()
    index.refresh()
    assert index.health()["tail"] == 0
    assert sorted(ids(index, unit(1))) == [0, 1, 2, 3, 4, 5]
    assert index.digest() == writer.digest()


CHANGES: st.SearchStrategy[VectorChange] = st.builds(
    PutVector,
    st.sampled_from(["a", "b"]),
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(0, 30).map(unit),
    st.sampled_from([None, "s", "t"]),
    st.sampled_from([0.2, 0.5, 0.9]),
) | st.builds(Remove, st.sampled_from(["a", "b"]), st.integers(1, 8))


@settings(max_examples=60, deadline=None)
@given(
    history=st.lists(st.lists(CHANGES, max_size=3), max_size=14),
    written=st.integers(0, 14),
    refreshed=st.booleans(),
    limit=st.integers(1, 10),
    session=st.sampled_from([None, "s"]),
    least=st.sampled_from([None, 0.5]),
)
def test_a_lagging_server_and_the_tail_are_the_whole(
    history: list[list[VectorChange]],
    written: int,
    refreshed: bool,
    limit: int,
    session: str | None,
    least: float | None,
) -> None:
    """The server was fed a part of the history, some of it not committed; the node all of it."""
    local = LocalServer()
    writer = ServerVectors(local.server(), DIMS, "test-model")
    index = node(local)
    index.checkpoint(0)
    whole: dict[tuple[str, int], PutVector] = {}
    for offset, changes in enumerate(history):
        index.apply(0, offset, changes)
        if offset < written:
            writer.apply(0, offset, changes)
            if offset == written // 2:
                writer.commit()
        for change in changes:
            whole.pop((change.space, change.id), None)
            if isinstance(change, PutVector):
                whole[change.space, change.id] = change
    writer.search("a", unit(0), 1)  # what is not committed is on the server as well
    if refreshed:
        index.refresh()

    query = unit(77)
    for space in ("a", "b"):
        found = index.search(space, query, limit, session=session, min_confidence=least)
        fitting = {
            change.id: change
            for change in whole.values()
            if change.space == space
            and session in (None, change.session)
            and (least is None or change.confidence >= least)
        }
        expected = sorted((cosine(one.vector, query) for one in fitting.values()), reverse=True)
        assert [hit.score for hit in found] == pytest.approx(expected[:limit], abs=1e-3)
        assert len({hit.id for hit in found}) == len(found)
        for hit in found:
            assert hit.version == fitting[hit.id].version
            assert hit.score == pytest.approx(cosine(fitting[hit.id].vector, query), abs=1e-3)

    complete = ServerVectors(LocalServer().server(), DIMS, "test-model")
    complete.apply(0, 0, list(whole.values()))
    assert index.digest() == complete.digest()


@settings(max_examples=60, deadline=None)
@given(history=st.lists(CHANGES, max_size=40), drops=st.sets(st.integers(0, 39)))
def test_the_tail_alone_is_an_exact_search(history: list[VectorChange], drops: set[int]) -> None:
    tail = Tail(DIMS)
    kept: dict[tuple[str, int], tuple[int, VectorChange]] = {}
    for offset, change in enumerate(history):
        tail.take(0, offset, [change])
        kept[change.space, change.id] = (offset, change)
        if offset in drops:
            tail.trim({0: offset // 2})
            kept = {key: one for key, one in kept.items() if one[0] > offset // 2}
    assert len(tail) == len(kept)
    query = unit(77)
    for space in ("a", "b"):
        here = [change for _, change in kept.values() if change.space == space]
        hits, known = tail.nearest(space, query.tolist(), 100, None, None)
        assert known == {change.id for change in here}
        puts = [change for change in here if isinstance(change, PutVector)]
        expected = ranked(Hit(one.id, cosine(one.vector, query), one.version) for one in puts)
        assert [hit.score for hit in hits] == pytest.approx([h.score for h in expected], abs=1e-5)
        assert {(hit.id, hit.version) for hit in hits} == {(h.id, h.version) for h in expected}


def test_the_best_that_fit_are_found_however_deep_they_lie() -> None:
    tail = Tail(DIMS)
    for n in range(400):
        session = "rare" if n % 100 == 0 else "often"
        tail.take(0, n, [PutVector(SPACE, n, 1, unit(n), session, 0.5)])
    query = unit(1_000)
    order = sorted(range(400), key=lambda n: -cosine(unit(n), query))
    rare = [n for n in order if n % 100 == 0]

    def found(limit: int, session: str | None, least: float | None = None) -> list[int]:
        hits, _ = tail.nearest(SPACE, query.tolist(), limit, session, least)
        return [hit.id for hit in hits]

    assert found(3, "rare") == rare[:3]
    assert found(10, "rare") == rare
    assert found(7, None) == order[:7]
    assert found(400, None, 0.5) == order
    assert found(5, None, 0.6) == []


# --- bounds --------------------------------------------------------------------------------------


def test_of_too_many_the_oldest_are_dropped_and_counted(local: LocalServer) -> None:
    index = node(local, most=10)
    index.checkpoint(0)
    for offset in range(12):
        index.apply(0, offset, [put(offset)])
    index.apply(0, 12, [put(2, seed=80, version=2)])
    index.apply(0, 13, [put(50)])
    assert index.health() == {"status": "ok", "reason": None, "tail": 10, "dropped": 3}
    assert sorted(ids(index, unit(1), 50)) == [2, 4, 5, 6, 7, 8, 9, 10, 11, 50]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (unit(1, DIMS + 1), f"{DIMS} dimensions"),
        (np.zeros(DIMS, np.float16), "zeros"),
        (np.full(DIMS, np.nan, np.float16), "NaN"),
    ],
)
def test_a_bad_vector_is_refused_whole(local: LocalServer, vector: Vector, reason: str) -> None:
    index = node(local)
    with pytest.raises(ValueError, match=reason):
        index.apply(0, 0, [put(1), PutVector(SPACE, 2, 1, vector)])
    assert index.health()["tail"] == 0
    with pytest.raises(ValueError, match=reason):
        index.search(SPACE, vector, 5)
    with pytest.raises(ValueError, match="1 to 10000"):
        index.search(SPACE, unit(1), 0)
    index.apply(0, 0, [put(1)])
    assert ids(index, unit(1)) == [1]


def test_a_closed_index_says_so(local: LocalServer) -> None:
    index = node(local)
    index.close()
    index.close()
    for use in (
        lambda: index.search(SPACE, unit(1), 1),
        lambda: index.apply(0, 0, [put(1)]),
        lambda: index.refresh(),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()


# --- away, and back ------------------------------------------------------------------------------


def test_while_the_server_is_away_nobody_waits_for_it_again_and_again(
    local: LocalServer, writer: ServerVectors
) -> None:
    writer.apply(0, 0, [put(1)])
    writer.commit()
    clock = Clock()
    index = node(local, clock=clock)
    index.checkpoint(0)
    assert ids(index, unit(1)) == [1]

    local.before = away()
    index.apply(0, 1, [put(2)])
    for _ in range(5):
        with pytest.raises(VectorsAway, match="cannot be reached"):
            index.search(SPACE, unit(1), 5)
    assert requests(local, "query_points") == 2
    assert index.health()["status"] == "away"
    assert "cannot be reached" in index.health()["reason"]
    clock.now += 2.9
    with pytest.raises(VectorsAway):
        index.search(SPACE, unit(1), 5)
    assert requests(local, "query_points") == 2
    clock.now += 0.2
    with pytest.raises(VectorsAway):
        index.search(SPACE, unit(1), 5)
    assert requests(local, "query_points") == 3

    local.before = lambda name: None
    with pytest.raises(VectorsAway):
        index.search(SPACE, unit(1), 5)
    clock.now += 3.1
    assert ids(index, unit(2)) == [2, 1]
    assert index.health()["status"] == "ok"


def test_a_refresh_that_succeeds_ends_the_pause(local: LocalServer, writer: ServerVectors) -> None:
    index = node(local)
    local.before = away()
    assert index.checkpoint(0) == -1
    assert index.refresh() is False
    with pytest.raises(VectorsAway):
        index.search(SPACE, unit(1), 5)
    assert requests(local, "query_points") == 0
    local.before = lambda name: None
    assert index.refresh() is True
    assert index.search(SPACE, unit(1), 5) == []


def test_after_a_pause_one_tries_and_the_others_do_not_wait(local: LocalServer) -> None:
    clock = Clock()
    index = node(local, clock=clock)
    index.checkpoint(0)
    local.before = away()
    with pytest.raises(VectorsAway):
        index.search(SPACE, unit(1), 5)
    clock.now += 4
    asked, answer = threading.Event(), threading.Event()

    def slow(name: str) -> None:
        asked.set()
        answer.wait(PATIENCE_S)

    local.before = slow
    found: list[list[Hit]] = []
    trying = threading.Thread(target=lambda: found.append(index.search(SPACE, unit(1), 5)))
    trying.start()
    assert asked.wait(PATIENCE_S)
    with pytest.raises(VectorsAway):
        index.search(SPACE, unit(1), 5)
    answer.set()
    trying.join()
    assert found == [[]]


def test_a_node_that_starts_without_the_server_catches_up_with_it(
    local: LocalServer, writer: ServerVectors
) -> None:
    for offset in range(4):
        writer.apply(0, offset, [put(offset)])
    writer.commit()
    index = node(local)
    local.before = away()
    assert index.checkpoint(0) == -1
    for offset in range(6):
        index.apply(0, offset, [put(offset)])
    local.before = lambda name: None
    index.refresh()
    assert index.health()["tail"] == 2
    assert index.checkpoint(0) == 3
    assert len(ids(index, unit(1))) == 6


def test_a_server_that_lost_what_it_had_is_not_taken_for_whole(
    local: LocalServer, writer: ServerVectors
) -> None:
    for offset in range(3):
        writer.apply(0, offset, [put(offset)])
    writer.commit()
    index = node(local)
    assert index.checkpoint(0) == 2
    local.delete_collection("mnemolog_test-model_v1")
    assert index.refresh() is False
    with pytest.raises(VectorsAway):
        index.search(SPACE, unit(1), 5)

    again = ServerVectors(local.server(), DIMS, "test-model")
    again.apply(0, 0, [put(0)])
    again.commit()
    assert index.refresh() is True
    with pytest.raises(VectorsAway, match="went back in partition 0, from 2 to 0"):
        index.search(SPACE, unit(1), 5)
    assert index.health()["status"] == "away"
    for offset in (1, 2):
        again.apply(0, offset, [put(offset)])
    again.commit()
    index.refresh()
    assert len(ids(index, unit(1))) == 3


def test_a_rebuild_on_the_server_goes_unnoticed(local: LocalServer, writer: ServerVectors) -> None:
    writer.apply(0, 0, [put(1)])
    writer.commit()
    index = node(local)
    index.checkpoint(0)
    index.apply(0, 1, [put(2)])
    fresh = writer.fresh()
    fresh.apply(0, 0, [put(1)])
    assert sorted(ids(index, unit(1))) == [1, 2]
    writer.switch_to(fresh)
    assert sorted(ids(index, unit(1))) == [1, 2]
    assert index.refresh() is True
    assert index.health()["status"] == "ok"


# --- threads -------------------------------------------------------------------------------------


def test_threads_apply_search_and_refresh_while_a_writer_follows(
    local: LocalServer, writer: ServerVectors
) -> None:
    """What a thread has applied it finds, whether it is in the tail or on the server by then."""
    index = node(local)
    partitions = range(3)
    for partition in partitions:
        index.checkpoint(partition)
    done = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: object, *args: object) -> threading.Thread:
        def run() -> None:
            try:
                work(*args)  # type: ignore[operator]
            except BaseException as error:
                failures.append(error)
                done.set()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    reached = [-1, -1, -1]

    def feed(partition: int) -> None:
        for offset in range(120):
            index.apply(partition, offset, [put(offset, seed=offset, space=f"s{partition}")])
            reached[partition] = offset

    def follow() -> None:
        written = [-1, -1, -1]
        while not done.is_set() or written != reached:
            for partition in partitions:
                for offset in range(written[partition] + 1, reached[partition] + 1):
                    writer.apply(
                        partition, offset, [put(offset, seed=offset, space=f"s{partition}")]
                    )
                    written[partition] = offset
            writer.commit()
            index.refresh()

    def search(partition: int) -> None:
        while not done.is_set():
            known = reached[partition]
            if known >= 0:
                assert ids(index, unit(known), 1, space=f"s{partition}") == [known]

    feeding = [guarded(feed, partition) for partition in partitions]
    others = [guarded(follow), *(guarded(search, partition) for partition in partitions)]
    for thread in feeding:
        thread.join()
    done.set()
    for thread in others:
        thread.join()
    assert failures == []
    index.refresh()
    assert index.health()["tail"] == 0
