"""How callers are told apart, as the settings say."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mnemolog.services.gateway.auth.admission import Authenticator, Everybody
from mnemolog.services.gateway.auth.keys import Keys
from mnemolog.services.gateway.caller import Caller

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings


def authenticator(settings: Settings, bound: tuple[str, int]) -> Authenticator:
    """`bound` is the address and port that it listens on. Raises `Unavailable` when it cannot tell
    anybody apart."""
    if settings.auth == "keys":
        return _keys(settings)
    if settings.auth == "oauth":
        return _oauth(settings, bound)
    return Everybody(Caller(tenant=settings.tenant, actor=settings.actor))


def _keys(settings: Settings) -> Keys:
    found = Keys(settings.keys_path)
    if found.empty:
        sys.stderr.write(
            f"mnemolog: there is no key in {settings.keys_path}, so nobody is let in; "
            f"`mnemolog keys add NAME --data {settings.data_dir}` makes one, also while this runs\n"
        )
    return found


def _oauth(settings: Settings, bound: tuple[str, int]) -> Authenticator:
    # Here and not above: most servers do without.
    from mnemolog.services.gateway.auth.oauth import OAuth
    from mnemolog.services.gateway.auth.trusted import client_secret, reached_at, trusted

    place = reached_at(settings.hosts, *bound)
    found = trusted(os.environ, resource=place, tenant=settings.tenant)
    return OAuth(found, client_secret(os.environ))
