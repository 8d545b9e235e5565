"""The official MCP client finds its way in by itself, from a 401 to a tool call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.auth.issuer import Issuer
from tests.e2e.conftest import PATIENCE_S, Server

BACK = "http://127.0.0.1:9/back"


class Kept:
    """Where the client keeps what it was given."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Goes where the client sends its user, and comes back with what is in the address."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def goes(self, url: str) -> None:
        self.sent.append(url)

    async def comes_back(self) -> AuthorizationCodeResult:
        async with httpx2.AsyncClient() as client:
            answer = await client.get(self.sent[-1])
        assert answer.headers["location"].startswith(BACK)
        found = parse_qs(urlsplit(answer.headers["location"]).query)
        return AuthorizationCodeResult(**{name: values[0] for name, values in found.items()})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_from_a_401_to_a_tool_call(serve: Callable[..., Server], issuer: Issuer, mode: str) -> None:
    server = serve("--auth", "oauth", env={"OAUTH_ISSUER": issuer.url})
    issuer.grant(tenant="ours")
    url, kept, browser = f"{server.url}/mcp", Kept(), Browser()
    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(redirect_uris=[BACK], client_name="e2e"),  # type: ignore[list-item]
        kept,
        browser.goes,
        browser.comes_back,
    )

    async def test() -> None:
        async with httpx2.AsyncClient(auth=provider, timeout=PATIENCE_S) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
                learned = await client.call_tool("learn", {"insight": "cups slip when wet"})
                assert not learned.is_error
                recalled = await client.call_tool("recall", {"query": "cups"})
                assert "cups slip when wet" in recalled.content[0].text  # type: ignore[union-attr]

    asyncio.run(test())
    (asked,) = browser.sent
    query = parse_qs(urlsplit(asked).query)
    assert query["resource"] == [url]
    assert query["scope"] == ["memory:read memory:write"]
    assert kept.tokens is not None and kept.client is not None


def test_a_wider_scope_is_asked_for_when_it_is_needed(
    serve: Callable[..., Server], issuer: Issuer
) -> None:
    server = serve("--auth", "oauth", env={"OAUTH_ISSUER": issuer.url})
    url, kept, browser = f"{server.url}/mcp", Kept(), Browser()
    token = issuer.token(url, scope="memory:read")
    kept.tokens = OAuthToken(access_token=token, scope="memory:read", expires_in=600)
    issuer.grant(tenant="ours")
    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(redirect_uris=[BACK], client_name="e2e"),  # type: ignore[list-item]
        kept,
        browser.goes,
        browser.comes_back,
    )

    async def test() -> None:
        async with httpx2.AsyncClient(auth=provider, timeout=PATIENCE_S) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode="legacy") as client:
                assert not browser.sent
                learned = await client.call_tool("learn", {"insight": "cups slip when wet"})
                assert not learned.is_error

    asyncio.run(test())
    (asked,) = browser.sent
    assert parse_qs(urlsplit(asked).query)["scope"] == ["memory:read memory:write"]
