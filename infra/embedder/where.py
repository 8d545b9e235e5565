"""Where texts may be sent to be embedded, and which key may go with them.

A client names a provider, and may name a URL and the variable that holds the key. A client that
could name both freely could have any secret of the service sent to itself, or use the service to
reach what it cannot reach. So:

- a host is one of the providers' own, over https; or it is on this machine; or the operator lists
  it in the setting `embedding_hosts`;
- a variable is called `…_API_KEY` and is none of the service's own;
- a key goes to the providers' own hosts, and to those that the operator lists: to nobody else on
  this machine, where another user may listen.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection, Mapping
from urllib.parse import quote

import httpx
import msgspec

MAX_URL = 500
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}_API_KEY")
OWN_PREFIX = "MNEMOLOG_"
_KEY = re.compile(r"[!-~]{1,500}")


class WrongTarget(Exception):
    """What a client asked for is not allowed, or not there; `field` is the argument."""

    def __init__(self, field: str, issue: str) -> None:
        super().__init__(f"{field} {issue}")
        self.field = field
        self.issue = issue


class Known(msgspec.Struct, frozen=True):
    """A provider. `url` None: every customer has one of its own; `model` None: so with models."""

    url: str | None
    model: str | None
    variable: str


KNOWN = {
    "openai": Known("https://api.openai.com/v1", "text-embedding-3-small", "OPENAI_API_KEY"),
    "mistral": Known("https://api.mistral.ai/v1", "mistral-embed", "MISTRAL_API_KEY"),
    "cohere": Known("https://api.cohere.com", "embed-v4.0", "COHERE_API_KEY"),
    "azure": Known(None, None, "AZURE_OPENAI_API_KEY"),
}
OWN_HOSTS = frozenset(httpx.URL(one.url).host for one in KNOWN.values() if one.url is not None)


class Target(msgspec.Struct, frozen=True):
    """What to ask, as it was configured; what is empty is the provider's own."""

    provider: str
    model: str
    api_key_env: str = ""
    base_url: str = ""

    @property
    def quoted_model(self) -> str:
        return quote(self.model, safe="")


class Place(msgspec.Struct, frozen=True):
    """Where requests go. `shown` is that without the path; `key` is a secret."""

    provider: str
    url: str
    shown: str
    local: bool
    variable: str = ""
    key: str | None = None

    def __repr__(self) -> str:
        return f"<{self.provider} at {self.shown}>"


class Where:
    """`listed` are hosts, with a port or without, that the operator allows."""

    def __init__(
        self, listed: Collection[str] = (), environ: Mapping[str, str] = os.environ
    ) -> None:
        self._listed = frozenset(one.lower() for one in listed)
        self._environ = environ

    def target(
        self, provider: str, model: str | None, api_key_env: str | None, base_url: str | None
    ) -> Target:
        """What a client's wish comes to; `WrongTarget` when it cannot be met."""
        known = KNOWN[provider]
        name = model or known.model
        if name is None:
            raise WrongTarget("model", f"is required for {provider}: the name of the deployment")
        target = Target(provider, name, api_key_env or "", (base_url or "").rstrip("/"))
        self.place(target)
        return target

    def place(self, target: Target) -> Place:
        known = KNOWN[target.provider]
        written = target.base_url or known.url
        if written is None:
            raise WrongTarget("base_url", f"is required for {target.provider}: your resource's URL")
        url = _url(written)
        host = f"[{url.host}]" if ":" in url.host else url.host.lower()
        with_port = f"{host}:{url.port or {'http': 80, 'https': 443}[url.scheme]}"
        listed = host in self._listed or with_port in self._listed
        own = host in OWN_HOSTS and url.scheme == "https" and url.port is None
        local = _is_local(url.host)
        if not (listed or own or local):
            raise WrongTarget(
                "base_url",
                f"leads to {with_port}, which the operator has not allowed: add it to the setting "
                "embedding_hosts (MNEMOLOG_EMBEDDING_HOSTS)",
            )
        variable = target.api_key_env
        if not variable and (not target.base_url or known.url is None):
            variable = known.variable
        key = self._key(variable) if variable else None
        if key is not None and not (listed or own):
            raise WrongTarget(
                "base_url",
                f"leads to {with_port}, where no key is sent unless the operator adds it to the "
                "setting embedding_hosts (MNEMOLOG_EMBEDDING_HOSTS)",
            )
        return Place(target.provider, written, f"{url.scheme}://{with_port}", local, variable, key)

    def _key(self, variable: str) -> str:
        if not VARIABLE.fullmatch(variable) or variable.startswith(OWN_PREFIX):
            # Whatever was given is not told: it may be the key itself.
            raise WrongTarget(
                "api_key_env",
                "must be the name of an environment variable that ends in _API_KEY, in capitals, "
                f"such as OPENAI_API_KEY, and does not begin with {OWN_PREFIX}",
            )
        key = self._environ.get(variable, "")
        if not key:
            raise WrongTarget(
                "api_key_env",
                f"names {variable}, which is not set in the service's environment: set it there "
                "and start the service again",
            )
        if not _KEY.fullmatch(key):
            raise WrongTarget("api_key_env", f"names {variable}, whose value cannot be a key")
        return key


def _url(written: str) -> httpx.URL:
    """Read by what sends the requests, so that both mean the same host."""
    issue = "must be an http or https URL, such as https://api.openai.com/v1"
    if len(written) > MAX_URL or not re.fullmatch(r"[!-~]+", written) or "\\" in written:
        raise WrongTarget("base_url", issue)
    try:
        url = httpx.URL(written)
    except httpx.InvalidURL:
        raise WrongTarget("base_url", issue) from None
    if url.scheme not in ("http", "https") or not url.host or (url.port or 1) > 65535:
        raise WrongTarget("base_url", issue)
    if url.userinfo or "@" in written:
        raise WrongTarget("base_url", "must not hold a user or a password: use api_key_env")
    if url.query or url.fragment or "?" in written or "#" in written:
        raise WrongTarget("base_url", "must be without a query and a fragment")
    return url


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
