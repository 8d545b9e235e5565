"""Under which names the service may be asked, and from which pages.

A web page can have its own name point at this machine; its requests then come from the user's own
browser. What gives it away is the name that it asks for. So a name counts only if it is known to
mean this service: an address cannot be pointed elsewhere, other names have to be listed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.connections import MAX_HEAD_BYTES, MAX_HEADERS, MAX_TARGET_BYTES

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LOCAL: Final = "localhost"
SETTING: Final = "allowed_hosts (MNEMOLOG_ALLOWED_HOSTS, --allowed-hosts)"
_KNOWN: Final = 256
"""How many pairs of host and origin are remembered as good."""
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?")


class Hosts:
    """`given` is the host that was asked to be listened on, `bound` the address that it came to."""

    def __init__(self, given: str, bound: str, allowed: Iterable[str] = ()) -> None:
        self._bound = _address(bound)
        if self._bound is None:
            raise Unavailable(f"{bound!r} is no address to listen on")
        self._names = {given.lower().rstrip(".")}
        if self._bound.is_loopback or self._bound.is_unspecified:
            self._names.add(LOCAL)
        self._addresses = {self._bound}
        for one in allowed:
            name = host_name(one)
            if name is None:
                raise Unavailable(
                    f"allowed_hosts takes names and addresses separated by commas, such as "
                    f"memory.example,10.0.0.7; not {one[:80]!r}"
                )
            address = _address(name)
            if address is None:
                self._names.add(name)
            else:
                self._addresses.add(address)

    @property
    def local(self) -> bool:
        """Whether only this machine's users get here."""
        return self._bound is not None and self._bound.is_loopback

    def accepts(self, name: str | None) -> bool:
        """Whether the service may be asked under a name."""
        if name is None or name in self._names:
            return name is not None
        address = _address(name)
        if address is None or self._bound is None:
            return False
        if self._bound.is_unspecified or address in self._addresses:
            return True
        return self._bound.is_loopback and address.is_loopback

    def accepts_origin(self, origin: str, host: str | None) -> bool:
        """Whether a page from `origin` may ask: one of this machine's, of a name that is listed, or
        of the `host` that it asks for."""
        try:
            parts = urlsplit(origin)
            name = host_name(parts.netloc) if parts.scheme in ("http", "https") else None
        except ValueError:
            return False
        if name is None:
            return False
        address = _address(name)
        own = name in self._names or address in self._addresses
        local = address is not None and address.is_loopback and LOCAL in self._names
        return own or local or name == host


def host_name(header: str) -> str | None:
    """The name in a Host header, without a port; None when it is none."""
    found = _HOST.fullmatch(header.strip())
    return (found[1] or found[2]).lower().rstrip(".") if found else None


def _address(name: str) -> Address | None:
    try:
        found = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


class Guard:
    """Lets requests through to `app` that ask for this service, whatever they ask of it, and whose
    end is not in doubt. Says no more than it must to others."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts
        self._good: set[tuple[bytes, bytes]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wrong = self._wrong(scope) if scope["type"] == "http" else None
        await (wrong or self._app)(scope, receive, send)

    def _wrong(self, scope: Scope) -> Response | None:
        host = origin = b""
        length = encoding = False
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin += value
            elif name == b"content-length":
                length = True
            elif name == b"transfer-encoding":
                encoding = True
        wrong = _too_large(scope)
        if wrong is not None:
            return wrong
        if encoding and (length or scope["http_version"] == "1.0"):
            return _error(
                400, "Send Content-Length or Transfer-Encoding, not both: it is unclear what ends"
            )
        if (host, origin) in self._good:
            return None
        wrong = self._unknown(host.decode("latin-1"), origin.decode("latin-1"))
        if wrong is None and len(self._good) < _KNOWN:
            self._good.add((host, origin))
        return wrong

    def _unknown(self, host: str, origin: str) -> Response | None:
        name = host_name(host)
        if not self._hosts.accepts(name):
            return _error(
                421,
                f"This service is not known as {host[:80]!a}: ask for its address, or list the "
                f"name in the setting {SETTING}",
            )
        if origin and not self._hosts.accepts_origin(origin, name):
            return _error(
                403,
                f"Pages from {origin[:80]!a} may not ask this service; its host can be listed in "
                f"the setting {SETTING}",
            )
        return None


def _too_large(scope: Scope) -> Response | None:
    """A header that came in at once is read whatever its size."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if len(scope["raw_path"]) + len(scope["query_string"]) >= MAX_TARGET_BYTES:
        return _error(414, f"The address is too long: at most {MAX_TARGET_BYTES:,} bytes")
    if len(headers) > MAX_HEADERS:
        return _error(431, f"There are {len(headers)} headers; at most {MAX_HEADERS} are taken")
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEAD_BYTES:
        return _error(431, f"The header is too large: at most {MAX_HEAD_BYTES:,} bytes are taken")
    return None


def _error(status: int, sentence: str) -> Response:
    # What follows on such a connection is not read.
    body = msgspec.json.encode({"error": sentence})
    return Response(body, status, {"Connection": "close"}, media_type="application/json")
