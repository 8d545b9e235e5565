"""`mnemolog`: the subcommands by name, and how an error is told."""

from __future__ import annotations

import importlib
import sys

import click

from mnemolog.infra.directory import close_to_others
from mnemolog.services.cli.common import data_option
from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway.identity import VERSION
from mnemolog.services.listed import Families

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("serve:serve", "Serve MCP over HTTP."),
    "stdio": (
        "stdio:stdio",
        "Serve MCP over stdin and stdout, for one client.",
    ),
    "call": ("call:call", "Call one tool and print its reply."),
    "audit": ("audit:audit", "Show and verify what happened."),
    "import": ("imports:import_", "Import a file, or move a store to Kafka."),
    "export": ("imports:export", "Write the knowledge graph to a file."),
    "rebuild": ("rebuild:rebuild", "Build everything anew from the log."),
    "keys": ("keys:keys", "Add, list and revoke API keys."),
    "models": ("models:models", "List and fetch embedding models."),
}
"""Name: where the click command is, and its line in the overview. A subcommand is imported only
when it is run, so that `mnemolog stdio` does not pay for what the others need."""


class Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(f"mnemolog.services.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="mnemolog")
@data_option
@click.pass_context
def cli(ctx: click.Context, data: str | None) -> None:
    """Memory for agents and robots, in which every call is an event on a log.

    \b
    Examples:
      mnemolog serve --port 3000
      mnemolog --data ./memory stdio
      mnemolog call learn '{"insight": "grip_force=12.5N is best for cups"}'
      mnemolog call recall '{"query": "how hard to grip a cup"}'
    """
    if ctx.invoked_subcommand != "models":  # Models are no secret, and may be shared.
        close_to_others()
    ctx.obj = {"families": FAMILIES, **(ctx.obj or {}), "data": data}


def main(families: Families = FAMILIES) -> None:
    """The entry point, for a service with these families. Whatever goes wrong is one sentence on
    stderr, and exit code 1."""
    try:
        cli(prog_name="mnemolog", obj={"families": families})
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        click.echo(f"Error: {_sentence(error)}", err=True)
        sys.exit(1)


def _sentence(error: Exception) -> str:
    from mnemolog.infra.settings import SettingsError
    from mnemolog.services.api import Unavailable

    if isinstance(error, (SettingsError, Unavailable)):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{place}"
    return f"Something went wrong inside mnemolog: {type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
