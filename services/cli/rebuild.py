"""`mnemolog rebuild`: the projections made anew from the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import click
import msgspec

from mnemolog.events.log import LogError
from mnemolog.infra.settings import Settings
from mnemolog.projections.ports import IndexDamaged, VectorsAway
from mnemolog.projections.state.store import StateError
from mnemolog.services.api import Unavailable
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.cli.common import catalogue, data_option, log_option
from mnemolog.services.cli.common import settings as settings_of
from mnemolog.services.cli.show import console, fail, print_json, progress_bar
from mnemolog.services.node.embedding.embedding import model_of
from mnemolog.services.node.following.rebuild import Report, rebuild_offline
from mnemolog.services.node.kafka.logs import with_its_log
from mnemolog.services.node.sharing.guest import Guest, HolderLost
from mnemolog.services.node.sharing.holder import DirectoryLock


@click.command(
    epilog="\b\nExamples:\n  mnemolog rebuild --verify\n  mnemolog rebuild --data ./store --json"
)
@click.option("--verify", is_flag=True, help="Only compare: build anew, compare, switch nothing.")
@click.option(
    "--accept-log",
    is_flag=True,
    help="Take the log as it is, though the projections were made from more; they are kept.",
)
@data_option
@log_option
@click.option("--json", "as_json", is_flag=True, help="For programs: JSON.")
@click.pass_context
def rebuild(
    ctx: click.Context,
    verify: bool,
    accept_log: bool,
    data: str | None,
    log: str | None,
    as_json: bool,
) -> None:
    """Make state, text and vectors anew from the log and switch over to them.

    Works on a running service too, which goes on answering meanwhile. With --verify nothing is
    switched: what is live is compared with what the log says, part by part.
    """
    settings = with_its_log(settings_of(ctx, data=data, log=log))
    if settings.brokers is None and not (settings.data_dir / "log.db").exists():
        raise fail(f"There is no log in {settings.data_dir}")
    with progress_bar("Rebuilding", hidden=as_json) as progress:
        try:
            report = _rebuild(settings, catalogue(ctx), verify, accept_log, progress)
        except (LogError, StateError, IndexDamaged, VectorsAway, Unavailable) as error:
            raise fail(str(error)) from None
    if as_json:
        print_json(report)
    else:
        out = console()
        out.print(f"{report.decisions} decisions, {report.parts} parts")
        out.print(f"state hash {report.state_hash}")
        for name in report.differences:
            out.print(f"[red]differs:[/red] {name}", highlight=False)
        if report.verified and not report.differences:
            out.print("What is live equals a rebuild from nothing.")
        elif not report.verified:
            out.print("The projections were made anew and switched over.")
    if report.differences:
        ctx.exit(1)


def _rebuild(
    settings: Settings,
    families: Catalogue,
    verify: bool,
    accept_log: bool,
    progress: Callable[[int, int], None],
) -> Report:
    """Here when nobody has the store open, else through the process that has."""
    lock = DirectoryLock(settings.data_dir / "lock")
    deadline = time.monotonic() + settings.call_timeout_s
    while time.monotonic() < deadline:
        if lock.take():
            try:
                model = model_of(settings)
                return rebuild_offline(
                    settings, families.projected, model, verify, progress, accept_log=accept_log
                )
            finally:
                lock.release()
        report = asyncio.run(_through_holder(settings, verify, progress))
        if report is not None:
            return report
        time.sleep(0.1)
    raise Unavailable(
        f"{settings.data_dir} is held by process {lock.holder()}, which does not answer"
    )


async def _through_holder(
    settings: Settings, verify: bool, progress: Callable[[int, int], None]
) -> Report | None:
    """None when nobody answers: the holder is just starting, or just ending."""
    guest = await Guest.connect(settings.data_dir)
    if guest is None:
        return None
    try:
        return msgspec.convert(await guest.rebuild(verify, progress), Report)
    except HolderLost:
        raise Unavailable("The process that holds the data directory ended meanwhile") from None
    finally:
        await guest.close()
