"""Certificates that tests make for themselves: an authority, and what it signs, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Shown(NamedTuple):
    """A certificate's file, that of its key, and one with both."""

    cert: Path
    key: Path
    both: Path


class Authority:
    """Signs for whoever it is told to; `ca` is the file to believe it by."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        made = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(self._identifier(), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = directory / f"{name}.pem"
        self.ca.write_bytes(_pem(made))

    def shows(self, file: str, *names: str, days: int = 30) -> Shown:
        """A certificate for these names and addresses, in files called `file`."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _builder(_name(names[0]), self._name, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([_given(one) for one in names]), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        shown = Shown(*(self._directory / f"{file}.{end}" for end in ("pem", "key", "both")))
        _write(shown.key, secret)
        shown.cert.write_bytes(_pem(made))
        _write(shown.both, secret + _pem(made))
        return shown

    def locked(self, shown: Shown) -> bytes:
        """The key of a certificate, locked with a password."""
        key = serialization.load_pem_private_key(shown.key.read_bytes(), None)
        return key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"a password"),
        )

    def believed(self) -> ssl.SSLContext:
        """What a client needs that believes this authority alone."""
        return ssl.create_default_context(cafile=str(self.ca))

    def _identifier(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int = 30
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 60 * _DAY)
        .not_valid_after(now + days * _DAY)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _given(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(made: x509.Certificate) -> bytes:
    return made.public_bytes(serialization.Encoding.PEM)


def _write(file: Path, secret: bytes) -> None:
    file.touch(0o600)
    file.write_bytes(secret)
