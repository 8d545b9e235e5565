"""API keys: who may come in is in a file (`key_file.py`), looked at with each request."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.auth import key_file
from mnemolog.services.gateway.auth.admission import (
    Authenticator,
    AuthUnavailable,
    Unauthenticated,
    nobody,
)
from mnemolog.services.gateway.auth.key_file import Key, KeysProblem, Stamp
from mnemolog.services.gateway.caller import Caller

_NO_HASH: Final = "0" * 64
"""What a key with an unknown id is compared with: no key has this hash."""
_log = structlog.get_logger()


class Keys(Authenticator):
    """A change of the file holds from the next request on. While it cannot be believed nobody is
    let in. Raises `Unavailable` if that is so at the beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problem: KeysProblem | None = None
        self._known: dict[str, tuple[Key, Caller]] = {}
        self._stamp: Stamp | None = None
        try:
            self._read()
        except KeysProblem as problem:
            raise Unavailable(str(problem)) from None

    @property
    def empty(self) -> bool:
        return not self._known

    async def caller(self, token: str | None, address: str) -> Caller:
        if token is None:
            raise nobody()
        self._look()
        key, caller = self._known.get(key_file.id_of(token) or "", (None, None))
        # Compared in any case, so that the time it takes does not tell which ids there are.
        kept = _NO_HASH if key is None else key.sha256
        if not hmac.compare_digest(key_file.hashed(token), kept) or key is None or caller is None:
            raise Unauthenticated("This key is not known")
        state = key.state(datetime.now(UTC))
        if state != "active":
            raise Unauthenticated(f"This key is {state}")
        return caller

    def _look(self) -> None:
        """Raises `AuthUnavailable` while the file is not to be believed."""
        try:
            if key_file.stamp(self._path) != self._stamp or self._problem is not None:
                self._read()
        except KeysProblem as problem:
            if str(problem) != str(self._problem):
                _log.error("nobody is let in", reason=str(problem))
            self._problem = problem
            raise AuthUnavailable(
                "Keys cannot be checked now; the service's log says why"
            ) from None

    def _read(self) -> None:
        self._stamp, keys = key_file.read(self._path)
        self._known = {key.id: (key, _caller(key)) for key in keys}
        self._problem = None


def _caller(key: Key) -> Caller:
    return Caller(
        tenant=key.tenant,
        actor=key.name,
        scopes=frozenset(key.scopes),
        speaks_for=frozenset(key.speaks_for),
        key=f"{key.tenant}/{key.name}",
    )
