"""Several clients on one directory: whichever is killed, the others go on and nothing is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.crash import stored
from tests.crash.process import ANSWER_WITHIN_S, NO_MODEL, Gone, Stdio
from tests.crash.writer import Writer, ask_again, write

CLIENTS = 3


class Station:
    """A client that writes in a thread of its own; a killed process gets a fresh one."""

    def __init__(self, data: Path, name: int, chance: Random, model: str | None) -> None:
        self.writer = Writer(name, Random(chance.random()))
        self.failure: BaseException | None = None
        self._data = data
        self._model = model
        self._stop = threading.Event()
        self.start()

    def start(self) -> None:
        """A fresh process, which first asks again what its predecessor left unanswered."""
        self._stop.clear()
        self.client = Stdio(self._data, model=self._model)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        self.client.kill()
        self._thread.join()

    def quit(self) -> int:
        """Stop writing, then end the process as a client does; its exit code."""
        self.pause()
        return self.client.finish()

    def pause(self) -> None:
        """Stop writing; what is under way is answered first."""
        self._stop.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def end(self) -> None:
        self._stop.set()
        with self.client:
            pass
        self._thread.join()

    def _run(self) -> None:
        try:
            ask_again(self.client, self.writer)
            write(self.client, self.writer, self._stop)
        except Gone:
            if self.client.process.wait() != -9:
                self.failure = AssertionError("a process ended that nobody had killed")
        except BaseException as error:
            self.failure = error


@contextmanager
def stations(data: Path, chance: Random, model: str | None) -> Iterator[list[Station]]:
    found: list[Station] = []
    try:
        for name in range(1, CLIENTS + 1):
            found.append(Station(data, name, chance, model))
        yield found
    finally:
        for station in found:
            station.end()


def wait_for(condition: Callable[[], bool], what: str, everybody: list[Station]) -> None:
    """Bounded; a station that failed meanwhile tells why."""
    deadline = time.monotonic() + 2 * ANSWER_WITHIN_S
    while not condition():
        for station in everybody:
            station.check()
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)


def all_go_on(everybody: list[Station]) -> None:
    """Wait until every station got a few more writes acknowledged."""
    before = {id(one): one.writer.acknowledged for one in everybody}
    wait_for(
        lambda: all(one.writer.acknowledged > before[id(one)] + 3 for one in everybody),
        "every client goes on",
        everybody,
    )


def holder(data: Path, everybody: list[Station]) -> Station:
    """The one whose process holds the store, once there is one."""
    found: list[Station] = []

    def look() -> bool:
        pid = (data / "lock").read_text()
        found[:] = [
            one
            for one in everybody
            if str(one.client.pid) == pid and one.client.process.poll() is None
        ]
        return bool(found)

    wait_for(look, "somebody holds the store", everybody)
    return found[0]


def finish(data: Path, everybody: list[Station], model: str | None) -> None:
    """Nothing under way any more: what is there is what was promised to all of them."""
    for station in everybody:
        station.pause()
    stored.check(data, *[one.writer for one in everybody])
    for station in everybody:
        stored.check_answers(station.client, station.writer)
    for station in everybody:
        assert station.client.finish() == 0
    stored.check(data, *[one.writer for one in everybody])
    stored.check_whole(data)
    stored.check_rebuild(data, model=model)


@pytest.mark.parametrize(("model", "kills"), [(NO_MODEL, 10), (None, 3)])
def test_whoever_is_killed_the_others_go_on(
    data: Path, chance: Random, model: str | None, kills: int
) -> None:
    with stations(data, chance, model) as everybody:
        all_go_on(everybody)
        for kill in range(kills):
            time.sleep(chance.uniform(0, 0.4))
            victims = [holder(data, everybody)]
            if kill % 4 == 2:
                victims = [one for one in everybody if one is not victims[0]][:1]
            victims[0].kill()
            if kill % 4 == 3:
                # The successor too, in whatever it is doing: opening the store, most likely.
                rest = [one for one in everybody if one is not victims[0]]
                victims.append(holder(data, rest))
                time.sleep(chance.uniform(0, 0.05))
                victims[1].kill()
            all_go_on([one for one in everybody if one not in victims])
            for victim in victims:
                victim.check()
                victim.start()
        all_go_on(everybody)
        finish(data, everybody, model)


def test_a_holder_that_ends_hands_over(data: Path, chance: Random) -> None:
    with stations(data, chance, NO_MODEL) as everybody:
        all_go_on(everybody)
        for _ in range(CLIENTS):
            time.sleep(chance.uniform(0, 0.2))
            leaving = holder(data, everybody)
            others = [one for one in everybody if one is not leaving]
            assert leaving.quit() == 0
            all_go_on(others)
            holder(data, others)  # One of them, or this waits in vain.
            leaving.start()
        all_go_on(everybody)
        finish(data, everybody, NO_MODEL)


def test_a_process_that_has_just_taken_over_ends_in_good_order(data: Path, chance: Random) -> None:
    """It is opening the store and loading its model at that moment."""
    for turn in range(4):
        with Stdio(data, model=None) as first, Stdio(data, model=None) as second:
            for name, client in enumerate((first, second)):
                text = f"Trial {turn}{name}: {chance.random()} of {chance.random()}"
                assert client.call("learn", {"insight": text}).body["status"] == "created"
            assert first.finish() == 0
            time.sleep(chance.uniform(0, 0.6))
            assert second.finish() == 0
    stored.check_whole(data)
    stored.check_rebuild(data, model=None)
