"""A state's seal notices what was changed, and nothing else: whenever a process is killed, what it
left is taken for what it is. A kill leaves the files as they are: a copy stands for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mnemolog.projections.state import seal
from mnemolog.projections.state.store import PartitionState
from tests.families import PROJECTED


def opened(path: Path, *, as_it_is: bool = False) -> PartitionState:
    return PartitionState(path, 0, 1, PROJECTED, as_it_is=as_it_is)


def write(state: PartitionState, space: str) -> None:
    state.begin()
    state.view.ensure_space(space)
    state.commit()


def left(path: Path, name: str) -> Path:
    """What a kill at this moment leaves."""
    there = path.parent.parent / name
    shutil.copytree(path.parent, there)
    return there / path.name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "p0000.db"


def test_a_kill_between_any_two_steps_breaks_no_seal(path: Path) -> None:
    state = opened(path)
    places = [left(path, "opened")]
    state.seal()
    places.append(left(path, "sealed"))
    write(state, "default/one")
    places.append(left(path, "written"))
    state.shorten_wal()
    places.append(left(path, "shortened"))
    state.seal()
    places.append(left(path, "sealed-empty"))
    write(state, "default/two")
    places.append(left(path, "written-again"))
    state.seal()
    write(state, "default/three")
    places.append(left(path, "settled"))
    state.close()
    places.append(left(path, "closed"))
    again = opened(path)
    places.append(left(path, "opened-again"))
    write(again, "default/four")
    places.append(left(path, "written-after"))
    again.close()
    assert {place.parent.name: seal.broken(place) for place in places if seal.broken(place)} == {}


def test_a_write_ahead_file_in_which_nothing_counts_is_begun_anew(path: Path) -> None:
    """Killed while it wrote the first of it."""
    state = opened(path)
    state.seal()
    torn = left(path, "torn")
    state.close()
    wal = torn.with_name("p0000.db-wal")
    wal.write_bytes(wal.read_bytes()[:40])
    again = opened(torn)
    write(again, "default/one")
    again.seal()
    assert seal.broken(left(torn, "later")) is None
    again.close()


@pytest.mark.parametrize("closed", [True, False])
def test_the_write_ahead_file_of_an_earlier_time_is_noticed(path: Path, closed: bool) -> None:
    state = opened(path)
    write(state, "default/one")
    state.seal()
    earlier = left(path, "earlier").with_name("p0000.db-wal")
    state.shorten_wal()
    write(state, "default/two")
    state.seal()
    if closed:
        state.close()
    now = left(path, "now")
    shutil.copy(earlier, now.with_name("p0000.db-wal"))
    assert seal.broken(now) == "the -wal file beside it is not its own"
    state.close()


@pytest.mark.parametrize("killed", [True, False])
def test_to_look_at_a_state_as_it_is_breaks_no_seal(path: Path, killed: bool) -> None:
    state = opened(path)
    write(state, "default/one")
    state.seal()
    place = left(path, "looked-at")
    state.close()
    if not killed:
        place = path
    looked_at = opened(place, as_it_is=True)
    assert looked_at.broken is None
    write(looked_at, "default/two")
    looked_at.close()
    assert seal.broken(place) is None


def test_to_look_at_a_broken_state_does_not_mend_it(path: Path) -> None:
    opened(path).close()
    changed = bytearray(path.read_bytes())
    changed[-2048] ^= 1  # In the last page, where nothing is: SQLite does not notice.
    path.write_bytes(changed)
    for _ in range(2):
        looked_at = opened(path, as_it_is=True)
        assert looked_at.broken == "its contents are not those that were written"
        looked_at.close()
