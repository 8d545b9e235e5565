"""Queues that tenants share: in turns, each one's in its order, and with room for others."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.services.api import Busy
from mnemolog.services.node.fair import FairThreads, Turns
from mnemolog.services.shares import SHARE, Shares

TENANTS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.one_of(TENANTS, st.none()), max_size=200)
"""Who puts something; None: the next one is taken."""


@given(STEPS)
def test_what_waits_is_taken_in_turns_and_in_its_tenants_order(steps: list[str | None]) -> None:
    turns: Turns[tuple[str, int]] = Turns(1000, "calls")
    waiting: dict[str, list[int]] = {}
    passed: Counter[str] = Counter()
    for number, tenant in enumerate(steps):
        if tenant is not None:
            turns.put(tenant, (tenant, number))
            waiting.setdefault(tenant, []).append(number)
            continue
        taken = turns.take(0)
        if taken is None:
            assert not waiting
            continue
        whose, which = taken
        assert waiting[whose].pop(0) == which
        passed[whose] = 0
        waiting = {one: left for one, left in waiting.items() if left}
        for other in waiting:
            passed[other] += other != whose
            assert passed[other] <= 2, "the others were taken more than once each before it"


@given(st.integers(1, 50), STEPS)
def test_nobody_fills_a_queue_and_it_is_never_overfull(most: int, steps: list[str | None]) -> None:
    turns: Turns[str] = Turns(most, "calls")
    waiting: Counter[str] = Counter()
    for tenant in steps:
        if tenant is None:
            taken = turns.take(0)
            if taken is not None:
                waiting[taken] -= 1
            continue
        free = most - waiting.total()
        try:
            turns.put(tenant, tenant)
        except Busy as busy:
            assert waiting[tenant] >= SHARE * free
            assert f"({waiting.total()})" in str(busy)
        else:
            waiting[tenant] += 1
            assert waiting[tenant] <= SHARE * free
        assert waiting.total() <= most


def test_who_comes_to_a_flooded_queue_finds_room() -> None:
    shares = Shares(1000)
    while shares.has_room("flood"):
        shares.take("flood")
    assert shares.taken == 800
    assert shares.has_room("another")
    shares.leave("flood")
    assert shares.has_room("flood")


def test_what_comes_after_all_that_waits_is_taken_then() -> None:
    turns: Turns[str] = Turns(10, "calls")
    for item in ("a1", "a2", "a3"):
        turns.put("a", item)
    turns.put_after("end")
    turns.put("b", "b1")
    assert [turns.take(0) for _ in range(5)] == ["a1", "b1", "a2", "a3", "end"]
    assert turns.take(0) is None


def test_what_was_put_back_is_first_again() -> None:
    turns: Turns[str] = Turns(10, "calls")
    for item in ("a1", "a2", "a3"):
        turns.put("a", item)
    taken = [str(turns.take(0)) for _ in range(2)]
    turns.put("b", "b1")
    turns.put_back([("a", item) for item in taken])
    assert sorted(str(turns.take(0)) for _ in range(2)) == ["a1", "b1"]
    assert [turns.take(0) for _ in range(2)] == ["a2", "a3"]


def test_threads_work_for_everybody_in_turns() -> None:
    threads = FairThreads(1, "test", 100, "reads")
    order: list[str] = []
    go_on = threading.Event()
    threads.submit("a", go_on.wait)
    waiting = [threads.submit("a", order.append, f"a{number}") for number in range(5)]
    waiting += [threads.submit("b", order.append, "b0")]
    given_up = threads.submit("a", order.append, "never")
    assert given_up.cancel()
    go_on.set()
    for one in waiting:
        one.result(60)
    assert order == ["a0", "b0", "a1", "a2", "a3", "a4"]
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit("a", order.append, "late")


def test_threads_take_only_so_much_but_what_must_be_is() -> None:
    threads = FairThreads(1, "test", 5, "reads")
    under_way, go_on = threading.Event(), threading.Event()

    def hold() -> bool:
        under_way.set()
        return go_on.wait()

    threads.submit("a", hold)
    assert under_way.wait(60)
    kept: list[Future[int]] = []
    with pytest.raises(Busy, match=r"Too many reads are waiting \(4\)"):
        while True:
            kept.append(threads.submit("a", int))
    kept.append(threads.submit("b", int))
    kept.append(threads.submit("a", int, must=True))
    go_on.set()
    assert [one.result(60) for one in kept] == [0] * len(kept)
    threads.shutdown()


def test_threads_that_are_dropped_leave_nobody_waiting() -> None:
    threads = FairThreads(1, "test", 5, "reads")
    under_way, go_on = threading.Event(), threading.Event()

    def hold() -> int:
        under_way.set()
        go_on.wait()
        return 7

    first = threads.submit("a", hold)
    assert under_way.wait(60)
    second = threads.submit("a", int)
    ending = threading.Thread(target=lambda: threads.shutdown(drop=True))
    ending.start()
    go_on.set()
    ending.join(60)
    assert first.result(60) == 7
    assert second.cancelled() or second.result(60) == 0


def test_what_fails_is_told_to_who_asked() -> None:
    threads = FairThreads(1, "test", 5, "reads")

    def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        threads.submit("a", fail).result(60)
    threads.shutdown()
