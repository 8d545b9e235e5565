"""What the subcommands share: the data directory, the settings, and who is calling."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mnemolog.infra.settings import Settings, load

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
    before = {name: value for name, value in (ctx.obj or {}).items() if value is not None}
    after = {name: value for name, value in flags.items() if value is not None}
    return load({**before, **after})


def actor(of: Settings) -> str:
    """Who calls from this process are recorded as."""
    if of.actor:
        return of.actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
