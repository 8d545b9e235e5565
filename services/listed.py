"""A family in the list of families."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mnemolog.services.family import Family


class Listed(NamedTuple):
    """What greets a client, and how to get at the rest. The rest is loaded when it is needed: a
    client is greeted before."""

    name: str
    introduction: str
    load: Callable[[], Family]


Families = Sequence[Listed]


def named(families: Families, names: Collection[str]) -> Families:
    """Those of the families that are called so; all of them when none is named."""
    return [one for one in families if not names or one.name in names]
