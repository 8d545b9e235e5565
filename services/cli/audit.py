"""`mnemolog audit`: who taught the robot this, when, and is the log whole."""

from __future__ import annotations

import functools
import itertools
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from rich.markup import escape

from mnemolog.events.log import LogError
from mnemolog.infra.settings import Settings
from mnemolog.projections.state.view import View
from mnemolog.projections.times import iso
from mnemolog.services import audit as audits
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.cli.common import catalogue, data_option, log_option
from mnemolog.services.cli.common import settings as settings_of
from mnemolog.services.cli.show import (
    add_row,
    console,
    fail,
    print_json,
    progress_bar,
    table,
    visible,
)
from mnemolog.services.node.following.follow import ReadableLog
from mnemolog.services.node.kafka.logs import reading
from mnemolog.services.told import FactRow, Thing, life_of
from mnemolog.services.verifying import MIN_HEAD, Known, PartitionReport, readable_head
from mnemolog.services.verifying import verify as walk

JSON = click.option("--json", "as_json", is_flag=True, help="For programs: JSON.")


@click.group()
def audit() -> None:
    """Look into the log: the life of a memory, the calls, and whether anything was changed."""


@audit.command(
    epilog="\b\nExamples:\n  mnemolog audit show 42\n  mnemolog audit show 'entity:My Project'\n"
    "  mnemolog audit show relation:7 --json --data ./store"
)
@click.argument("thing", metavar="ID")
@data_option
@log_option
@JSON
@click.pass_context
def show(ctx: click.Context, thing: str, data: str | None, log: str | None, as_json: bool) -> None:
    """The life of a thing: every call that touched it, who made it, when, and what changed.

    ID is a memory's number, entity:NAME, relation:NUMBER, reflection:NUMBER, episode:UUID or
    pattern:NUMBER. What was deleted has a life, too. What became of a relation is part of the lives
    of both its entities, and of a relationship of both its episodes.
    """
    asked = _thing(catalogue(ctx), thing)
    store = _open(ctx, data, log)
    settings = store.settings
    view = _state(store, asked.partition(settings.tenant, store.log.partitions))
    if view is None:
        raise fail(f"There is no state in {settings.data_dir} yet; `mnemolog rebuild` makes it")
    with view.moment():
        found, life = _life(store, view, asked)
        standing = found.standing(view)
    if not life:
        raise fail(f"{found} does not exist in {settings.data_dir}")
    if as_json:
        value = found.value if standing is None else standing.value
        print_json({found.kind: value, "life": life})
        return
    out = console()
    out.print(visible(str(found)), markup=False)
    if standing is not None:
        for line in standing.lines:
            out.print(visible(line), markup=False)
        out.print()
    grid = table("when (UTC)", "call, and whose", "what happened")
    for one in life:
        changes = [*one["changes"], *([f"because: {one['why']}"] if one["why"] else [])]
        add_row(grid, one["at"], f"{one['tool']}\n{one['who']}", "\n".join(changes))
    out.print(grid)


@audit.command(
    "log",
    epilog="\b\nExamples:\n  mnemolog audit log\n  mnemolog audit log --refused --last 50 --json",
)
@click.option("--last", default=20, type=click.IntRange(1, 10_000), help="How many calls.")
@click.option("--refused", is_flag=True, help="Only the calls that were refused.")
@data_option
@log_option
@JSON
@click.pass_context
def log_(
    ctx: click.Context,
    last: int,
    refused: bool,
    data: str | None,
    log: str | None,
    as_json: bool,
) -> None:
    """The newest calls on the log, with their outcome."""
    store = _open(ctx, data, log)
    found: list[tuple[int, audits.Entry]] = []
    for partition in range(store.log.partitions):
        view = _state(store, partition)
        void = frozenset[int]() if view is None else view.voids()
        facts = store.families.projected.facts
        newest = audits.latest(store.log, facts, partition, void, refused_only=refused)
        found += [(partition, one) for one in itertools.islice(newest, last)]
    found = sorted(found, key=lambda one: -one[1].at_us)[:last]
    if as_json:
        print_json([_row(partition, one) for partition, one in found])
        return
    grid = table("when (UTC)", "call, and whose", "outcome")
    for partition, one in found:
        row = _row(partition, one)
        changed = ", ".join(fact.split(".")[-1].replace("_", " ") for fact in row["facts"])
        outcome = f"refused: {row['error']}" if row["refused"] else changed or "-"
        call = f"{row['tool']} {row['arguments'][:80]}\n{row['who']}"
        add_row(grid, row["at"], call, outcome)
    console().print(grid)


@audit.command(
    epilog="\b\nExamples:\n  mnemolog audit verify --data ./store\n"
    "  mnemolog audit verify --data ./backup --expect-head 5d41c9f0a3b2e871"
)
@click.option(
    "--expect-head",
    "expected",
    multiple=True,
    metavar="HASH",
    help="A head noted earlier, which must be on the chain; several: repeat it.",
)
@data_option
@log_option
@JSON
@click.pass_context
def verify(
    ctx: click.Context,
    expected: tuple[str, ...],
    data: str | None,
    log: str | None,
    as_json: bool,
) -> None:
    """Walk the chain of decisions: tells whether a record was changed, removed or swapped.

    What comes after the last decision that the state beside the log has seen, or after a head that
    you noted earlier, nothing vouches for: note the heads that are shown, elsewhere, and give them
    with --expect-head.
    """
    store = _open(ctx, data, log)
    known: dict[int, Known] = {}
    for partition in range(store.log.partitions):
        view = _state(store, partition)
        if view is not None:
            known[partition] = Known(*view.head())
    try:
        heads = [readable_head(one) for one in expected]
        with progress_bar("Verifying", hidden=as_json) as progress:
            reports = walk(store.log, known, progress, expected=heads)
    except LogError as error:
        raise fail(str(error)) from None
    whole = not any(report.problems for report in reports)
    if as_json:
        print_json({"whole": whole, "partitions": [msgspec.to_builtins(one) for one in reports]})
    else:
        _print_verified(reports, whole, vouched=bool(expected) or len(known) == len(reports))
    if not whole:
        ctx.exit(1)


def _print_verified(reports: list[PartitionReport], whole: bool, *, vouched: bool) -> None:
    out = console()
    grid = table("partition", "calls", "decisions", "counting", "void", "refused", "head")
    for one in reports:
        numbers = (one.partition, one.calls, one.decisions, one.counting, one.void, one.refused)
        add_row(grid, *[str(number) for number in numbers], one.head[:MIN_HEAD])
    out.print(grid)
    for one in reports:
        for problem in one.problems:
            out.print(f"[red]partition {one.partition}:[/red] {escape(visible(problem))}")
        for note in one.notes:
            out.print(f"[yellow]partition {one.partition}:[/yellow] {note}")
    out.print("The log is whole." if whole else "[bold red]The log is not whole.[/bold red]")
    if whole and not vouched:
        out.print(
            "There is no state beside it: whether its end was cut off cannot be told. Note its "
            "heads now, and give them with --expect-head."
        )


class _Store(NamedTuple):
    families: Catalogue
    settings: Settings
    log: ReadableLog
    projections: Path


def _open(ctx: click.Context, data: str | None, log: str | None) -> _Store:
    settings = settings_of(ctx, data=data, log=log)
    try:
        return _Store(catalogue(ctx), settings, *ctx.with_resource(reading(settings)))
    except (LogError, sqlite3.Error) as error:
        raise fail(f"{error}. Nothing was recorded in {settings.data_dir} yet?") from None


def _state(store: _Store, partition: int) -> View | None:
    path = store.projections / "projections" / "state" / f"p{partition:04d}.db"
    if not path.exists():
        return None
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    return View(connection, partition, store.log.partitions)


def _thing(families: Catalogue, text: str) -> Thing:
    """What `audit show` was asked for; a number alone is a thing of the first kind there is."""
    first = next(iter(families.things), "")
    kind, _, rest = text.partition(":") if ":" in text else (first, ":", text)
    known = families.things.get(kind)
    thing = None if known is None else known.read(rest)
    if thing is None:
        usages = ", ".join(one.usage for one in families.things.values())
        raise click.BadParameter(
            f"{text!r} is no id: give a {first}'s number, or one of {usages}", param_hint="ID"
        )
    return thing


def _who(entry: audits.Entry) -> str:
    return " via ".join(part for part in (entry.call.actor, entry.call.client) if part) or "unknown"


def _row(partition: int, entry: audits.Entry) -> dict[str, Any]:
    reply = entry.reply
    return {
        "at": iso(entry.at_us),
        "partition": partition,
        "call": entry.decision.call_offset,
        "call_id": entry.call.id,
        "who": _who(entry),
        "tool": entry.call.tool or "(unreadable)",
        "arguments": entry.call.arguments.decode("utf-8", "replace"),
        "refused": entry.decision.refused,
        "error": reply.get("error", "") if isinstance(reply, dict) else "",
        "facts": [fact["fact"] for fact in entry.facts],
        "trace": _trace(entry),
    }


def _trace(entry: audits.Entry) -> dict[str, str] | None:
    """What of its caller's the call belonged to."""
    trace = entry.call.trace
    return None if trace is None else {"parent": trace.parent, "state": trace.state}


def _life(store: _Store, view: View, thing: Thing) -> tuple[Thing, list[dict[str, Any]]]:
    """What happened to `thing`, oldest first."""
    void, facts = view.voids(), store.families.projected.facts

    @functools.cache
    def entry(offset: int) -> audits.Entry | None:
        return audits.entry_of(store.log, facts, view.partition, offset, void)

    def facts_at(offset: int) -> list[FactRow]:
        found = entry(offset)
        return [] if found is None else found.facts

    thing, calls = life_of(view, store.settings.tenant, thing, facts_at)
    return thing, [_told(one, thing) for one in map(entry, calls) if one is not None]


def _told(entry: audits.Entry, thing: Thing) -> dict[str, Any]:
    facts = [thing.explained(fact) for fact in entry.facts if thing.concerns(fact)]
    why = next((str(fact["reason"]) for fact in facts if "reason" in fact), "")
    return {
        "at": iso(entry.at_us),
        "who": _who(entry),
        "actor": entry.call.actor,
        "client": entry.call.client,
        "tool": entry.call.tool,
        "call_id": entry.call.id,
        "call": entry.decision.call_offset,
        "changes": [thing.sentence(fact) for fact in facts],
        "why": why,
        "facts": facts,
        "trace": _trace(entry),
    }
