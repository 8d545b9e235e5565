"""Ids tell their partition, and a space's partition is the same on every node, for ever."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.events.ids import (
    MAX_PARTITIONS,
    nth_id,
    partition_of_id,
    partition_of_session,
    partition_of_space,
    session_id,
)

COUNTS = st.integers(1, MAX_PARTITIONS)


@given(st.integers(1, 2**40), COUNTS, st.data())
def test_an_id_tells_its_partition(n: int, partitions: int, data: st.DataObject) -> None:
    partition = data.draw(st.integers(0, partitions - 1))
    number = nth_id(n, partition, partitions)
    assert number == (n - 1) * partitions + partition + 1
    assert partition_of_id(number, partitions) == partition


def test_with_one_partition_ids_are_1_2_3() -> None:
    assert [nth_id(n, 0, 1) for n in (1, 2, 3)] == [1, 2, 3]


def test_partitions_never_hand_out_the_same_id() -> None:
    ids = [nth_id(n, partition, 5) for n in range(1, 20) for partition in range(5)]
    assert sorted(ids) == list(range(1, len(ids) + 1))


@given(st.text(), COUNTS, st.data())
def test_a_session_tells_its_partition(call: str, partitions: int, data: st.DataObject) -> None:
    partition = data.draw(st.integers(0, partitions - 1))
    made = session_id(call, partition)
    assert made == session_id(call, partition)
    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (8, uuid.RFC_4122)
    assert partition_of_session(made, partitions) == partition
    assert partition_of_session(made.upper(), partitions) == partition


@pytest.mark.parametrize("session", ["", "session", "0" * 31, session_id("c", 7)])
def test_what_is_no_session_of_ours_has_no_partition(session: str) -> None:
    assert partition_of_session(session, 4) is None


@given(st.text(alphabet=st.characters()), COUNTS)
def test_every_space_has_a_partition(space: str, partitions: int) -> None:
    assert 0 <= partition_of_space(space, partitions) < partitions


def test_where_things_live_never_changes() -> None:
    spaces = ["default/robot/default", "acme/robot/kitchen", "默认/robot/厨房"]
    assert [partition_of_space(one, 16) for one in spaces] == [14, 2, 7]
    assert session_id("c-1", 3) == "1279b592-3c1c-8293-9e6e-d41786970003"
