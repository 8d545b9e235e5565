"""The projector feeds decisions to a shared vector store: in order, none skipped, none lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mnemolog.events.codec import encode_fact
from mnemolog.events.envelope import GENESIS, Decision, Embedding
from mnemolog.events.robot import MemoryForgotten, MemoryLearned
from mnemolog.projections.ports import VectorsAway
from mnemolog.projections.vectors.client import Gone
from mnemolog.projections.vectors.server import ServerVectors
from mnemolog.services.counted import Counted
from mnemolog.services.node.vectors.projector import TRIES, OutOfOrder, Projector
from tests.contract.qdrant_local import LocalServer, at_request, away
from tests.contract.test_vector_index import DIMS, ids, unit
from tests.families import PROJECTED

MODEL = "test-model"
SPACE = "acme/robot/arm"


def decided(number: int, *facts: MemoryLearned | MemoryForgotten, model: str = MODEL) -> Counted:
    """The counting decision of call `number`; every third record of the log is void."""
    decision = Decision(
        call_id=f"call-{number}",
        call_offset=number,
        call_hash=GENESIS,
        previous=GENESIS,
        at_us=number,
        tool="learn",
        tenant="acme",
        space=SPACE,
        reply=b"{}",
        facts=[encode_fact(fact) for fact in facts],
        inputs=[Embedding(model, unit(number).tobytes())],
    )
    return Counted(number + number // 2, decision, list(facts))


def learned(number: int, model: str = MODEL) -> Counted:
    fact = MemoryLearned(
        memory_id=number,
        collection="arm",
        content=f"lesson {number}",
        category="code",
        tags=[],
        confidence=0.8,
        embedding=0,
    )
    return decided(number, fact, model=model)


def forgot(number: int, memory_id: int) -> Counted:
    return decided(number, MemoryForgotten(memory_id=memory_id, reason="wrong"))


@pytest.fixture
def local() -> Iterator[LocalServer]:
    local = LocalServer()
    yield local
    local.stop()


class Pauses(list[float]):
    """Sleeps that are noted and not slept."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def projector(local: LocalServer, pauses: Pauses | None = None) -> tuple[Projector, ServerVectors]:
    index = ServerVectors(local.server(), DIMS, MODEL)
    return Projector(index, PROJECTED, MODEL, sleep=Pauses() if pauses is None else pauses), index


def test_what_is_fed_is_found_and_durable(local: LocalServer) -> None:
    feeder, index = projector(local)
    assert feeder.checkpoint(0) == -1
    feeder.feed(0, [learned(0), learned(1), learned(2, model="another")])
    feeder.feed(0, [forgot(3, 0)])
    feeder.feed(0, [])
    assert ids(index, unit(1), space=SPACE) == [1]
    again, _ = projector(local)
    assert again.checkpoint(0) == 4
    assert again.checkpoint(1) == -1


def test_what_comes_again_is_skipped(local: LocalServer) -> None:
    feeder, index = projector(local)
    feeder.checkpoint(0)
    feeder.feed(0, [learned(0), learned(1), forgot(2, 0)])
    digest = index.digest()
    feeder.feed(0, [learned(0), learned(1)])
    assert index.digest() == digest, "what was forgotten since does not come back"
    feeder.feed(0, [learned(1), forgot(2, 0), learned(3)])
    assert sorted(ids(index, unit(1), space=SPACE)) == [1, 3]


def test_a_gap_is_noticed(local: LocalServer) -> None:
    feeder, index = projector(local)
    feeder.checkpoint(0)
    feeder.feed(0, [learned(0), learned(1)])
    with pytest.raises(OutOfOrder, match=r"decides call 3, the next one to be fed is that of 2"):
        feeder.feed(0, [learned(3)])
    with pytest.raises(OutOfOrder, match=r"decides call 4, the next one to be fed is that of 3"):
        feeder.feed(0, [learned(2), learned(4)])
    assert index.checkpoint(0) == 1
    feeder.feed(0, [learned(2), learned(3)])
    assert len(ids(index, unit(1), space=SPACE)) == 4


def test_passing_failures_are_tried_again(local: LocalServer) -> None:
    pauses = Pauses()
    feeder, index = projector(local, pauses)
    feeder.checkpoint(0)
    for number in range(4):
        local.before = at_request(0, "upsert")
        feeder.feed(0, [learned(number)])
    assert len(ids(index, unit(1), space=SPACE)) == 4
    assert pauses == [0.2] * 4


def test_when_it_cannot_be_done_it_says_so_and_skips_nothing(local: LocalServer) -> None:
    pauses = Pauses()
    feeder, index = projector(local, pauses)
    feeder.checkpoint(0)
    feeder.feed(0, [learned(0)])
    local.before = away()
    asked = len(local.requests)
    with pytest.raises(VectorsAway, match="cannot be reached"):
        feeder.feed(0, [learned(1), learned(2)])
    assert len(local.requests) - asked == TRIES
    assert pauses == [0.2, 0.4, 0.8, 1.6]
    with pytest.raises(VectorsAway):
        feeder.checkpoint(0)

    local.before = lambda name: None
    assert feeder.checkpoint(0) == 0
    feeder.feed(0, [learned(1), learned(2)])
    assert sorted(ids(index, unit(1), space=SPACE)) == [0, 1, 2]
    assert feeder.checkpoint(0) == 3


def test_after_a_rebuild_elsewhere_it_goes_on_in_the_new_collection(local: LocalServer) -> None:
    pauses = Pauses()
    feeder, index = projector(local, pauses)
    feeder.checkpoint(0)
    feeder.feed(0, [learned(0)])
    rebuilder = ServerVectors(local.server(), DIMS, MODEL)
    fresh = rebuilder.fresh()
    Projector(fresh, PROJECTED, MODEL).feed(0, [learned(0)])
    rebuilder.switch_to(fresh)

    with pytest.raises(Gone):
        feeder.feed(0, [learned(1)])
    assert pauses == []
    assert feeder.checkpoint(0) == 0
    feeder.feed(0, [learned(1)])
    assert sorted(ids(index, unit(1), space=SPACE)) == [0, 1]
    assert sorted(ids(rebuilder, unit(1), space=SPACE)) == [0, 1]


def test_two_projectors_of_one_partition_end_where_one_would(local: LocalServer) -> None:
    first, index = projector(local)
    second, _ = projector(local)
    log = [learned(0), learned(1), forgot(2, 0), learned(3), forgot(4, 3), learned(5)]
    first.checkpoint(0)
    second.checkpoint(0)
    first.feed(0, log[:2])
    second.feed(0, log[:5])
    first.feed(0, log[2:4])
    second.feed(0, log[5:])
    first.feed(0, log[4:])
    assert second.checkpoint(0) == log[-1].offset
    alone = ServerVectors(LocalServer().server(), DIMS, MODEL)
    Projector(alone, PROJECTED, MODEL).feed(0, log)
    assert sorted(ids(alone, unit(1), space=SPACE)) == [1, 5]
    assert index.digest() == alone.digest()
