"""`mnemolog serve`."""

from __future__ import annotations

import click

from mnemolog.services.cli.common import data_option, families, settings


@click.command(short_help="Serve MCP over HTTP.")
@data_option
@click.option("--host", metavar="NAME", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0: any.  [default: 3000]")
@click.option("--tls-cert", metavar="FILE", help="Serve https with this certificate, in PEM.")
@click.option("--tls-key", metavar="FILE", help="Its key, which only this user may read.")
@click.option("--auth", metavar="HOW", help="none, keys or oauth.  [default: none]")
@click.option("--insecure", is_flag=True, default=None, help="Serve a network without --auth.")
@click.option("--allowed-hosts", metavar="LIST", help="Names it may be asked under.")
@click.option("--log", metavar="LOG", help="sqlite, or kafka://HOST:PORT.  [default: sqlite]")
@click.option("--role", metavar="LIST", help="On Kafka: gateway, decider and/or projector.")
@click.option("--import-dir", metavar="DIR", help="For `migrate`.  [default: import in the data]")
@click.option("--partitions", type=click.IntRange(1), help="Of a new log; fixed from then on.")
@click.option("--toolsets", metavar="LIST", help="Tool families, e.g. robot,graph.  [default: all]")
@click.option("--read-only", is_flag=True, default=None, help="Offer only tools that read.")
@click.option("--vectors", metavar="URL", help="A Qdrant server.  [default: edge, in process]")
@click.option("--model", metavar="NAME", help="Embedding model, or none for search by words alone.")
@click.pass_context
def serve(
    ctx: click.Context,
    data: str | None,
    host: str | None,
    port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    auth: str | None,
    insecure: bool | None,
    allowed_hosts: str | None,
    log: str | None,
    role: str | None,
    import_dir: str | None,
    partitions: int | None,
    toolsets: str | None,
    read_only: bool | None,
    vectors: str | None,
    model: str | None,
) -> None:
    """Serve MCP over HTTP: POST /mcp, GET /events, /healthz, /readyz, /livez, /metrics.

    \b
    Examples:
      mnemolog serve
      mnemolog serve --data ./memory --port 3001
      mnemolog serve --model none
      mnemolog serve --log kafka://127.0.0.1:9092
      mnemolog serve --log kafka://127.0.0.1:9092 --role gateway --vectors http://127.0.0.1:6333
    """
    from mnemolog.services.gateway.http import run

    run(
        settings(
            ctx,
            data=data,
            host=host,
            port=port,
            tls_cert=tls_cert,
            tls_key=tls_key,
            auth=auth,
            insecure=insecure,
            allowed_hosts=allowed_hosts,
            log=log,
            role=role,
            import_dir=import_dir,
            partitions=partitions,
            toolsets=toolsets,
            read_only=read_only,
            vectors=vectors,
            model=model,
        ),
        families(ctx),
    )
