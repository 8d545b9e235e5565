"""The authorization server whose tokens are believed, as the environment says."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from mnemolog.services.api import Unavailable

TENANT_CLAIM: Final = "tenant"


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """`resource` is this server's own URL, `audiences` who a token may be for. With no
    `tenant_claim` everybody is of `tenant`."""

    issuer: str
    resource: str
    audiences: frozenset[str]
    jwks_url: str | None = None
    introspection_url: str | None = None
    client_id: str = ""
    tenant_claim: str = TENANT_CLAIM
    tenant: str = "default"


def trusted(env: Mapping[str, str], *, resource: str | None, tenant: str) -> Trusted:
    """`resource` is what this server is reached as unless it says otherwise; None: that is unknown.
    Raises `Unavailable`."""
    issuer = _url(env, "OAUTH_ISSUER")
    if issuer is None:
        raise Unavailable(
            "--auth oauth needs OAUTH_ISSUER: the URL of the authorization server, as it is in its "
            "tokens"
        )
    resource = _url(env, "OAUTH_RESOURCE", local=False) or resource
    if resource is None:
        raise Unavailable(
            "--auth oauth needs OAUTH_RESOURCE, the URL under which clients reach this server, "
            "such as https://memory.example/mcp"
        )
    introspection = _url(env, "OAUTH_INTROSPECTION_URL")
    client_id = env.get("OAUTH_CLIENT_ID", "").strip()
    if introspection is not None and not (client_id and client_secret(env)):
        raise Unavailable(
            "OAUTH_INTROSPECTION_URL needs OAUTH_CLIENT_ID, and OAUTH_CLIENT_SECRET or "
            "OAUTH_CLIENT_SECRET_FILE"
        )
    # What is not used is looked at too: a mistake in it shows that something else is meant.
    _url(env, "OAUTH_TOKEN_URL")
    return Trusted(
        issuer=issuer,
        resource=resource,
        audiences=frozenset(env.get("OAUTH_AUDIENCE", "").replace(",", " ").split() or [resource]),
        jwks_url=_url(env, "OAUTH_JWKS_URL"),
        introspection_url=introspection,
        client_id=client_id,
        tenant_claim=env.get("OAUTH_TENANT_CLAIM", TENANT_CLAIM).strip(),
        tenant=tenant,
    )


def client_secret(env: Mapping[str, str]) -> str:
    """What this server shows at the introspection endpoint; never part of what is shown."""
    file = env.get("OAUTH_CLIENT_SECRET_FILE")
    if not file:
        return env.get("OAUTH_CLIENT_SECRET", "")
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Unavailable(f"OAUTH_CLIENT_SECRET_FILE, {file}, cannot be read: {why}") from None


def reached_at(hosts: list[str], address: str, port: int) -> str | None:
    """The URL of this server, as far as can be told: of the first name that is listed, which a
    proxy with TLS answers to, else of the address it listens on."""
    if hosts:
        return f"https://{hosts[0]}/mcp"
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        return None
    return f"http://[{address}]:{port}/mcp" if ":" in address else f"http://{address}:{port}/mcp"


def secure(url: str) -> bool:
    """Whether nobody can listen to, or change, what comes from there."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if not parts.hostname or parts.username or parts.password or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_local(parts.hostname))


def is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _url(env: Mapping[str, str], name: str, *, local: bool = True) -> str | None:
    """`local`: without TLS on this machine alone."""
    given = env.get(name, "").strip()
    if not given:
        return None
    if not (secure(given) or (not local and secure(given.replace("http://", "https://", 1)))):
        raise Unavailable(
            f"{name} has to be an https:// URL without a password or #; http:// is for this "
            "machine's own addresses alone"
        )
    return given
