"""`mnemolog import --from-data`: a store's log, moved from its data directory to Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mnemolog.events.log import LogError
from mnemolog.infra.settings import Settings
from mnemolog.services.cli.show import add_row, console, fail, print_json, progress_bar, table

if TYPE_CHECKING:
    from mnemolog.services.node.kafka.moving import Moved


def move_store(found: Settings, directory: Path, as_json: bool) -> None:
    """Copy the log of the store in `directory` to the topics that the settings name."""
    if found.brokers is None:
        raise click.UsageError("Say where to, with --log kafka://HOST:PORT")
    if not (directory / "log.db").is_file():
        raise fail(
            f"There is no embedded log (log.db) in {directory}; --from-data takes the data "
            "directory of a store that was served without Kafka"
        )
    with progress_bar(f"Moving {directory.name} to Kafka", hidden=as_json) as progress:
        try:
            moved = _locked(found, directory, progress)
        except LogError as error:
            raise fail(str(error)) from None
    if as_json:
        print_json(moved)
        return
    out = console()
    counts = table("", "")
    add_row(counts, "partitions", str(moved.partitions))
    add_row(counts, "calls", str(moved.calls))
    add_row(counts, "decisions", str(moved.decisions))
    add_row(counts, "records that were there already", str(moved.already_there))
    out.print(counts)
    topics = "" if found.topics == "mnemolog" else f"MNEMOLOG_TOPICS={found.topics} "
    out.print(
        f"The log is on Kafka. Next, with a data directory of its own for every node:\n"
        f"  {topics}mnemolog serve --log {found.log} --data DIR\n"
        f"What is in {directory} is as it was: keep it as a copy, and do not serve it any more.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _locked(found: Settings, directory: Path, progress: Callable[[int, int], None]) -> Moved:
    """With the directory's lock, so that nobody writes to the store meanwhile."""
    from mnemolog.services.node.sharing.lock import DirectoryLock

    lock = DirectoryLock(directory / "lock")
    if not lock.take():
        raise fail(
            f"{directory} is in use by process {lock.holder()}; stop that server (or MCP client) "
            "first, so that nothing is written to the store while it is moved"
        )
    try:
        return asyncio.run(_move(found, directory, progress))
    finally:
        lock.release()


async def _move(found: Settings, directory: Path, progress: Callable[[int, int], None]) -> Moved:
    from mnemolog.infra.log.kafka import KafkaLog
    from mnemolog.infra.log.kafka_way import way_of
    from mnemolog.infra.log.sqlite import SqliteLog
    from mnemolog.services.node.kafka.moving import move

    assert found.brokers is not None
    way = way_of(found)
    source = SqliteLog(directory / "log.db", read_only=True)
    try:
        target = await KafkaLog.open(
            found.brokers,
            partitions=source.partitions,
            prefix=found.topics,
            replication=found.replication,
            timeout_s=found.call_timeout_s,
            way=way,
        )
        try:
            return await move(source, target, progress)
        finally:
            await target.close()
    finally:
        source.shut()
