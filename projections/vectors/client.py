"""Talking to a Qdrant server: the connection, and what its failures mean to us.

Whatever goes wrong on the way becomes a `VectorsAway` with a sentence of our own. The key for the
server is in none of them, nor in how a `Server` shows itself.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import TypeVar

import httpx
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mnemolog.projections.ports import VectorsAway

SEARCH_TIMEOUT_S = 2
"""For what somebody waits for. Whole seconds: the client takes no others."""
WRITE_TIMEOUT_S = 15
"""For everything else; a server that is busy building its graph takes its time."""

LEAST_VERSION = (1, 16)
"""Older servers ignore the condition of a conditional write, silently."""

T = TypeVar("T")


class Gone(VectorsAway):
    """The collection that was asked is not there, or not any more."""


class Server:
    """A Qdrant server, through a client that belongs to it from now on."""

    def __init__(self, client: QdrantClient, address: str, api_key: str | None = None) -> None:
        self._client = client
        self._address = address
        self._api_key = api_key
        self._closed = False

    @classmethod
    def at(cls, url: str, api_key: str | None = None, tls: ssl.SSLContext | None = None) -> Server:
        """The server at `url`; `tls` says whom to believe over https. Nothing is asked yet."""
        client = QdrantClient(
            url=url,
            api_key=api_key,
            timeout=WRITE_TIMEOUT_S,
            check_compatibility=False,
            verify=True if tls is None else tls,
        )
        return cls(client, url, api_key)

    def __repr__(self) -> str:
        return f"<Qdrant server at {self._address}>"

    def ask(self, request: Callable[[QdrantClient], T]) -> T:
        """What the server answers to `request`; `VectorsAway` if it does not."""
        if self._closed:
            raise RuntimeError(f"The connection to the Qdrant server at {self._address} is closed")
        try:
            return request(self._client)
        except UnexpectedResponse as error:
            raise self._refused(error) from None
        except ResponseHandlingException as error:
            raise self._away(error.source) from None
        except QdrantException as error:
            raise self._away(error) from None
        except (ValueError, AssertionError) as error:
            # No JSON, or no result in it. When the client stands in for the server itself, this
            # is also how it puts a 404.
            if str(error).startswith("Collection ") and str(error).endswith(" not found"):
                raise Gone(f"{self!r} has no such collection", again=False) from None
            raise self._away(error) from None

    def check_version(self) -> None:
        version = self.ask(lambda client: client.info()).version
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is None or tuple(int(part) for part in numbers.groups()) < LEAST_VERSION:
            least = ".".join(str(part) for part in LEAST_VERSION)
            raise VectorsAway(
                f"{self!r} is of version {version[:40]}; {least} or later is needed", again=False
            )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()

    def _away(self, error: Exception) -> VectorsAway:
        if isinstance(error, httpx.TimeoutException):
            return VectorsAway(f"{self!r} did not answer in time")
        if (wrong := _of_certificate(error)) is not None:
            return VectorsAway(f"{self!r} shows a certificate that {wrong}")
        if isinstance(error, httpx.TransportError):
            return VectorsAway(f"{self!r} cannot be reached ({self._told(error)})")
        return VectorsAway(f"{self!r} gave an answer that cannot be read ({self._told(error)})")

    def _refused(self, error: UnexpectedResponse) -> VectorsAway:
        status = error.status_code or 0
        if status == 404:
            return Gone(f"{self!r} has no such collection", again=False)
        if status in (401, 403):
            return VectorsAway(
                f"{self!r} refuses the key ({status}); set MNEMOLOG_QDRANT_API_KEY", again=False
            )
        again = status in (408, 429) or status >= 500
        told = self._short(error.content.decode(errors="replace"))
        return VectorsAway(f"{self!r} answers {status} ({told})", again=again)

    def _told(self, error: Exception) -> str:
        return self._short(str(error) or type(error).__name__)

    def _short(self, text: str) -> str:
        """What a library or the server said, in short and without the key."""
        text = " ".join(text.split())
        return (text.replace(self._api_key, "…") if self._api_key else text)[:200]


def _of_certificate(error: BaseException | None) -> str | None:
    """What is wrong with the server's certificate, if that is at the bottom of an error."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    if error.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
        return f"is for another name: name it in vectors as it does ({error.verify_message})"
    return f"is not trusted ({error.verify_message}): give its authority's file in vectors_ca"
