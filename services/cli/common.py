"""What the subcommands share: the data directory, the settings, and who is calling."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mnemolog.infra.settings import ENV_CONFIG, FILE_NAME, Settings, load, user_config
from mnemolog.services.listed import Families

if TYPE_CHECKING:
    from mnemolog.services.catalogue import Catalogue

F = TypeVar("F", bound=Callable[..., Any])


def data_option(command: F) -> F:
    """`--data DIR` and `--config FILE` after the subcommand; before it they work too."""
    return config_option(
        click.option("--data", metavar="DIR", help="Data directory.  [default: the user's own]")(
            command
        )
    )


def config_option(command: F) -> F:
    """`--config FILE`, kept for `settings`."""

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(dict)["config"] = value

    return click.option(
        "--config",
        metavar="FILE",
        expose_value=False,
        callback=keep,
        help="Settings, as TOML.  [default: the user's own]",
    )(command)


def log_option(command: F) -> F:
    """`--log`, for commands that work on a store wherever its log is."""
    return click.option(
        "--log", metavar="LOG", help="kafka://HOST:PORT; a node's own directory knows it."
    )(command)


def settings(ctx: click.Context, **flags: Any) -> Settings:
    """The settings in force. A flag after the subcommand wins over one before it."""
    before, config = ctx.obj["data"], ctx.obj.get("config")
    if config is None and not os.environ.get(ENV_CONFIG):
        _mention_unread()
    after = {name: value for name, value in flags.items() if value is not None}
    return load({"data": before, **after}, config)


def _mention_unread() -> None:
    """Whoever counts on a file beside them should hear that it says nothing here."""
    here, own = Path(FILE_NAME), user_config()
    if here.is_file() and not (own is not None and own.exists() and here.samefile(own)):
        always = "" if own is None else f"; the settings for all your work go to {own}"
        click.echo(
            f"{FILE_NAME} in the working directory is not read. To use it: --config {FILE_NAME}, "
            f"or {ENV_CONFIG}{always}",
            err=True,
        )


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
