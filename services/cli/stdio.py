"""`mnemolog stdio`."""

from __future__ import annotations

import os

import click

from mnemolog.services.cli.common import actor, data_option, families, log_option, settings


@click.command(short_help="Serve MCP over stdin and stdout.")
@data_option
@log_option
@click.option("--toolsets", metavar="LIST", help="Tool families, e.g. robot,graph.  [default: all]")
@click.option("--read-only", is_flag=True, default=None, help="Offer only tools that read.")
@click.option("--model", metavar="NAME", help="Embedding model, or none for search by words alone.")
@click.pass_context
def stdio(
    ctx: click.Context,
    data: str | None,
    log: str | None,
    toolsets: str | None,
    read_only: bool | None,
    model: str | None,
) -> None:
    """Serve MCP over stdin and stdout, for one client.

    Several may run on the same data directory: they work through the first of them, and one of
    the others takes over when it ends.

    \b
    Examples:
      mnemolog stdio
      mnemolog stdio --data ./memory
    \b
    In an MCP client's configuration:
      {"mcpServers": {"memory": {"command": "mnemolog", "args": ["stdio"]}}}
    """
    from mnemolog.services.gateway.stdio import run

    found = settings(ctx, data=data, log=log, model=model, toolsets=toolsets, read_only=read_only)
    if os.environ.get("MEMORY_FILE_PATH"):
        click.echo(
            "MEMORY_FILE_PATH is not used. `mnemolog import FILE --data DIR` brings such a file "
            "over; files that are to stay apart need a --data DIR each",
            err=True,
        )
    run(found, actor(found), families(ctx))
