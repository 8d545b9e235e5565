"""TLS from files: whom a client believes, and what either side shows of itself.

What is wrong with a file is said in a sentence that names the setting; nothing of what is in it.
"""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

from mnemolog.infra.settings import SettingsError


def trusting(ca: str, setting: str) -> ssl.SSLContext:
    """A client's side: the other one has to show a certificate by an authority in the file `ca`
    (empty: by one that the system trusts), for the very name that was asked for."""
    try:
        context = ssl.create_default_context(cafile=_path(ca) if ca else None)
    except ssl.SSLError:
        raise SettingsError(f"{setting}: {ca[:200]} holds no certificate in PEM") from None
    except OSError as error:
        raise SettingsError(f"{setting}: {ca[:200]} cannot be read: {error.strerror}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def show(context: ssl.SSLContext, cert: str, key: str, settings: tuple[str, str]) -> None:
    """Have `context` show the certificate in the file `cert`, with its key from the file `key`, or
    without one from the same. `settings` are what the two are called."""
    for name, file in zip(settings, (cert, key), strict=True):
        if file and not Path(_path(file)).is_file():
            raise SettingsError(f"{name}: {file[:200]} is not there, or is no file")
    try:
        context.load_cert_chain(_path(cert), _path(key) if key else None, password=_unasked)
    except ssl.SSLError as error:
        raise SettingsError(f"{settings[0]}: {_why(error, cert, key)}") from None
    except OSError as error:
        said = f"{cert[:200]} or its key cannot be read: {error.strerror}"
        raise SettingsError(f"{settings[0]}: {said}") from None


def on_this_machine(host: str) -> bool:
    """Whether what is sent to a host, as it is written in a setting, stays here."""
    host = host.strip("[]").lower()
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _path(file: str) -> str:
    return str(Path(file).expanduser())


def _unasked() -> str:
    """OpenSSL would ask whoever sits at the terminal."""
    raise SettingsError("A key that is locked with a password cannot be used: give it without one")


def _why(error: ssl.SSLError, cert: str, key: str) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the key in {(key or cert)[:200]} is not the one of the certificate in {cert[:200]}"
    both = f"{cert[:200]} and {key[:200]}" if key else f"{cert[:200]}"
    return f"no certificate with its key in PEM can be read from {both}"
