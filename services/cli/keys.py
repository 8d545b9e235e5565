"""`mnemolog keys`: who may ask a server that runs with --auth keys."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from mnemolog.infra.directory import own_directory
from mnemolog.infra.settings import Settings
from mnemolog.services.cli.common import data_option, settings
from mnemolog.services.cli.show import add_row, console, fail, print_json, table
from mnemolog.services.gateway.auth import key_file
from mnemolog.services.gateway.auth.key_file import Key, KeysProblem
from mnemolog.services.scopes import READ, SCOPES, WRITE

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
@data_option
@click.pass_context
def keys(ctx: click.Context, data: str | None) -> None:
    """API keys of `mnemolog serve --auth keys`: add, list and revoke them.

    A server takes every change up with the next request.

    \b
    Examples:
      mnemolog keys add robot-7
      mnemolog keys add planner --tenant lab --scopes memory:read --expires 90d
      mnemolog keys list
      mnemolog keys revoke robot-7
    """
    if data is not None:
        ctx.obj["data"] = data


@keys.command("add")
@click.argument("name")
@click.option("--tenant", metavar="NAME", help="Whose memory it opens.  [default: default]")
@click.option(
    "--scopes",
    metavar="LIST",
    default=f"{READ},{WRITE}",
    show_default=True,
    help="What it allows: memory:read, memory:write, memory:admin.",
)
@click.option(
    "--expires", metavar="WHEN", help="90d, 12h, or a date (UTC) from which on it is refused."
)
@click.option("--speaks-for", metavar="LIST", help="Others whose name its calls may give.")
@_json_option
@data_option
@click.pass_context
def add(
    ctx: click.Context,
    name: str,
    tenant: str | None,
    scopes: str,
    expires: str | None,
    speaks_for: str | None,
    as_json: bool,
    data: str | None,
) -> None:
    """Make a key for NAME and print it, this once: what is kept is a hash.

    Calls with the key are recorded as NAME's; they may also be those of NAME/ANYTHING, and of whom
    --speaks-for names. A name can be given again when its key was revoked or has expired.

    \b
    Examples:
      mnemolog keys add robot-7
      mnemolog keys add fleet --speaks-for robot-1,robot-2 --expires 2027-01-01
    """
    found = settings(ctx, data=data, tenant=tenant)
    key, id_ = key_file.new_key()
    now = datetime.now(UTC).replace(microsecond=0)
    made = _made(
        name=name,
        id=id_,
        sha256=key_file.hashed(key),
        tenant=found.tenant,
        scopes=_listed(scopes),
        speaks_for=_listed(speaks_for or ""),
        created=now,
        expires=None if expires is None else _expiry(expires, now),
    )

    def added(known: list[Key]) -> list[Key]:
        if any(one.name == name and one.state(now) == "active" for one in known):
            raise fail(f"{name} has a key: revoke it first, or take another name")
        return [*(one for one in known if one.name != name), made]

    _change(found, added)
    if as_json:
        print_json({"key": key, **_shown(made, now)})
        return
    click.echo(key)
    click.echo(
        f"This is the key of {name}; it is shown this once. Clients send it as "
        "`Authorization: Bearer KEY`, `mnemolog call --url` from the variable MNEMOLOG_KEY",
        err=True,
    )


@keys.command("list")
@_json_option
@data_option
@click.pass_context
def list_keys(ctx: click.Context, as_json: bool, data: str | None) -> None:
    """Show the keys there are, without what they are known by.

    \b
    Examples:
      mnemolog keys list
      mnemolog keys list --json
    """
    now = datetime.now(UTC)
    try:
        _, found = key_file.read(settings(ctx, data=data).keys_path)
    except KeysProblem as problem:
        raise fail(str(problem)) from None
    rows = [_shown(key, now) for key in sorted(found, key=lambda key: (key.tenant, key.name))]
    if as_json:
        print_json({"keys": rows})
        return
    grid = table("name", "tenant", "scopes", "speaks for", "created", "expires", "state")
    for row in rows:
        cells = (
            row["name"],
            row["tenant"],
            ", ".join(row["scopes"]),
            ", ".join(row["speaks_for"]),
            *("" if row[at] is None else f"{row[at]:%Y-%m-%d %H:%M}" for at in _TIMES),
            row["state"],
        )
        add_row(grid, *cells)
    console().print(grid)


@keys.command("revoke")
@click.argument("name")
@_json_option
@data_option
@click.pass_context
def revoke(ctx: click.Context, name: str, as_json: bool, data: str | None) -> None:
    """Refuse the key of NAME from the next request on.

    \b
    Examples:
      mnemolog keys revoke robot-7
    """
    now = datetime.now(UTC).replace(microsecond=0)

    def revoked(known: list[Key]) -> list[Key]:
        if all(one.name != name for one in known):
            raise fail(f"There is no key of {name[:80]!r}: `mnemolog keys list` shows all")
        return [
            msgspec.structs.replace(one, revoked=one.revoked or now) if one.name == name else one
            for one in known
        ]

    _change(settings(ctx, data=data), revoked)
    if as_json:
        print_json({"revoked": name})
    else:
        click.echo(f"The key of {name} is revoked")


_TIMES = ("created", "expires")


def _shown(key: Key, now: datetime) -> dict[str, Any]:
    return {
        "name": key.name,
        "tenant": key.tenant,
        "scopes": key.scopes,
        "speaks_for": key.speaks_for,
        "created": key.created,
        "expires": key.expires,
        "revoked": key.revoked,
        "state": key.state(now),
    }


def _made(**fields: Any) -> Key:
    """Held to what the file is held to."""
    try:
        return msgspec.convert(fields, Key)
    except msgspec.ValidationError as error:
        field = str(error).partition("`$.")[2].partition("`")[0].partition("[")[0]
        wrong = {
            "name": "A name has letters, digits and . _ @ - /, begins with a letter or digit, and "
            f"has at most {key_file.MAX_NAME} characters",
            "scopes": f"--scopes takes some of {', '.join(SCOPES)}, separated by commas",
            "speaks_for": f"--speaks-for takes at most {key_file.MAX_SPOKEN_FOR} names of at most "
            f"{key_file.MAX_NAME} characters, separated by commas",
        }
        raise fail(wrong.get(field, f"This cannot be: {error}")) from None


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(one for one in map(str.strip, text.split(",")) if one))


def _expiry(written: str, now: datetime) -> datetime:
    try:
        return key_file.expiry(written, now)
    except (ValueError, OverflowError):
        raise fail(
            "--expires takes days (90d), hours (12h), or a date or time to come (2027-01-31), "
            f"not {written[:40]!r}"
        ) from None


def _change(found: Settings, of: Any) -> None:
    path: Path = found.keys_path
    if path.parent == found.data_dir.absolute():
        own_directory(path.parent)
    try:
        key_file.change(path, of)
    except KeysProblem as problem:
        raise fail(str(problem)) from None
