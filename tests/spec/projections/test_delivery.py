"""A log may be delivered in any way that loses nothing: the projections end up the same.

What is delivered again changes nothing, whatever a projection had when it stopped; what is missing
is noticed, and changes nothing either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemolog.events.codec import Fact, tag_of
from mnemolog.projections.state.store import Gap
from tests.families import CATALOGUE
from tests.spec.given import forgotten, learned
from tests.spec.given_graph import created
from tests.spec.projections.fed import Digests, Log, Stores
from tests.spec.projections.words import EVERYTHING

LOG = Log().add(*EVERYTHING)
END = len(LOG)
ALL = range(END)
MIDDLE = END // 2
FACTS = [
    fact for family in CATALOGUE.families.values() for fact in family.projection.language.facts
]


@pytest.mark.parametrize("fact", FACTS, ids=tag_of)
def test_every_fact_of_every_family_is_in_the_log(fact: type[Fact]) -> None:
    assert any(type(one) is fact for one in LOG.facts())


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Digests:
    """What there is after the log was delivered once."""
    stores = Stores(tmp_path_factory.mktemp("once") / "projections").take(LOG, ALL)
    digests = stores.digests()
    stores.close()
    spaces = {"default/robot/default", "default/graph#entity", "default/graph#reflection"}
    spaces |= {"default/episodes#episode", "default/episodes#pattern"}
    assert {name.split("/", 1)[1] for name in digests if name[:4] == "text"} >= spaces
    assert {name.split("/", 1)[1] for name in digests if name[:7] == "vectors"} >= spaces
    return digests


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    stores = Stores(tmp_path / "projections", on_disk=True)
    yield stores
    stores.close()


def all_at(stores: Stores, offset: int) -> bool:
    stores.commit()
    return stores.checkpoints() == (offset, offset, offset)


# --- again and again -----------------------------------------------------------------------------


def each_twice(stores: Stores) -> None:
    stores.take(LOG, [offset for offset in ALL for _ in range(2)])


def each_twice_apart(stores: Stores) -> None:
    """In a batch of its own each time."""
    stores.take(LOG, [offset for offset in ALL for _ in range(2)], batch=1)


def all_of_it_again(stores: Stores) -> None:
    stores.take(LOG, ALL).take(LOG, ALL)


def from_the_start_each_time(stores: Stores) -> None:
    for end in (1, MIDDLE, END - 1, END):
        stores.take(LOG, range(end))


def backwards_once_it_is_there(stores: Stores) -> None:
    stores.take(LOG, [*ALL, *reversed(ALL)])


def in_small_batches(stores: Stores) -> None:
    for start in range(0, END, 7):
        stores.take(LOG, range(start, min(start + 7, END)))
        stores.commit()


@pytest.mark.parametrize(
    "delivered",
    [
        each_twice,
        each_twice_apart,
        all_of_it_again,
        from_the_start_each_time,
        backwards_once_it_is_there,
        in_small_batches,
    ],
    ids=lambda one: one.__name__,
)
def test_delivered_again_nothing_changes(
    stores: Stores, once: Digests, delivered: Callable[[Stores], None]
) -> None:
    delivered(stores)
    assert stores.digests() == once
    assert all_at(stores, END - 1)
    assert stores.state.head == LOG.head


# --- from the middle -----------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, MIDDLE // 2], ids=lambda start: f"from {start}")
@pytest.mark.parametrize(
    "stopped",
    [(MIDDLE,) * 3, (END, MIDDLE, END // 3), (END // 3, END, MIDDLE), (MIDDLE, END // 3, END)],
    ids=["together", "state ahead", "text ahead", "vectors ahead"],
)
def test_what_stopped_goes_on_from_an_earlier_decision(
    stores: Stores, once: Digests, stopped: tuple[int, int, int], start: int
) -> None:
    """Each projection has a checkpoint of its own, and is given more than it needs."""
    state, text, vectors = stopped
    stores.take_state(LOG, range(state))
    stores.take_text(LOG, range(text))
    stores.take_vectors(LOG, range(vectors))
    stores = stores.reopened()
    assert stores.checkpoints() == (state - 1, text - 1, vectors - 1)
    stores.take(LOG, range(start, END))
    assert stores.digests() == once
    stores.close()


@pytest.mark.parametrize("start", [0, MIDDLE // 2], ids=lambda start: f"from {start}")
def test_what_was_killed_goes_on_from_what_was_durable(
    stores: Stores, once: Digests, start: int
) -> None:
    stores.take(LOG, range(MIDDLE))
    stores.commit()
    stores.take(LOG, range(MIDDLE, END - 3))
    left = stores.killed()
    assert left.checkpoints() == (END - 4, MIDDLE - 1, MIDDLE - 1)
    left.take(LOG, range(start, END))
    assert left.digests() == once
    left.close()


@settings(max_examples=8)
@given(st.lists(st.tuples(st.integers(0, END), st.integers(1, END), st.booleans()), max_size=5))
def test_any_delivery_that_loses_nothing_will_do(
    once: Digests, steps: list[tuple[int, int, bool]]
) -> None:
    """So far back, so far on, and perhaps closed and opened again."""
    with TemporaryDirectory() as directory:
        stores, reached = Stores(Path(directory) / "projections", on_disk=True), 0
        for back, on, closed in [*steps, (0, END, False)]:
            start, reached = max(0, reached - back), min(END, reached + on)
            stores.take(LOG, range(start, reached))
            stores = stores.reopened() if closed else stores
        assert stores.digests() == once
        stores.close()


# --- with a gap ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "missing", "found"),
    [
        ([MIDDLE + 1], MIDDLE, MIDDLE + 1),
        ([END - 1], MIDDLE, END - 1),
        ([MIDDLE, MIDDLE + 2], MIDDLE + 1, MIDDLE + 2),
        ([*range(MIDDLE + 3), *range(MIDDLE + 4, END)], MIDDLE + 3, MIDDLE + 4),
    ],
    ids=["the next", "far ahead", "within a batch", "from the start"],
)
def test_a_gap_is_noticed_and_nothing_changes(
    stores: Stores, once: Digests, offsets: list[int], missing: int, found: int
) -> None:
    stores.take(LOG, range(MIDDLE))
    before, head = stores.digests(), stores.state.head
    with pytest.raises(Gap, match=f"expected decision {missing}, got {found}"):
        stores.take(LOG, offsets)
    assert stores.digests() == before
    assert stores.state.head == head
    assert all_at(stores, MIDDLE - 1)
    stores.take(LOG, ALL)
    assert stores.digests() == once


# --- with what does not count --------------------------------------------------------------------


def test_what_does_not_count_is_passed_over(stores: Stores, once: Digests) -> None:
    log = Log()
    for place, one in enumerate(EVERYTHING):
        log.add(one)
        log.add_void((forgotten(1), learned(70, "not so"), created(70, "Nobody"))[place % 3])
    assert len(log) == 2 * END
    stores.take(log, range(len(log)), batch=5).take(log, range(len(log)))
    assert stores.digests() == once
    assert stores.state.head == LOG.head
    assert stores.state.view.voids() == frozenset(range(1, 2 * END, 2))
