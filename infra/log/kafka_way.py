"""The way to Kafka: in the clear or by TLS, and as whom. Made from the settings in one place, for
every client there is of it.

A client of Kafka says no more of a way that does not lead there than that it does not. `why_not`
goes it once more, and says what stood in it. The password is in no sentence, and in nothing that
is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Any, Final

import aiokafka.errors as kafka_errors
from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.protocol.metadata import MetadataRequest

from mnemolog.infra.certificates import on_this_machine, show, trusting
from mnemolog.infra.settings import Settings, SettingsError, kafka_password

_TRY_S: Final = 5.0
"""How long one broker is waited for when it is asked what is wrong."""
_ALL_S: Final = 15.0
"""How long all of them are."""

_log = logging.getLogger("mnemolog.kafka")


def _without_requests(record: logging.LogRecord) -> bool:
    """Where everything is logged, the client logs what it sends: by PLAIN, the password."""
    return record.levelno > logging.DEBUG


class Way:
    """How brokers are reached, whichever they are."""

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        mechanism: str | None = None,
        username: str = "",
        password: str = "",
    ) -> None:
        self.tls = tls
        self.mechanism = mechanism
        self.username = username
        self._password = password
        if mechanism is not None:
            logging.getLogger("aiokafka.conn").addFilter(_without_requests)

    def __repr__(self) -> str:
        return f"<the way to Kafka by {self.protocol}>"

    @property
    def protocol(self) -> str:
        """As Kafka calls it."""
        below = "PLAINTEXT" if self.tls is None else "SSL"
        return below if self.mechanism is None else f"SASL_{below}"

    def arguments(self) -> dict[str, Any]:
        """What every client of aiokafka is given."""
        given: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.tls}
        if self.mechanism is not None:
            given["sasl_mechanism"] = self.mechanism
            given["sasl_plain_username"] = self.username
            given["sasl_plain_password"] = self._password
        return given

    def credentials(self) -> Any:
        """The same, as Faust takes it."""
        import faust

        if self.mechanism is not None:
            return faust.SASLCredentials(
                username=self.username,
                password=self._password,
                ssl_context=self.tls,
                mechanism=self.mechanism,
            )
        return None if self.tls is None else faust.SSLCredentials(self.tls)


PLAIN: Final = Way()


def way_of(settings: Settings) -> Way:
    """The way that the settings say; a SettingsError tells what is wrong with them."""
    security = settings.kafka_security
    tls = _tls(settings, wanted=security in ("ssl", "sasl_ssl"))
    if not security.startswith("sasl_"):
        _refuse_unused(settings, "kafka_username", f"sasl_{security}")
        return Way(tls)
    password = kafka_password()
    if not settings.kafka_username or not password:
        raise SettingsError(
            f"kafka_security is {security}: give kafka_username, and the password in "
            "MNEMOLOG_KAFKA_PASSWORD or in the file that MNEMOLOG_KAFKA_PASSWORD_FILE names"
        )
    if tls is None:
        _warn_in_the_clear(settings)
    return Way(tls, settings.kafka_mechanism, settings.kafka_username, password)


def _tls(settings: Settings, *, wanted: bool) -> ssl.SSLContext | None:
    if not wanted:
        for name in ("kafka_ca", "kafka_cert", "kafka_key"):
            _refuse_unused(settings, name, settings.kafka_security.replace("plaintext", "ssl"))
        return None
    context = trusting(settings.kafka_ca, "kafka_ca")
    if settings.kafka_cert:
        show(context, settings.kafka_cert, settings.kafka_key, ("kafka_cert", "kafka_key"))
    elif settings.kafka_key:
        raise SettingsError("kafka_key is given, and no kafka_cert that it could be the key of")
    return context


def _refuse_unused(settings: Settings, name: str, needed: str) -> None:
    """Whoever gives it counts on it."""
    if getattr(settings, name):
        raise SettingsError(
            f"{name} is given, and kafka_security is {settings.kafka_security}, which has no use "
            f"for it: set kafka_security to {needed}, or leave {name} out"
        )


def _warn_in_the_clear(settings: Settings) -> None:
    hosts = [one.rpartition(":")[0] for one in (settings.brokers or "").split(",")]
    away = [host for host in hosts if not on_this_machine(host)]
    if away:
        said = "the password" if settings.kafka_mechanism == "PLAIN" else "everything"
        _log.warning(
            "kafka_security is sasl_plaintext: %s goes to %s in the clear, for everybody on the "
            "network to read; sasl_ssl encrypts it",
            said,
            ", ".join(away)[:200],
        )


# --- what is wrong with it -----------------------------------------------------------------------


async def why_not(way: Way, bootstrap: str) -> str | None:
    """What keeps a client from the brokers, as a sentence; None: nothing does, or nothing listens.

    Those that were given are asked first, then those that they name: a client goes on to these.
    """
    found: str | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ALL_S):
            for host, port, _ in collect_hosts(bootstrap, randomize=False):
                wrong, named = await _look(way, host, port)
                found = found or wrong
                for broker in named:
                    wrong, _ = await _look(way, *broker)
                    if wrong is not None:
                        said = f"{host}:{port} calls it so, by its advertised.listeners"
                        return f"{wrong}; {said}"
                if named:
                    return None
    return found


async def _look(way: Way, host: str, port: int) -> tuple[str | None, list[tuple[str, int]]]:
    """What is wrong with a broker, and the brokers that it names."""
    conn: AIOKafkaConnection | None = None
    try:
        async with asyncio.timeout(_TRY_S):
            conn = await create_conn(
                host, port, request_timeout_ms=int(_TRY_S * 1000), **way.arguments()
            )
            told = await conn.send(MetadataRequest([]))
            return None, [(one[1], one[2]) for one in told.brokers]
    except Exception as error:  # Whatever a stranger makes the client raise.
        said = _said(way, error)
        return (None if said is None else f"Kafka at {host}:{port} {said}"), []
    finally:
        if conn is not None:
            with contextlib.suppress(Exception):
                conn.close()


def _said(way: Way, error: Exception) -> str | None:
    """None: nobody is there, which is said elsewhere."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error)
    if isinstance(error, ssl.SSLError):
        return _of_tls(error)
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return f"does not know {way.mechanism}: set kafka_mechanism to one that it has enabled"
    if isinstance(error, kafka_errors.IllegalSaslStateError):
        return "does not ask who somebody is there: set kafka_security to ssl or plaintext"
    if isinstance(error, kafka_errors.SaslAuthenticationFailed):
        return f"refuses the password of {way.username!r}, or does not know that name"
    if isinstance(error, OSError) and not _hung_up(error):
        return None
    if _hung_up(error) and way.tls is not None:
        return (
            "hung up on TLS: it may speak none there (kafka_security plaintext or sasl_plaintext), "
            "or ask for a client's certificate (kafka_cert)"
        )
    if _hung_up(error):
        return (
            "hung up on what was said in the clear: it may want TLS there, or a password "
            "(kafka_security ssl, sasl_ssl or sasl_plaintext)"
        )
    return f"gave no answer that makes sense ({type(error).__name__})"


def _hung_up(error: Exception) -> bool:
    return isinstance(
        error,
        (ConnectionResetError, BrokenPipeError, EOFError, kafka_errors.KafkaConnectionError),
    )


def _of_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
        return (
            "shows a certificate for another name: name it in log as its certificate does "
            f"({error.verify_message})"
        )
    return (
        f"shows a certificate that is not trusted ({error.verify_message}): give the file with its "
        "authority in kafka_ca"
    )


def _of_tls(error: ssl.SSLError) -> str:
    reason = (error.reason or "").replace("_", " ").lower()
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE"):
        return f"speaks no TLS there ({reason}): set kafka_security to plaintext or sasl_plaintext"
    if "CERTIFICATE" in (error.reason or ""):
        return f"wants another certificate of this client's ({reason}): see kafka_cert"
    return f"and this client come to no terms over TLS ({reason or 'no reason given'})"
