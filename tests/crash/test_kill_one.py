"""One client, killed with SIGKILL again and again: nothing acknowledged is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

from tests.crash import stored
from tests.crash.process import NO_MODEL, Stdio
from tests.crash.writer import Writer, ask_again, write_one, write_until_gone

ROUNDS = [32, pytest.param(200, marks=[pytest.mark.faults, pytest.mark.timeout(3600)])]
KILLED_WITHIN_S = 0.4
"""After the first acknowledged write of a round."""
STARTED_WITHIN_S = 1.6
"""A process that is killed while it starts is killed within this time."""
CHECKED_EVERY = 10


@pytest.mark.parametrize("rounds", ROUNDS)
def test_nothing_acknowledged_is_lost(data: Path, chance: Random, rounds: int) -> None:
    writer = Writer(1, chance)
    for turn in range(rounds):
        model = None if turn % 6 == 5 else NO_MODEL
        depth = 8 if turn % 4 == 2 else 1
        at_start = turn % 5 == 3
        with Stdio(data, model=model) as client:
            if at_start:
                killer = threading.Timer(chance.uniform(0, STARTED_WITHIN_S), client.kill)
            else:
                ask_again(client, writer, share=0.5)
                write_one(client, writer)
                stored.check(data, writer)
                stored.check_answers(client, writer)
                killer = threading.Timer(chance.uniform(0, KILLED_WITHIN_S), client.kill)
            killer.start()
            try:
                write_until_gone(client, writer, depth)
            finally:
                killer.cancel()
        if turn % CHECKED_EVERY == CHECKED_EVERY - 1:
            stored.check_whole(data)
            stored.check_rebuild(data)
    assert writer.acknowledged > rounds and writer.retried > 0

    with Stdio(data, model=None) as client:
        ask_again(client, writer)
        write_one(client, writer)
        stored.check(data, writer)
        stored.check_answers(client, writer, 10)
        assert client.finish() == 0
    stored.check(data, writer)
    stored.check_whole(data)
    stored.check_rebuild(data, model=None)
    stored.check_lives(data, writer)
