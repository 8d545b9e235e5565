"""How callers are told apart, as the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnemolog.services.gateway.auth.admission import Authenticator, Everybody
from mnemolog.services.gateway.caller import Caller

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings


def authenticator(settings: Settings) -> Authenticator:
    return Everybody(Caller(tenant=settings.tenant, actor=settings.actor))
