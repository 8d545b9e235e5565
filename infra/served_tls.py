"""The certificate that clients over HTTP are shown, read anew when its files change.

Connections that are there keep what they began with. What is put into the files and is no
certificate with its key is not used: clients go on getting the one before, and the operator is
told, once on stderr and in the health until it is mended.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

import structlog

from mnemolog.infra.certificates import show
from mnemolog.infra.settings import Settings, SettingsError

LOOK_S: Final = 1.0
"""How often the files are looked at."""
_NAMES: Final = ("tls_cert", "tls_key")

_log = structlog.get_logger("mnemolog.tls")


class Certificate:
    """`context` is what the next connection begins with."""

    def __init__(self, cert: str, key: str) -> None:
        self._files = cert, key
        self._seen = self._look()
        self._next_s = 0.0
        self.context = self._read()
        self.broken: str | None = None
        """What is wrong with the files as they are now."""

    def look(self, now_s: float) -> None:
        """Read the files anew if they are others than before. Raises nothing."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_S
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.context = self._read()
        except SettingsError as error:
            self.broken = f"The new TLS certificate is not used, the one before still is: {error}"
            _log.error(self.broken)
        else:
            self.broken = None
            _log.info("the TLS certificate was read anew")

    def reasons(self) -> list[str]:
        return [] if self.broken is None else [self.broken]

    def _look(self) -> list[tuple[int, ...]]:
        return [_state(Path(file).expanduser()) for file in self._files]

    def _read(self) -> ssl.SSLContext:
        _check_key(Path(self._files[1]).expanduser())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        show(context, *self._files, _NAMES)
        return context


def certificate(settings: Settings) -> Certificate | None:
    """The one that the settings name; None: clients are spoken to in the clear."""
    cert, key = settings.tls_cert, settings.tls_key
    if not cert and not key:
        return None
    if not cert or not key:
        raise SettingsError("Give both or none of --tls-cert and --tls-key (tls_cert, tls_key)")
    return Certificate(cert, key)


def _state(file: Path) -> tuple[int, ...]:
    """What changes when a file does."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def _check_key(file: Path) -> None:
    """Whoever can read it can pass for this service."""
    try:
        found = file.stat()
    except OSError as error:
        raise SettingsError(f"tls_key: {file} cannot be read: {error.strerror}") from None
    # One that root keeps for a group of services is read through the group.
    too_much = 0o077 if found.st_uid == os.geteuid() else 0o037
    if found.st_mode & too_much:
        raise SettingsError(
            f"tls_key: others than this user can read or change {file}; `chmod 600` it"
        )
