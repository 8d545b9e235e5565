"""Rebuilding vectors on a server that are fed meanwhile, and a store that is of another log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mnemolog.events.log import Ends, LogError, Stored
from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.settings import Settings
from mnemolog.projections.vectors.server import ServerVectors
from mnemolog.services.api import Unavailable
from mnemolog.services.node.following.follow import follow_vectors
from mnemolog.services.node.vectors import feeder
from mnemolog.services.node.vectors.feeder import rebuild_shared
from mnemolog.services.node.vectors.projector import Projector
from tests.contract.qdrant_wire import WireServer, serving
from tests.families import PROJECTED
from tests.spec.given import Robot, learned

MODEL = CATALOGUE[DEFAULT_MODEL]


class GrowingLog:
    """The first `count` decisions; `at_end` is called whenever somebody has come to their end."""

    partitions = 1

    def __init__(self, log: list[bytes], count: int) -> None:
        self.count = count
        self.at_end: Callable[[], None] = lambda: None
        self._log = log

    def calls(self, partition: int, start: int, limit: int) -> list[Stored]:
        raise NotImplementedError

    def decisions(self, partition: int, start: int, limit: int) -> list[Stored]:
        end = min(self.count, start + limit)
        found = [Stored(offset, self._log[offset]) for offset in range(start, end)]
        if not found:
            self.at_end()
        return found

    def end(self, partition: int) -> Ends:
        return Ends(self.count, self.count)


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with serving() as server:
        yield server
    server.local.stop()


@pytest.fixture
def log() -> GrowingLog:
    """Ten decisions, of which two are on the log at first."""
    robot = Robot()
    robot.given(*(learned(number, f"lesson {number}") for number in range(1, 11)))
    return GrowingLog(robot.log, 2)


def live(wire: WireServer) -> ServerVectors:
    return ServerVectors(wire.local.server(), MODEL.dims, MODEL.name)


def grow(wire: WireServer, log: GrowingLog, times: int) -> Callable[[], None]:
    """So many times one decision more comes, and the projector feeds it to the live index."""
    left = times

    def at_end() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            log.count += 1
            log.at_end = lambda: None
            index = live(wire)
            follow_vectors(log, index, PROJECTED, MODEL.name)
            index.close()
            log.at_end = at_end

    return at_end


def test_what_is_fed_during_a_rebuild_is_in_the_new_index(
    wire: WireServer, log: GrowingLog
) -> None:
    rebuild_shared(Settings(vectors=wire.url), PROJECTED, MODEL, log)
    log.at_end = grow(wire, log, 3)
    rebuild_shared(Settings(vectors=wire.url), PROJECTED, MODEL, log)
    assert log.count == 5
    index = live(wire)
    assert index.checkpoint(0) == 4
    assert index.collection.endswith("_v3")
    index.close()


def test_a_rebuild_that_never_catches_up_gives_up_and_says_so(
    wire: WireServer, log: GrowingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder, "SWITCH_TRIES", 2)
    rebuild_shared(Settings(vectors=wire.url), PROJECTED, MODEL, log)
    before = live(wire).collection
    log.at_end = grow(wire, log, 5)
    with pytest.raises(Unavailable, match="The vectors on the server were not made anew"):
        rebuild_shared(Settings(vectors=wire.url), PROJECTED, MODEL, log)
    assert live(wire).collection == before
    assert [one.name for one in wire.local.get_collections().collections] == [before]


def test_a_store_that_was_fed_from_a_longer_log_is_told(wire: WireServer, log: GrowingLog) -> None:
    log.count = 10
    rebuild_shared(Settings(vectors=wire.url), PROJECTED, MODEL, log)
    log.count = 4
    index = live(wire)
    assert Projector(index, PROJECTED, MODEL.name).checkpoint(0) == 9
    with pytest.raises(LogError, match="was fed from another log"):
        follow_vectors(log, index, PROJECTED, MODEL.name)
    index.close()
