"""The vector index on a Qdrant server: the shared contract, and what only a server has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from qdrant_client import models

from mnemolog.projections.ports import PutVector, Remove, VectorIndex, VectorsAway
from mnemolog.projections.vectors import collection
from mnemolog.projections.vectors.breaker import Breaker
from mnemolog.projections.vectors.client import Gone, Server
from mnemolog.projections.vectors.points import checkpoint_id
from mnemolog.projections.vectors.server import ServerVectors
from tests.contract.qdrant_local import LocalServer, at_request, away
from tests.contract.test_vector_index import DIMS, SPACE, VectorIndexContract, ids, put, unit


class OwnServer(Server):
    """A server that ends with its connection, so that its files can be opened again."""

    def __init__(self, local: LocalServer) -> None:
        super().__init__(local, "http://local.test")  # type: ignore[arg-type]


class TestServerVectors(VectorIndexContract):
    def open(self, directory: Path) -> VectorIndex:
        return ServerVectors(OwnServer(LocalServer(directory)), DIMS, "test-model")

    def test_a_closed_index_says_so(self, tmp_path: Path) -> None:
        index = self.open(tmp_path)
        index.close()
        with pytest.raises(RuntimeError, match="closed"):
            index.search(SPACE, unit(1), 1)
        with pytest.raises(RuntimeError, match="closed"):
            index.apply(0, 0, [put(1)])


@pytest.fixture
def local() -> Iterator[LocalServer]:
    local = LocalServer()
    yield local
    local.before = local.after = lambda name: None
    local.stop()


def opened(local: LocalServer, model: str = "test-model", dims: int = DIMS) -> ServerVectors:
    return ServerVectors(local.server(), dims, model, breaker=Breaker(pause_s=0.0))


def stored(local: LocalServer, partition: int = 0) -> int:
    """The checkpoint as it is on the server."""
    found = local.retrieve("mnemolog_test-model", [str(checkpoint_id(partition))])
    return found[0].payload["at"] if found else -1


# --- the collection ------------------------------------------------------------------------------


def test_the_collection_is_made_as_the_documents_say(local: LocalServer) -> None:
    index = opened(local)
    assert index.collection == "mnemolog_test-model_v1"
    (alias,) = local.get_aliases().aliases
    assert (alias.alias_name, alias.collection_name) == ("mnemolog_test-model", index.collection)
    config = local.get_collection("mnemolog_test-model").config
    assert config.metadata == {"model": "test-model", "dims": DIMS, "format": 1}
    vectors = config.params.vectors["content"]
    assert (vectors.size, vectors.distance) == (DIMS, models.Distance.COSINE)
    assert vectors.datatype == models.Datatype.FLOAT16
    assert vectors.memory == models.Memory.COLD
    assert vectors.quantization_config.scalar.type == models.ScalarType.INT8
    assert vectors.quantization_config.scalar.memory == models.Memory.PINNED
    assert (vectors.hnsw_config.m, vectors.hnsw_config.payload_m) == (0, 16)


def test_the_fields_that_searches_filter_on_are_indexed() -> None:
    """The local mode keeps no payload indexes: what the server is asked for is looked at."""
    asked: dict[str, object] = {}

    class Noting(LocalServer):
        def create_payload_index(
            self, name: str, field: str, schema: object, wait: bool, timeout: int
        ) -> None:
            assert (name, wait) == ("mnemolog_test-model_v1", True)
            assert timeout > 0
            asked[field] = schema

    opened(Noting())
    assert asked["space"] == models.KeywordIndexParams(
        type=models.KeywordIndexType.KEYWORD, is_tenant=True
    )
    assert asked["session"] == models.KeywordIndexParams(
        type=models.KeywordIndexType.KEYWORD, enable_hnsw=False
    )
    assert asked["confidence"] == models.FloatIndexParams(
        type=models.FloatIndexType.FLOAT, enable_hnsw=False
    )
    assert isinstance(asked["at"], models.IntegerIndexParams)
    assert asked.keys() == {"space", "session", "confidence", "at"}


def test_every_write_waits_and_every_request_has_a_limit(local: LocalServer) -> None:
    index = opened(local)
    index.apply(0, 0, [put(1), put(2)])
    index.apply(0, 1, [Remove(SPACE, 1)])
    index.search(SPACE, unit(1), 3, session="s", min_confidence=0.5)
    index.commit()
    index.digest()
    short = ("info", "get_aliases", "get_collections", "get_collection", "collection_exists")
    writes = {"upsert", "delete", "create_payload_index"}
    assert writes <= {name for name, _ in local.requests}
    for name, more in local.requests:
        if name in writes:
            assert more["wait"] is True
        if name not in short:  # these take no limit of their own, the client's holds for them
            assert more["timeout"] > 0, name
    (query,) = [more for name, more in local.requests if name == "query_points"]
    assert query["search_params"].quantization.rescore is True


def test_a_collection_belongs_to_one_model(local: LocalServer) -> None:
    opened(local)
    with pytest.raises(ValueError, match="test-model with 16 dimensions, not of test-model"):
        opened(local, dims=32)
    assert opened(local, "another").collection == "mnemolog_another_v1"
    with pytest.raises(ValueError, match="cannot be the name"):
        opened(local, "a/b")


def test_an_old_server_is_refused(local: LocalServer) -> None:
    info = models.VersionInfo(title="qdrant", version="1.15.4")

    class Old(LocalServer):
        def info(self) -> models.VersionInfo:
            return info

    with pytest.raises(VectorsAway, match=r"version 1.15.4; 1.16 or later"):
        opened(Old())
    info.version = "2.0.0-dev"
    opened(Old())


def test_two_that_open_an_empty_server_share_it(local: LocalServer) -> None:
    first, second = opened(local), opened(local)
    first.apply(0, 0, [put(1)])
    first.commit()
    assert ids(second, unit(1)) == [1]
    assert second.checkpoint(0) == 0


def test_a_creation_that_was_broken_off_is_finished(local: LocalServer) -> None:
    steps = 0
    while True:
        local.before = at_request(steps)
        try:
            index = opened(local)
            break
        except VectorsAway:
            steps += 1
    assert steps > 5
    assert index.collection == "mnemolog_test-model_v1"
    index.apply(0, 0, [put(1)])
    assert ids(index, unit(1)) == [1]


def test_what_is_many_goes_in_parts(local: LocalServer) -> None:
    index = opened(local)
    index.apply(0, 0, [put(n) for n in range(600)])
    index.commit()
    index.apply(0, 1, [Remove(SPACE, n) for n in range(599)])
    index.commit()
    done = [name for name, _ in local.requests]
    assert done.count("upsert") == 3 + 2
    assert done.count("delete") == 3
    assert ids(index, unit(1)) == [599]


# --- the checkpoint ------------------------------------------------------------------------------


@pytest.mark.parametrize("lost_answer", [False, True])
def test_whatever_fails_the_checkpoint_is_not_ahead(lost_answer: bool) -> None:
    """Each request of a feed fails in turn, before or after it was carried out; what is on the
    server then is all of what its checkpoint says, and going on makes it whole."""
    decisions: list[list[PutVector | Remove]] = [
        [put(n, version=1) for n in range(300)],
        [Remove(SPACE, n) for n in range(0, 300, 3)],
        [put(n, seed=n + 1_000, version=2) for n in range(1, 300, 3)],
    ]
    whole = ServerVectors(LocalServer().server(), DIMS, "test-model")
    digests = [whole.digest()]
    for offset, changes in enumerate(decisions):
        whole.apply(0, offset, changes)
        digests.append(whole.digest())

    number = failures = 0
    while True:
        local = LocalServer()
        index = opened(local)
        fault = at_request(number, "upsert", "delete", "retrieve")
        if lost_answer:
            local.after = fault
        else:
            local.before = fault
        failed = False
        for offset, changes in enumerate(decisions):
            try:
                index.apply(0, offset, changes)
                index.commit()
            except VectorsAway:
                failed = True
                break
        local.before = local.after = lambda name: None
        if not failed:
            break
        failures += 1
        there = stored(local)
        again = opened(local)
        assert again.checkpoint(0) == there
        for offset in range(there + 1, len(decisions)):
            again.apply(0, offset, decisions[offset])
            again.commit()
            assert again.digest() == digests[offset + 1]
        assert again.digest() == digests[-1]
        number += 1
    assert failures >= 8


def test_a_commit_that_failed_can_be_repeated(local: LocalServer) -> None:
    index = opened(local)
    index.apply(0, 0, [put(1)])
    local.before = away()
    with pytest.raises(VectorsAway, match="cannot be reached"):
        index.commit()
    assert index.checkpoint(0) == -1
    local.before = away("nothing")
    index.apply(0, 1, [put(2)])
    index.commit()
    assert (index.checkpoint(0), stored(local)) == (1, 1)
    assert sorted(ids(index, unit(1))) == [1, 2]


def test_an_apply_that_failed_took_nothing_in(local: LocalServer) -> None:
    index = opened(local)
    index.apply(0, 0, [put(n) for n in range(1_100)])
    local.before = away("upsert")
    with pytest.raises(VectorsAway):
        index.apply(0, 1, [put(5_000)])
    local.before = away("nothing")
    index.commit()
    assert stored(local) == 0
    index.apply(0, 1, [put(5_000)])
    index.commit()
    assert (stored(local), len(ids(index, unit(1), 2_000))) == (1, 1_101)


# --- two that believe they feed a partition ------------------------------------------------------


def test_a_displaced_writer_takes_nothing_back(local: LocalServer) -> None:
    displaced, owner = opened(local), opened(local)
    displaced.apply(0, 0, [put(1)])
    displaced.apply(0, 1, [put(2), put(3), Remove(SPACE, 4)])
    decisions: list[list[PutVector | Remove]] = [
        [put(1)],
        [put(2), put(3), Remove(SPACE, 4)],
        [put(2, seed=20, version=2), put(4)],
        [put(5)],
    ]
    for offset, changes in enumerate(decisions):
        owner.apply(0, offset, changes)
    owner.commit()
    digest = owner.digest()

    displaced.commit()
    assert stored(local) == 3
    assert owner.digest() == digest
    assert displaced.resume(0) == 3
    displaced.apply(0, 3, [put(9)])
    displaced.commit()
    assert owner.digest() == digest


def test_a_removed_point_may_come_back_and_carries_its_old_version(local: LocalServer) -> None:
    """The one thing that a late write can do. The state, which is asked about every hit, knows."""
    displaced, owner = opened(local), opened(local)
    displaced.apply(0, 0, [put(1)])
    owner.apply(0, 0, [put(1)])
    owner.apply(0, 1, [Remove(SPACE, 1)])
    owner.commit()
    displaced.commit()
    assert [(hit.id, hit.version) for hit in owner.search(SPACE, unit(1), 5)] == [(1, 1)]
    assert stored(local) == 1
    owner.apply(0, 2, [put(1, seed=7, version=2)])
    assert [(hit.id, hit.version) for hit in owner.search(SPACE, unit(7), 5)] == [(1, 2)]


def test_whoever_takes_over_resumes_from_the_server(local: LocalServer) -> None:
    first, second = opened(local), opened(local)
    first.apply(0, 0, [put(1)])
    first.commit()
    first.apply(0, 1, [put(2)])
    assert second.resume(0) == 0
    second.apply(0, 1, [put(2)])
    second.apply(0, 2, [put(3)])
    second.commit()
    assert first.checkpoint(0) == 0
    assert first.resume(0) == 2
    first.apply(0, 3, [put(4)])
    first.commit()
    assert sorted(ids(first, unit(1))) == [1, 2, 3, 4]


# --- rebuild -------------------------------------------------------------------------------------


def names(local: LocalServer) -> list[str]:
    return sorted(one.name for one in local.get_collections().collections)


def test_a_rebuild_is_made_beside_and_switched_in_one_step(local: LocalServer) -> None:
    index = opened(local)
    index.apply(0, 0, [put(1), put(2)])
    index.commit()
    fresh = index.fresh()
    assert fresh.collection == "mnemolog_test-model_v2"
    fresh.apply(0, 0, [put(1)])
    assert sorted(ids(index, unit(1))) == [1, 2]
    assert ids(fresh, unit(1)) == [1]

    asked = len(local.requests)
    index.switch_to(fresh)
    switches = [n for n, _ in local.requests[asked:] if n == "update_collection_aliases"]
    assert len(switches) == 1
    assert index.collection == "mnemolog_test-model_v2"
    assert names(local) == ["mnemolog_test-model_v2"]
    assert ids(index, unit(1)) == [1]
    assert (index.checkpoint(0), stored(local)) == (0, 0)
    index.apply(0, 1, [put(3)])
    index.commit()
    assert sorted(ids(opened(local), unit(1))) == [1, 3]
    with pytest.raises(RuntimeError, match="closed"):
        fresh.apply(0, 2, [put(4)])
    fresh.close()
    assert names(local) == ["mnemolog_test-model_v2"]


def test_a_rebuild_that_is_not_as_far_is_not_switched_to(local: LocalServer) -> None:
    index, other = opened(local), opened(local)
    index.apply(0, 0, [put(1)])
    index.commit()
    fresh = index.fresh()
    with pytest.raises(ValueError, match=r"stands at -1 in partition 0, .* at 0"):
        index.switch_to(fresh)
    fresh.apply(0, 0, [put(1)])
    other.apply(0, 1, [put(2)])
    other.commit()
    with pytest.raises(ValueError, match=r"stands at 0 in partition 0, .* at 1"):
        index.switch_to(fresh)
    fresh.apply(0, 1, [put(2)])
    index.switch_to(fresh)
    assert sorted(ids(index, unit(1))) == [1, 2]


def test_a_rebuild_that_is_given_up_leaves_nothing(local: LocalServer) -> None:
    index = opened(local)
    fresh = index.fresh()
    fresh.apply(0, 0, [put(1)])
    fresh.close()
    assert names(local) == ["mnemolog_test-model_v1"]


def test_what_a_broken_off_rebuild_left_is_dropped_by_the_next(local: LocalServer) -> None:
    index = opened(local)
    left = index.fresh()
    left.apply(0, 0, [put(1)])
    fresh = index.fresh()
    assert names(local) == ["mnemolog_test-model_v1", fresh.collection]
    with pytest.raises(Gone):
        left.commit()
    with pytest.raises(Gone):
        left.resume(0)
    index.switch_to(fresh)
    assert names(local) == [index.collection]


def test_a_writer_whose_collection_was_replaced_feeds_on_from_the_new_one(
    local: LocalServer,
) -> None:
    other, index = opened(local), opened(local)
    other.apply(0, 0, [put(1)])
    other.apply(1, 0, [put(1, space="acme/leg")])
    other.commit()
    fresh = index.fresh()
    fresh.apply(0, 0, [put(1)])
    fresh.apply(1, 0, [put(1, space="acme/leg")])
    index.switch_to(fresh)

    other.apply(0, 1, [put(2)])
    with pytest.raises(Gone):
        other.commit()
    with pytest.raises(VectorsAway, match="replaced"):
        other.apply(0, 2, [put(3)])
    assert other.resume(0) == 0
    other.apply(0, 1, [put(2)])
    with pytest.raises(VectorsAway, match="partition 1 was replaced"):
        other.apply(1, 1, [put(2, space="acme/leg")])
    assert other.resume(1) == 0
    other.commit()
    assert sorted(ids(index, unit(1))) == [1, 2]
    assert index.resume(0) == 1


def test_a_model_whose_name_continues_another_is_left_alone(local: LocalServer) -> None:
    opened(local, "test-model_v7")
    index = opened(local)
    index.switch_to(index.fresh())
    assert names(local) == ["mnemolog_test-model_v2", "mnemolog_test-model_v7_v1"]
    assert collection.Names("a", "p").number("p_a_v12") == 12
    assert collection.Names("a", "p").number("p_a_v7_v1") is None
