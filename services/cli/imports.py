"""`mnemolog import` and `mnemolog export`."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from mnemolog.infra.settings import Settings
from mnemolog.services.api import own_files
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.cli.common import actor, catalogue, data_option, settings
from mnemolog.services.cli.moves import move_store
from mnemolog.services.cli.show import add_row, console, fail, print_json, progress_bar, table
from mnemolog.services.families.graph.answering import exports
from mnemolog.services.families.graph.importing.anthropic import write_entity, write_relation
from mnemolog.services.gateway import logs
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.identity import NAME, VERSION
from mnemolog.services.node.kafka.logs import with_its_log
from mnemolog.services.node.sharing.shared import SharedService

FORMATS = ("anthropic",)

_format_option = click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default="anthropic",
    show_default=True,
    help="anthropic: the JSON lines of Anthropic's memory server.",
)


@click.command("import", short_help="Import a file, or move a store to Kafka.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_format_option
@data_option
@click.option(
    "--from-data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Instead of a FILE: the data directory whose whole log is moved to Kafka.",
)
@click.option("--log", metavar="LOG", help="With --from-data: kafka://HOST:PORT.")
@click.option("--json", "as_json", is_flag=True, help="For programs: JSON.")
@click.pass_context
def import_(
    ctx: click.Context,
    file: Path | None,
    kind: str,
    data: str | None,
    from_data: Path | None,
    log: str | None,
    as_json: bool,
) -> None:
    """Import the memory FILE of Anthropic's memory server into the knowledge graph.

    Safe to repeat: what is known is kept once. An import that was broken off is completed.
    Works also while a server runs on the data directory. Lines that cannot be read are skipped and
    listed.

    With --from-data, move a store from its data directory to Kafka instead: every record of its log
    is copied to new topics, so ids, history and proof stay as they are. The topics get as many
    partitions as the store has. Stop the store's server first. Safe to repeat, too.

    \b
    Examples:
      mnemolog import ~/memory.jsonl
      mnemolog import memory.jsonl --data ./memory --json
      mnemolog import --from-data ./memory --log kafka://127.0.0.1:9092
    """
    if from_data is not None:
        if file is not None:
            raise click.UsageError("Give a FILE or --from-data DIR, not both")
        if data is not None or (ctx.obj or {}).get("data") is not None:
            raise click.UsageError("--from-data names the directory already: leave --data out")
        move_store(settings(ctx, log=log), from_data.expanduser(), as_json)
        return
    if file is None:
        raise click.UsageError(
            "Give the FILE to import, such as ~/memory.jsonl, or --from-data DIR"
        )
    if log is not None:
        raise click.UsageError("--log goes with --from-data; a FILE is imported into --data")
    found = settings(ctx, data=data)
    with progress_bar(f"Importing {file.name}", hidden=as_json) as progress:
        answer = asyncio.run(_import(found, catalogue(ctx), file, progress))
    if as_json:
        print_json(answer)
        ctx.exit(1 if "error" in answer or _nothing_in(answer) else 0)
    if "error" in answer:
        raise fail(str(answer["error"]))
    _show(answer)
    if _nothing_in(answer):
        raise fail(f"No line of {file.name} is an entity or a relation that can be imported")


async def _import(
    found: Settings, families: Catalogue, file: Path, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    async with _service(found, families) as calls:
        answer = await calls.call(
            "migrate", {"source_path": str(file)}, client=_CLIENT, progress=progress
        )
    return msgspec.json.decode(answer.reply, type=dict[str, Any])


def _nothing_in(answer: dict[str, Any]) -> bool:
    found = answer["entities_imported"] + answer["relations_imported"]
    return bool(answer["skipped"]) and not found


def _show(answer: dict[str, Any]) -> None:
    out = console()
    new = answer["new"]
    counts = table("", "in the file", "new")
    add_row(counts, "entities", str(answer["entities_imported"]), str(new["entities"]))
    add_row(counts, "relations", str(answer["relations_imported"]), str(new["relations"]))
    add_row(counts, "observations", "", str(new["observations"]))
    add_row(counts, "lines skipped", str(answer["skipped"]))
    add_row(counts, "observations left out", str(answer["errors"]))
    out.print(counts)
    problems = answer.get("problems", [])
    if problems:
        grid = table("line", "reason", "")
        for one in problems:
            add_row(grid, str(one["line"]), one["reason"], one["detail"])
        out.print(grid)
    more = sum(answer.get("reasons", {}).values()) - len(problems)
    if more > 0:
        reasons = ", ".join(f"{name} {count}" for name, count in answer["reasons"].items())
        out.print(f"and {more} more; in all: {reasons}", highlight=False)
    if problems:
        out.print("What was skipped or left out is in the file alone: keep it.")


@click.command("export", short_help="Write the knowledge graph to a file.")
@_format_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file, written whole or not at all.  [default: stdout]",
)
@data_option
@click.pass_context
def export(ctx: click.Context, kind: str, output: Path | None, data: str | None) -> None:
    """Write the knowledge graph as Anthropic's memory server stores it: entities, then relations.

    The format has no place for relations that were ended and for reflections: they are left out
    and counted. `mnemolog import` of the file into an empty store gives the same graph but for
    those. Works also while a server runs on the data directory.

    \b
    Examples:
      mnemolog export > memory.jsonl
      mnemolog export -o ~/memory.jsonl --data ./memory
    """
    found = with_its_log(settings(ctx, data=data))
    if found.brokers is None and not (found.data_dir / "log.db").exists():
        raise fail(f"There is no log in {found.data_dir}")
    if output is None:
        asyncio.run(_export(found, catalogue(ctx), click.get_binary_stream("stdout")))
        return
    if not output.parent.is_dir():
        raise fail(f"{output} cannot be written: there is no directory {output.parent}")
    with _whole_or_not(output) as file:
        entities, relations = asyncio.run(_export(found, catalogue(ctx), file))
    click.echo(f"{entities:,} entities and {relations:,} relations are in {output}", err=True)


async def _export(found: Settings, families: Catalogue, file: BinaryIO) -> tuple[int, int]:
    """How many entities and relations were written."""
    async with _service(found, families) as calls:
        last = entities = relations = 0
        left_out: dict[str, int] = {}
        async for page in _pages(calls, what="entities"):
            last = page["after"]
            entities += len(page["rows"])
            for row in page["rows"]:
                for line in write_entity(row["name"], row["entityType"], row["observations"]):
                    file.write(line + b"\n")
        async for page in _pages(calls, what="relations", until=last):
            left_out = page.get("left_out", {})
            relations += len(page["rows"])
            for row in page["rows"]:
                file.write(write_relation(row["from"], row["to"], row["relationType"]) + b"\n")
    file.flush()
    if any(left_out.values()):
        counts = " and ".join(f"{count:,} {what}" for what, count in left_out.items() if count)
        click.echo(f"Left out, because the format has no place for it: {counts}", err=True)
    return entities, relations


async def _pages(calls: Calls, **asked: Any) -> AsyncIterator[dict[str, Any]]:
    after, more = 0, True
    while more:
        answer = await calls.call(exports.NAME, {**asked, "after": after}, client=_CLIENT)
        page = msgspec.json.decode(answer.reply)
        if answer.refused:
            raise fail(str(page["error"]))
        after, more = page["after"], page["more"]
        yield page


@contextmanager
def _whole_or_not(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when all of it is on the disk. Who may read what is
    there may read it; a new one is its owner's."""
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
    try:
        beside.touch(0o600, exist_ok=False)
        beside.chmod(mode)
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@asynccontextmanager
async def _service(found: Settings, families: Catalogue) -> AsyncIterator[Calls]:
    """The store, in this process or through the one that has it open."""
    logs.to_stderr()
    service = SharedService(found, families)
    await service.start()
    try:
        caller = Caller(tenant=found.tenant, actor=actor(found))
        yield Calls(service, caller, files=own_files(), internal=True)
    finally:
        await service.close()


_CLIENT = f"{NAME}-cli/{VERSION}"
