"""The families of the service, put together once for all tests."""

from __future__ import annotations

import msgspec

from mnemolog.services.catalogue import Catalogue, load
from mnemolog.services.decider.decide import Deciding
from mnemolog.services.families import FAMILIES

CATALOGUE = load(FAMILIES)
PROJECTED = CATALOGUE.projected
FACTS = PROJECTED.facts


def deciding(*rules: msgspec.Struct, catalogue: Catalogue = CATALOGUE) -> Deciding:
    """Deciding by the rules of every family, but for those given."""
    own = {
        name: next((one for one in rules if type(one) is type(default)), default)
        for name, default in catalogue.rules.items()
    }
    assert all(one in own.values() for one in rules), "rules of a family that is not there"
    return Deciding(catalogue, own)
