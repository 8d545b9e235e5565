"""What every vector index promises, as one class that each backend subclasses.

In this file the one in process; the one on a server is in `test_vector_server.py`.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemolog.projections.ports import PutVector, Remove, Vector, VectorChange, VectorIndex
from mnemolog.projections.vectors import shard, whole
from mnemolog.projections.vectors.edge import EdgeVectors
from mnemolog.projections.vectors.manifest import VectorIndexError

DIMS = 16
SPACE = "acme/arm"


def unit(seed: int, dims: int = DIMS) -> Vector:
    values = np.random.default_rng(seed).standard_normal(dims)
    return (values / np.linalg.norm(values)).astype(np.float16)


def cosine(a: Vector, b: Vector) -> float:
    x, y = a.astype(np.float64), b.astype(np.float64)
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def put(id: int, seed: int | None = None, *, space: str = SPACE, version: int = 1) -> PutVector:
    return PutVector(space, id, version, unit(id if seed is None else seed))


OFFSETS = itertools.count()
"""Offsets that go on growing from one example of a property to the next."""

CHANGES: st.SearchStrategy[VectorChange] = st.builds(
    PutVector,
    st.just("lived"),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 20).map(unit),
    st.sampled_from([None, "s", "t"]),
    st.floats(0, 1),
) | st.builds(Remove, st.just("lived"), st.integers(1, 6))


def ids(index: VectorIndex, query: Vector, limit: int = 10, space: str = SPACE) -> list[int]:
    return [hit.id for hit in index.search(space, query, limit)]


class VectorIndexContract:
    """Subclass it as `Test…` and give `directory` something that `open` opens again and again."""

    def open(self, directory: Path) -> VectorIndex:
        raise NotImplementedError

    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[VectorIndex]:
        index = self.open(tmp_path / "live")
        yield index
        index.close()

    @pytest.fixture
    def reopened(self, tmp_path: Path, index: VectorIndex) -> Iterator[Callable[[], VectorIndex]]:
        """Close what is open and open it again."""
        opened = [index]

        def reopen() -> VectorIndex:
            opened[-1].close()
            opened.append(self.open(tmp_path / "live"))
            return opened[-1]

        yield reopen
        opened[-1].close()

    def test_an_empty_index_answers_with_nothing(self, index: VectorIndex) -> None:
        assert index.search(SPACE, unit(1), 5) == []
        assert index.checkpoint(0) == -1
        assert index.digest() == {}

    def test_the_nearest_come_first_with_their_cosine(self, index: VectorIndex) -> None:
        index.apply(0, 0, [put(id) for id in range(1, 201)])
        query = unit(1_000)
        expected = sorted(range(1, 201), key=lambda id: -cosine(unit(id), query))[:10]
        hits = index.search(SPACE, query, 10)
        assert [hit.id for hit in hits] == expected
        for hit in hits:
            assert hit.score == pytest.approx(cosine(unit(hit.id), query), abs=1e-3)

    def test_the_length_of_a_vector_does_not_count(self, index: VectorIndex) -> None:
        index.apply(0, 0, [PutVector(SPACE, 1, 1, unit(1) * np.float16(3)), put(2)])
        (hit,) = index.search(SPACE, unit(1) * np.float16(0.5), 1)
        assert hit.id == 1
        assert hit.score == pytest.approx(1.0, abs=1e-3)

    def test_a_search_sees_what_was_applied_just_before(self, index: VectorIndex) -> None:
        for id in range(1, 20):
            index.apply(0, id, [put(id)])
            assert ids(index, unit(id), 1) == [id]
        index.apply(0, 200, [Remove(SPACE, 7)])
        assert 7 not in ids(index, unit(7), 50)

    def test_a_put_replaces_what_the_id_held(self, index: VectorIndex) -> None:
        index.apply(0, 0, [put(1), put(2)])
        index.apply(0, 1, [put(1, seed=50, version=2)])
        hits = index.search(SPACE, unit(50), 10)
        assert [(hit.id, hit.version) for hit in hits if hit.id == 1] == [(1, 2)]
        assert hits[0].score == pytest.approx(1.0, abs=1e-3)
        assert len(hits) == 2

    def test_within_a_decision_the_last_change_of_an_id_holds(self, index: VectorIndex) -> None:
        index.apply(0, 0, [put(1), Remove(SPACE, 1), put(2), put(2, seed=9, version=2)])
        assert [(hit.id, hit.version) for hit in index.search(SPACE, unit(9), 10)] == [(2, 2)]
        index.apply(0, 1, [Remove(SPACE, 2), put(2, version=3)])
        assert [(hit.id, hit.version) for hit in index.search(SPACE, unit(2), 10)] == [(2, 3)]

    def test_removing_what_is_not_there_is_no_error(self, index: VectorIndex) -> None:
        index.apply(0, 0, [Remove(SPACE, 1), put(2)])
        index.apply(0, 1, [Remove("acme/none", 2)])
        assert ids(index, unit(2)) == [2]

    def test_spaces_do_not_see_each_other(self, index: VectorIndex) -> None:
        index.apply(0, 0, [put(1), put(1, seed=2, space="acme/leg"), put(2, space="acme/leg")])
        assert ids(index, unit(1)) == [1]
        assert sorted(ids(index, unit(1), space="acme/leg")) == [1, 2]
        index.apply(0, 1, [Remove("acme/leg", 1)])
        assert ids(index, unit(1)) == [1]
        assert ids(index, unit(1), space="acme/leg") == [2]

    def test_session_and_confidence_filter(self, index: VectorIndex) -> None:
        changes = [
            PutVector(SPACE, id, 1, unit(id), session, confidence)
            for id, session, confidence in (
                (1, "morning", 0.9),
                (2, "morning", 0.5),
                (3, "evening", 0.8),
                (4, None, 0.8),
            )
        ]
        index.apply(0, 0, changes)

        def found(session: str | None = None, least: float | None = None) -> list[int]:
            hits = index.search(SPACE, unit(9), 10, session=session, min_confidence=least)
            return sorted(hit.id for hit in hits)

        assert found() == [1, 2, 3, 4]
        assert found(session="morning") == [1, 2]
        assert found(session="never") == []
        assert found(least=0.8) == [1, 3, 4]
        assert found(least=0.0) == [1, 2, 3, 4]
        assert found(session="morning", least=0.8) == [1]
        assert found(least=0.95) == []

    def test_a_replacement_replaces_session_and_confidence_too(self, index: VectorIndex) -> None:
        index.apply(0, 0, [PutVector(SPACE, 1, 1, unit(1), "morning", 0.9)])
        index.apply(0, 1, [PutVector(SPACE, 1, 2, unit(1), None, 0.4)])
        assert index.search(SPACE, unit(1), 5, session="morning") == []
        assert index.search(SPACE, unit(1), 5, min_confidence=0.5) == []

    def test_what_comes_again_alters_nothing(self, index: VectorIndex) -> None:
        index.apply(0, 0, [put(1)])
        index.apply(0, 1, [put(1, seed=5, version=2), put(2)])
        index.apply(0, 2, [Remove(SPACE, 2)])
        before = index.digest()
        index.apply(0, 1, [put(1, seed=5, version=2), put(2)])
        index.apply(0, 0, [put(1)])
        assert index.digest() == before
        assert ids(index, unit(5)) == [1]

    def test_partitions_have_their_own_offsets(self, index: VectorIndex) -> None:
        index.apply(0, 10, [put(1)])
        index.apply(3, 2, [put(2, space="acme/leg")])
        index.commit()
        assert [index.checkpoint(partition) for partition in range(4)] == [10, -1, -1, 2]
        assert ids(index, unit(2), space="acme/leg") == [2]

    def test_a_checkpoint_moves_with_commit_alone(self, index: VectorIndex) -> None:
        index.apply(0, 0, [put(1)])
        index.search(SPACE, unit(1), 1)
        assert index.checkpoint(0) == -1
        index.commit()
        assert index.checkpoint(0) == 0
        index.apply(0, 1, [])
        index.commit()
        index.commit()
        assert index.checkpoint(0) == 1

    def test_closing_keeps_everything(
        self, index: VectorIndex, reopened: Callable[[], VectorIndex]
    ) -> None:
        index.apply(0, 0, [put(id) for id in range(50)])
        index.apply(0, 1, [Remove(SPACE, 3), put(4, seed=99, version=2)])
        digest, hits = index.digest(), index.search(SPACE, unit(99), 20)
        again = reopened()
        assert again.checkpoint(0) == 1
        assert again.digest() == digest
        found = again.search(SPACE, unit(99), 20)
        assert [(hit.id, hit.version) for hit in found] == [(hit.id, hit.version) for hit in hits]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in hits], abs=1e-6)
        again.apply(0, 2, [put(4, version=3)])
        assert again.search(SPACE, unit(4), 1)[0].version == 3

    def test_closing_twice_is_no_error(self, index: VectorIndex) -> None:
        index.close()
        index.close()

    @pytest.mark.parametrize(
        ("vector", "reason"),
        [
            (unit(1, DIMS + 1), f"{DIMS} dimensions"),
            (unit(1).reshape(1, DIMS), f"{DIMS} dimensions"),
            (np.full(DIMS, np.nan, np.float16), "NaN"),
            (np.full(DIMS, np.inf, np.float16), "infinity"),
            (np.zeros(DIMS, np.float16), "zeros"),
            (unit(1).astype(np.float32), "float16"),
        ],
    )
    def test_a_bad_vector_is_refused_whole(
        self, index: VectorIndex, vector: Vector, reason: str
    ) -> None:
        with pytest.raises(ValueError, match=reason):
            index.apply(0, 0, [put(1), PutVector(SPACE, 2, 1, vector)])
        with pytest.raises(ValueError, match=reason):
            index.search(SPACE, vector, 5)
        assert index.digest() == {}
        index.apply(0, 0, [put(1)])
        assert ids(index, unit(1)) == [1]

    def test_a_bad_confidence_or_limit_is_refused(self, index: VectorIndex) -> None:
        for confidence in (-0.1, 1.1, float("nan")):
            with pytest.raises(ValueError, match="between 0 and 1"):
                index.apply(0, 0, [PutVector(SPACE, 1, 1, unit(1), None, confidence)])
        for limit in (0, -1, 1_000_000):
            with pytest.raises(ValueError, match="1 to 10000"):
                index.search(SPACE, unit(1), limit)

    def test_every_part_of_a_point_is_in_the_digest(self, index: VectorIndex) -> None:
        vector = unit(1)
        nudged = vector.copy()
        nudged[0] = np.nextafter(nudged[0], np.float16(2))
        variants = [
            PutVector("0", 1, 1, vector, "s", 0.5),
            PutVector("1", 2, 1, vector, "s", 0.5),
            PutVector("2", 1, 2, vector, "s", 0.5),
            PutVector("3", 1, 1, nudged, "s", 0.5),
            PutVector("4", 1, 1, vector, "t", 0.5),
            PutVector("5", 1, 1, vector, None, 0.5),
            PutVector("6", 1, 1, vector, "", 0.5),
            PutVector("7", 1, 1, vector, "s", 0.5000001),
        ]
        index.apply(0, 0, [*variants, PutVector("same as 0", 1, 1, vector, "s", 0.5)])
        digest = index.digest()
        assert digest.pop("same as 0") == digest["0"]
        assert len(set(digest.values())) == len(variants)

    @settings(
        max_examples=30,
        deadline=None,
        # The fixture may be shared, as the property clears it; each backend runs the same method.
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(history=st.lists(st.lists(CHANGES, max_size=4), max_size=12), dice=st.randoms())
    def test_the_digest_tells_contents_and_not_history(
        self, index: VectorIndex, history: list[list[VectorChange]], dice: random.Random
    ) -> None:
        """Of two spaces one lives through the history, the other gets only what was left of it."""
        clear = [Remove(space, id) for space in ("lived", "left") for id in range(1, 7)]
        index.apply(0, next(OFFSETS), clear)
        left: dict[int, PutVector] = {}
        for changes in history:
            index.apply(0, next(OFFSETS), changes)
            if dice.random() < 0.5:
                index.search("lived", unit(1), 3)
            for change in changes:
                left.pop(change.id, None)
                if isinstance(change, PutVector):
                    left[change.id] = change
        rest = [msgspec.structs.replace(change, space="left") for change in left.values()]
        dice.shuffle(rest)
        index.apply(0, next(OFFSETS), rest)
        digest = index.digest()
        assert digest.get("lived") == digest.get("left")
        assert ("lived" in digest) == bool(left)

    def test_one_thread_applies_while_others_search(self, index: VectorIndex) -> None:
        done = threading.Event()
        failures: list[BaseException] = []
        applied = [0]

        def search(seed: int) -> None:
            try:
                while not done.is_set():
                    known = applied[0]
                    if known:
                        assert ids(index, unit(known), 1) == [known]
                    assert len(index.search(SPACE, unit(seed), 5)) >= min(5, known)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=search, args=(10_000 + n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for id in range(1, 601):
            index.apply(0, id, [put(id)])
            applied[0] = id
            if id % 200 == 0:
                index.commit()
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert index.checkpoint(0) == 600


class TestEdgeVectors(VectorIndexContract):
    def open(self, directory: Path) -> VectorIndex:
        return EdgeVectors(directory, DIMS, "test-model")

    def test_a_directory_has_one_opener(self, tmp_path: Path) -> None:
        first = self.open(tmp_path)
        with pytest.raises(BlockingIOError, match="already open"):
            self.open(tmp_path)
        first.close()
        self.open(tmp_path).close()

    def test_a_directory_belongs_to_one_model(self, tmp_path: Path) -> None:
        self.open(tmp_path).close()
        with pytest.raises(ValueError, match="test-model with 16 dimensions"):
            EdgeVectors(tmp_path, DIMS, "another-model")
        with pytest.raises(ValueError, match="directory of its own"):
            EdgeVectors(tmp_path, DIMS * 2, "test-model")
        self.open(tmp_path).close()

    def test_what_an_unfinished_creation_left_is_cleared(self, tmp_path: Path) -> None:
        index = self.open(tmp_path)
        index.apply(0, 0, [put(1)])
        index.close()
        (tmp_path / "manifest.json").unlink()
        fresh = self.open(tmp_path)
        assert fresh.checkpoint(0) == -1
        assert fresh.digest() == {}
        fresh.close()

    def test_a_damaged_shard_says_what_to_do(self, tmp_path: Path) -> None:
        self.open(tmp_path).close()
        (tmp_path / "shard" / "edge_config.json").write_text("no JSON")
        with pytest.raises(RuntimeError, match="rebuild"):
            self.open(tmp_path)

    def test_a_closed_index_says_so(self, tmp_path: Path) -> None:
        index = self.open(tmp_path)
        index.close()
        with pytest.raises(RuntimeError, match="closed"):
            index.search(SPACE, unit(1), 1)
        with pytest.raises(RuntimeError, match="closed"):
            index.apply(0, 0, [put(1)])

    def test_a_large_shard_answers_as_an_exact_search_does(self, tmp_path: Path) -> None:
        """Above `MANY` points conditions are left out at first: none of that may show."""
        count = shard.MANY + 2_000
        values = np.random.default_rng(1).standard_normal((count, DIMS)).astype(np.float16)
        space = ["acme/arm" if n % 5 else "acme/leg" for n in range(count)]
        session = [f"s{n % 40}" for n in range(count)]
        confidence = [0.99 if n % 50 == 0 else 0.6 + 0.1 * (n % 3) for n in range(count)]
        index = EdgeVectors(tmp_path, DIMS, "test-model")
        for n in range(count):
            change = PutVector(space[n], n, 1, values[n], session[n], confidence[n])
            index.apply(0, n, [change])

        lengths = np.linalg.norm(values.astype(np.float32), axis=1)
        right = asked = 0
        for number in range(40):
            query = unit(number)
            order = np.argsort(-(values.astype(np.float32) @ query.astype(np.float32)) / lengths)
            where = ("acme/arm", "acme/leg")[number % 2]
            which = (None, "s3")[number // 2 % 2]
            least = (None, 0.65, 0.95)[number % 3]
            expected = [
                int(n)
                for n in order
                if space[n] == where
                and which in (None, session[n])
                and (least is None or confidence[n] >= least)
            ][:10]
            hits = index.search(where, query, 10, session=which, min_confidence=least)
            assert len(hits) == len(expected)
            right += len({hit.id for hit in hits} & set(expected))
            asked += len(expected)
        assert right >= 0.98 * asked
        index.close()

    def test_files_are_compared_with_what_was_committed(self, tmp_path: Path) -> None:
        index = self.open(tmp_path)
        index.apply(0, 0, [put(1)])
        index.close()
        whole.check(tmp_path)
        (mappings,) = tmp_path.glob("shard/segments/*/mutable_id_tracker.mappings")
        good = mappings.read_bytes()
        for damage, told in (
            (good[:-1] + bytes([good[-1] ^ 1]), "was changed"),
            (good[: len(good) // 2], "bytes that had"),
        ):
            mappings.write_bytes(damage)
            with pytest.raises(VectorIndexError, match=told):
                whole.check(tmp_path)
        mappings.unlink()
        with pytest.raises(VectorIndexError, match="has lost the file"):
            whole.check(tmp_path)

    def test_an_index_of_an_earlier_version_is_opened_as_it_is(self, tmp_path: Path) -> None:
        index = self.open(tmp_path)
        index.apply(0, 0, [put(1)])
        index.close()
        manifest = tmp_path / "manifest.json"
        before = msgspec.json.decode(manifest.read_bytes())
        for name in ("points", "files", "sums"):
            assert before.pop(name)
        manifest.write_bytes(msgspec.json.encode(before))
        whole.check(tmp_path)
        again = EdgeVectors(tmp_path, DIMS, "test-model")
        again.check()
        assert again.checkpoint(0) == 0 and ids(again, unit(1)) == [1]
        again.close()

    def test_a_shard_that_lost_points_is_noticed(self, tmp_path: Path) -> None:
        index = EdgeVectors(tmp_path, DIMS, "test-model")
        index.apply(0, 0, [put(1), put(2)])
        index.commit()
        index.check()
        index.close()
        manifest = tmp_path / "manifest.json"
        before = msgspec.json.decode(manifest.read_bytes())
        manifest.write_bytes(msgspec.json.encode(before | {"points": 3}))
        again = EdgeVectors(tmp_path, DIMS, "test-model")
        with pytest.raises(VectorIndexError, match="holds 2 points of 3"):
            again.check()
        again.close()
