"""Opening the vector index that the settings name: in this process, or on a Qdrant server."""

from __future__ import annotations

import logging
import re
import warnings
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mnemolog.infra.certificates import on_this_machine, trusting
from mnemolog.infra.settings import SettingsError
from mnemolog.projections.vectors.points import PREFIX

if TYPE_CHECKING:
    from mnemolog.projections.vectors.client import Server
    from mnemolog.projections.vectors.server import ServerVectors
    from mnemolog.projections.vectors.tail import TailedVectors

EDGE = "edge"

_log = logging.getLogger("mnemolog.vectors")
_warned: set[str] = set()
"""Servers whose key goes over a network in the clear; told once each."""


def open_server(
    url: str,
    dims: int,
    model_name: str,
    api_key: str | None = None,
    prefix: str = PREFIX,
    ca: str = "",
) -> ServerVectors:
    """The index on a server, to feed it, as the projector does. `ca` is the file with the
    authorities that an https server's certificate may be by; empty: the system's."""
    from mnemolog.projections.vectors.server import ServerVectors

    server = _server(url, api_key, ca)
    try:
        return ServerVectors(server, dims, model_name, prefix=prefix)
    except BaseException:
        server.close()
        raise


def open_tailed(
    url: str,
    dims: int,
    model_name: str,
    api_key: str | None = None,
    prefix: str = PREFIX,
    ca: str = "",
) -> TailedVectors:
    """The index on a server that another process feeds, to search it. Needs no answer yet."""
    from mnemolog.projections.vectors.tail import TailedVectors

    return TailedVectors(_server(url, api_key, ca), dims, model_name, prefix=prefix)


def _server(url: str, api_key: str | None, ca: str) -> Server:
    from mnemolog.projections.vectors.client import Server

    url, key = checked_url(url), checked_key(api_key)
    if urlsplit(url).scheme == "https":
        return Server.at(url, key, trusting(ca, "vectors_ca"))
    if ca:
        raise SettingsError(
            "vectors_ca is given, and the URL in vectors begins with http://, which has no use for "
            "it: write https://, or leave vectors_ca out"
        )
    if key is not None:
        _warn_in_the_clear(url)
    return Server.at(url, key)


def _warn_in_the_clear(url: str) -> None:
    # The client warns of it too, every time, wherever the server is.
    warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
    if url in _warned or on_this_machine(urlsplit(url).hostname or ""):
        return
    _warned.add(url)
    _log.warning(
        "the key for the Qdrant server at %s goes there in the clear, for everybody on the network "
        "to read; https:// encrypts it",
        url,
    )


def checked_url(url: str) -> str:
    """`url` if it can be a Qdrant server's; what is wrong is said without repeating what may be
    secret in it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if "@" in url or parts.query or parts.fragment:
        raise SettingsError(
            "vectors: the URL of a Qdrant server has no user, password or query in it; the key "
            "goes into MNEMOLOG_QDRANT_API_KEY"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise SettingsError(
            f"vectors must be `edge` or the URL of a Qdrant server such as "
            f"http://127.0.0.1:6333, not {url[:100]!r}"
        )
    return url


def checked_key(api_key: str | None) -> str | None:
    """The key, or None for an empty one; an error does not repeat it."""
    key = (api_key or "").strip()
    if not re.fullmatch(r"[!-~]{0,4096}", key):
        raise SettingsError(
            "MNEMOLOG_QDRANT_API_KEY (or what is in the file that MNEMOLOG_QDRANT_API_KEY_FILE "
            "names) must be of printable ASCII without spaces, 4096 at most"
        )
    return key or None
