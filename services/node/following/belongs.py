"""Whether projections and a log belong together, asked before anything is decided or applied.

A state tells how many decisions it was made from, and the hash of the last that counted. The log
must have as many, that one at that place, and the calls that were decided. A log that lost its end
would otherwise give new calls the places, and the ids, of calls that were acknowledged; one of
another store would be written to.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mnemolog.events.envelope import sha256
from mnemolog.events.log import LogError
from mnemolog.projections.state.store import PartitionState, StateError
from mnemolog.projections.state.view import View
from mnemolog.services.node.following.follow import ReadableLog, last_counting

REMEDY = (
    "Put the right log back from a backup. If this log is the one to go on with, `mnemolog rebuild "
    "--accept-log` makes the projections anew from it, and keeps those that are there"
)


def check_belongs(log: ReadableLog, state: PartitionState, remedy: str = REMEDY) -> None:
    """`StateError`, which ends in `remedy`, when the state was made from another log, or from more
    than this one has."""
    partition, head, end = state.partition, state.head, log.end(state.partition)
    if end.decisions < state.next_offset or end.calls < head.next_call:
        raise StateError(
            f"The log has {end.calls} calls and {end.decisions} decisions in partition "
            f"{partition}, and the state was made from {head.next_call} and {state.next_offset}: "
            f"the log has lost its end, or is another one. {remedy}"
        )
    last = last_counting(state)
    if last >= 0 and sha256(log.decisions(partition, last, 1)[0].data) != head.hash:
        raise StateError(
            f"Decision {last} of partition {partition} is not the one that the state was made "
            f"from: this log was changed, or is another one. {remedy}"
        )


def check_not_lost(log: Path, projections: Path) -> None:
    """`LogError` when there is no log, and projections that were made from one: a new log beside
    them would take the place of the one that is lost."""
    made = 0 if log.exists() else sum(made_from(projections).values())
    if made:
        raise LogError(
            f"There is no log at {log}, but projections that were made from {made} decisions. Put "
            f"the log back from a backup; to begin a new one, move {projections} elsewhere first"
        )


def check_not_shorter(log: ReadableLog, projections: Path) -> None:
    """`LogError` when the projections were made from more than the log has: made anew from it they
    would hold less."""
    for partition, made in made_from(projections).items():
        there = log.end(partition).decisions if partition < log.partitions else 0
        if made > there:
            raise LogError(
                f"The log has {there} decisions in partition {partition}, and the projections were "
                f"made from {made}: the log has lost its end, or is another one. {REMEDY}"
            )


def made_from(projections: Path) -> dict[int, int]:
    """By partition how many decisions the states below a directory were made from, as far as they
    can be read."""
    found = {}
    for path in sorted((projections / "state").glob("p*.db")):
        try:
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            try:
                found[int(path.stem[1:])] = View(connection, 0, 1).next_offset()
            finally:
                connection.close()
        except (sqlite3.Error, TypeError, ValueError):
            continue
    return found
