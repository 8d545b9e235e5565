"""A broker that nobody reaches in the clear: every listener of it wants TLS, and a password or a
certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mnemolog.infra.kafka.broker import HOST, Broker
from mnemolog.infra.log.kafka_way import Way
from tests.certificates import Authority
from tests.ports import HeldPort

NAME: Final = "localhost"
"""What its certificate is for: not its address."""
USER: Final = "robot"
PASSWORD: Final = "Grip-12.5N=never-told"
WRONG: Final = "not-the-password-at-all"
_MODULES: Final = "org.apache.kafka.common.security"


class SecuredBroker(Broker):
    """`port` takes a password over TLS, `certified` a client's certificate. `astray` is as `port`,
    and calls itself by a name that its certificate does not have."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        held = [HeldPort(), HeldPort()]
        self.certified, self.astray = (one.number for one in held)
        for one in held:
            one.release()
        self._authority = authority
        self._shown = authority.shows("broker", NAME)
        self.way = Way(authority.believed(), "SCRAM-SHA-512", USER, PASSWORD)

    @property
    def bootstrap(self) -> str:
        return f"{NAME}:{self.port}"

    @property
    def in_the_clear(self) -> int:
        """The controller's, which speaks no TLS."""
        return self._controller_port

    def settings(self) -> dict[str, str]:
        places = {
            "SASL_SSL": (self.port, NAME),
            "SSL": (self.certified, NAME),
            "ASTRAY": (self.astray, HOST),
        }
        controller = f"CONTROLLER://{HOST}:{self._controller_port}"
        listeners = [f"{one}://{HOST}:{port}" for one, (port, _) in places.items()]
        advertised = [f"{one}://{name}:{port}" for one, (port, name) in places.items()]
        more = {
            "listeners": ",".join([*listeners, controller]),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": (
                "SASL_SSL:SASL_SSL,SSL:SSL,ASTRAY:SASL_SSL,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._shown.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        }
        for listener in ("sasl_ssl", "astray"):
            jaas = f"listener.name.{listener}.{{}}.sasl.jaas.config"
            more[jaas.format("scram-sha-512")] = f"{_MODULES}.scram.ScramLoginModule required;"
            more[jaas.format("plain")] = (
                f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            )
        return super().settings() | more

    def users(self) -> list[str]:
        return [f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"]


def secrets_in(*texts: str | Path) -> list[str]:
    """Those passwords that are in some of these texts, or files."""
    said = "".join(one if isinstance(one, str) else one.read_text() for one in texts)
    return [one for one in (PASSWORD, WRONG) if one in said]
