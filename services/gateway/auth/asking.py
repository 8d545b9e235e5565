"""Questions to the authorization server: bounded in time and size, and never sent elsewhere."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec

from mnemolog.services.gateway.auth.trusted import is_local

MAX_ANSWER_BYTES: Final = 256 * 1024
ASK_S: Final = 3.0
"""How long an answer may take."""
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


class Away(Exception):
    """There is no usable answer. The words are ours; `reached`: something answered."""

    def __init__(self, why: str, *, reached: bool = True) -> None:
        super().__init__(why)
        self.reached = reached


class Asking:
    """Of one event loop."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx.AsyncClient] = {}

    async def get(self, url: str) -> Any:
        """The JSON there. Raises `Away`."""
        return await self._asked("GET", url, {}, b"")

    async def post(self, url: str, form: Mapping[str, str], client: tuple[str, str]) -> Any:
        """The JSON that a form is answered with; `client` is who asks, and their secret."""
        # As RFC 6749 (2.3.1) has it: both are encoded as in a form first.
        pair = ":".join(map(quote_plus, client))
        headers = {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}", **_FORM}
        return await self._asked("POST", url, headers, urlencode(form).encode())

    async def _asked(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Any:
        try:
            async with asyncio.timeout(ASK_S):
                data = await self._sent(method, url, headers, body)
        except TimeoutError:
            raise Away(f"no answer within {ASK_S:g} s", reached=False) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Away(type(error).__name__, reached=False) from None
        try:
            return msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Away("the answer is no JSON") from None

    async def _sent(self, method: str, url: str, headers: dict[str, str], body: bytes) -> bytes:
        # Not compressed, so that what comes is no larger than what is counted.
        all_ = {"accept": "application/json", "accept-encoding": "identity", **headers}
        client = self._client(is_local(urlsplit(url).hostname or ""))
        async with client.stream(method, url, content=body, headers=all_, timeout=None) as answer:
            if answer.status_code != 200:
                raise Away(f"status {answer.status_code}")
            data = bytearray()
            async for chunk in answer.aiter_raw():
                data += chunk
                if len(data) > MAX_ANSWER_BYTES:
                    raise Away(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
            return bytes(data)

    def _client(self, local: bool) -> httpx.AsyncClient:
        """What is on this machine is not asked for through a proxy."""
        if local not in self._clients:
            self._clients[local] = httpx.AsyncClient(trust_env=not local, follow_redirects=False)
        return self._clients[local]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
