"""What the subcommands share: the data directory, the settings, and who is calling."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mnemolog.infra.settings import Settings, load
from mnemolog.services.listed import Families

if TYPE_CHECKING:
    from mnemolog.services.catalogue import Catalogue

F = TypeVar("F", bound=Callable[..., Any])


def data_option(command: F) -> F:
    """`--data DIR` after the subcommand; before it works too."""
    return click.option("--data", metavar="DIR", help="Data directory.  [default: the user's own]")(
        command
    )


def log_option(command: F) -> F:
    """`--log`, for commands that work on a store wherever its log is."""
    return click.option(
        "--log", metavar="LOG", help="kafka://HOST:PORT; a node's own directory knows it."
    )(command)


def settings(ctx: click.Context, **flags: Any) -> Settings:
    """The settings in force. A flag after the subcommand wins over one before it."""
    before = ctx.obj["data"]
    after = {name: value for name, value in flags.items() if value is not None}
    return load({"data": before, **after})


def families(ctx: click.Context) -> Families:
    """The tool families that this command line is for."""
    found: Families = ctx.obj["families"]
    return found


def catalogue(ctx: click.Context) -> Catalogue:
    """Those families, put together once a command."""
    from mnemolog.services.catalogue import load as whole

    if "catalogue" not in ctx.obj:
        ctx.obj["catalogue"] = whole(families(ctx))
    found: Catalogue = ctx.obj["catalogue"]
    return found


def actor(of: Settings) -> str:
    """Who calls from this process are recorded as."""
    if of.actor:
        return of.actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
