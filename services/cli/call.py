"""`mnemolog call TOOL JSON`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import click
import msgspec

from mnemolog.infra.settings import Settings
from mnemolog.services.api import Answer, Unavailable, own_files
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.cli.common import actor, catalogue, data_option, log_option, settings
from mnemolog.services.gateway.identity import NAME, VERSION


@click.command(short_help="Call one tool and print its reply.")
@click.argument("tool")
@click.argument("arguments", metavar="[JSON]", default="{}")
@data_option
@log_option
@click.option("--url", metavar="URL", help="A running server, such as http://127.0.0.1:3000.")
@click.option("--actor", "who", metavar="NAME", help="Who is recorded as the caller.")
@click.option("--idempotency-key", metavar="KEY", help="The same key again: the call happens once.")
@click.option("--json", "compact", is_flag=True, help="One line of JSON, also on a terminal.")
@click.pass_context
def call(
    ctx: click.Context,
    tool: str,
    arguments: str,
    data: str | None,
    log: str | None,
    url: str | None,
    who: str | None,
    idempotency_key: str | None,
    compact: bool,
) -> None:
    """Call TOOL with the arguments in JSON (`-`: from stdin) and print its reply.

    Works on the data directory, also while a server runs on it, or through a server's --url, with
    the key or token in MNEMOLOG_KEY if it wants one. The exit code is 1 when the call was refused.

    \b
    Examples:
      mnemolog call learn '{"insight": "grip_force=12.5N is best for cups"}'
      mnemolog call recall '{"query": "cups", "n": 3}' --json
      echo '{"query": "cups"}' | mnemolog call recall - --url http://127.0.0.1:3000
    """
    found = settings(ctx, data=data, log=log, actor=who)
    text = sys.stdin.read() if arguments == "-" else arguments
    try:
        given = json.loads(text)
    except ValueError as error:
        raise click.ClickException(f"JSON holds no valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise click.ClickException('JSON must be an object, such as {"query": "cups"}')
    key = os.environ.get("MNEMOLOG_KEY") if url is not None else None
    # Who has a key is known by it, and may not be who is logged in.
    name = found.actor if key else actor(found)
    meta = {"actor": name} if name else {}
    if idempotency_key is not None:
        meta["idempotency_key"] = idempotency_key
    if url is None:
        answer = asyncio.run(_call_here(found, catalogue(ctx), tool, given, meta))
    else:
        answer = _call_there(url, found.call_timeout_s, tool, given, meta, key)
    reply = msgspec.json.decode(answer.reply)
    indent = 2 if sys.stdout.isatty() and not compact else None
    click.echo(json.dumps(reply, ensure_ascii=False, indent=indent))
    if answer.refused:
        ctx.exit(1)


async def _call_here(
    found: Settings,
    families: Catalogue,
    tool: str,
    arguments: dict[str, Any],
    meta: dict[str, str],
) -> Answer:
    from mnemolog.services.gateway import logs
    from mnemolog.services.gateway.caller import Caller
    from mnemolog.services.gateway.calls import Calls
    from mnemolog.services.node.sharing.shared import SharedService

    logs.to_stderr()
    service = SharedService(found, families)
    await service.start()
    try:
        return await Calls(service, Caller(tenant=found.tenant), files=own_files()).call(
            tool, arguments, meta, f"{NAME}-cli/{VERSION}"
        )
    finally:
        await service.close()


def _call_there(
    url: str,
    timeout_s: float,
    tool: str,
    arguments: dict[str, Any],
    meta: dict[str, str],
    key: str | None,
) -> Answer:
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Here(HTTPRedirectHandler):
        """Nobody is sent elsewhere: the key would go along."""

        def redirect_request(self, *_: Any) -> None:
            return None

    if not url.startswith(("http://", "https://")):
        raise click.ClickException("--url must begin with http:// or https://")
    place = url.rstrip("/").removesuffix("/mcp") + "/mcp"
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Content-Type": "application/json", "User-Agent": f"{NAME}-cli/{VERSION}"}
    if key:
        if not (key.isascii() and key.isprintable()):
            raise click.ClickException("MNEMOLOG_KEY holds no key: it has characters no key has")
        headers["Authorization"] = f"Bearer {key}"
    asked = Request(place, json.dumps(body).encode(), headers)
    try:
        with build_opener(Here).open(asked, timeout=timeout_s) as told:
            data = told.read()
    except HTTPError as error:
        data = error.read()
    except (URLError, TimeoutError) as error:
        raise Unavailable(f"{place} does not answer: {getattr(error, 'reason', error)}") from None
    return _answer(place, data)


def _answer(place: str, data: bytes) -> Answer:
    try:
        message = json.loads(data)
        if "error" in message:
            error = message["error"]
            reply = {"error": error["message"], **(error.get("data") or {})}
            return Answer(reply=msgspec.json.encode(reply), refused=True, code=error["code"])
        result = message["result"]
        return Answer(
            reply=msgspec.json.encode(result["structuredContent"]), refused=result["isError"]
        )
    except (ValueError, TypeError, KeyError):
        text = data[:200].decode(errors="replace").strip()
        raise Unavailable(f"{place} is no Mnemolog server; it answered: {text}") from None
