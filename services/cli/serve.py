"""`mnemolog serve`."""

from __future__ import annotations

import click

from services.cli.common import data_option, settings


@click.command(short_help="Serve MCP over HTTP.")
@data_option
@click.option("--host", metavar="NAME", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0: any.  [default: 3000]")
@click.option("--import-dir", metavar="DIR", help="For `migrate`.  [default: import in the data]")
@click.option("--partitions", type=click.IntRange(1), help="Of a new log; fixed from then on.")
@click.option("--toolsets", metavar="LIST", help="Tool families, e.g. robot,graph.  [default: all]")
@click.option("--model", metavar="NAME", help="Embedding model, or none for search by words alone.")
@click.pass_context
def serve(
    ctx: click.Context,
    data: str | None,
    host: str | None,
    port: int | None,
    import_dir: str | None,
    partitions: int | None,
    toolsets: str | None,
    model: str | None,
) -> None:
    """Serve MCP over HTTP: POST /mcp, GET /healthz, GET /metrics.

    \b
    Examples:
      mnemolog serve
      mnemolog serve --data ./memory --port 3001
      mnemolog serve --model none
    """
    from services.gateway.http import run

    run(
        settings(
            ctx,
            data=data,
            host=host,
            port=port,
            import_dir=import_dir,
            partitions=partitions,
            toolsets=toolsets,
            model=model,
        )
    )
