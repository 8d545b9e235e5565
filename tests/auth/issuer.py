"""The authorization server as a process, and what tests ask of it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.conftest import PATIENCE_S, environment
from tests.ports import HeldPort

ROOT = Path(__file__).parents[2]


class Issuer:
    """On one port, also when it ends and comes back; then it has new keys."""

    def __init__(self) -> None:
        self._port = HeldPort()
        self.url = self._port.url
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.auth.server", str(self._port.number)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=ROOT, env=environment()
        )
        assert self._process.stdout
        assert json.loads(self._process.stdout.readline())["url"] == self.url

    def stop(self) -> None:
        """Nobody listens there any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            assert self._process.stdout
            self._process.stdout.close()
            self._process = None

    def close(self) -> None:
        self.stop()
        self._port.release()

    def token(
        self,
        audience: str | None = None,
        *,
        header: dict[str, Any] | None = None,
        without: list[str] | None = None,
        opaque: bool = False,
        **claims: Any,
    ) -> str:
        """One that it signed."""
        usual: dict[str, Any] = {"tenant": "ours", "scope": "memory:read memory:write"}
        asked = {
            "claims": usual | ({} if audience is None else {"aud": audience}) | claims,
            "header": header or {},
            "without": without or [],
            "opaque": opaque,
        }
        return str(self._asked("/test/mint", asked)["token"])

    def rotate(self, *keys: tuple[str, str]) -> None:
        """To new keys: algorithm and id."""
        self._asked("/test/change", {"keys": keys})

    def grant(self, **claims: Any) -> None:
        """To whoever comes for a token."""
        self._asked("/test/change", {"grants": claims})

    def revoke(self, token: str) -> None:
        data = urllib.parse.urlencode({"token": token}).encode()
        urllib.request.urlopen(f"{self.url}/revoke", data, timeout=PATIENCE_S).close()

    def asked_for(self, what: str) -> int:
        """How often it was."""
        return int(self._asked("/test/counts").get(what, 0))

    def keys(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._asked("/jwks")["keys"]
        return found

    def _asked(self, path: str, given: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if given is None else json.dumps(given).encode()
        with urllib.request.urlopen(self.url + path, data, timeout=PATIENCE_S) as told:
            found: dict[str, Any] = json.loads(told.read())
        return found
