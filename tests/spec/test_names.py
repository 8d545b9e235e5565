"""Names that people choose, and the spaces that are made from them."""

from __future__ import annotations

import re

import msgspec
import pytest

from mnemolog.events.arguments import NO_CONTROLS, Refused
from mnemolog.events.envelope import Call
from mnemolog.events.ids import is_tenant, space_of
from mnemolog.services.decider.tool import Asked
from tests.families import CATALOGUE

GOOD = ["default", "a/b c", "抓取", "mañana", " x ", "👩‍🔧", "می‌خواهم", "x" * 128]
BAD = ["", " ", "\n", "kitchen\n", "\nkitchen", "a\0b", "\u200b", "\u200b \ufeff", "\u202eevil"]
BAD += ["a\u2066b", "\x7f", "a\x85b", "\u3164", "tab\there"]


@pytest.mark.parametrize("name", GOOD)
def test_a_name_that_can_be_seen_is_one(name: str) -> None:
    assert re.search(NO_CONTROLS, name)


@pytest.mark.parametrize("name", BAD)
def test_one_that_cannot_or_that_steers_a_terminal_is_none(name: str) -> None:
    assert not re.search(NO_CONTROLS, name)
    for tool, arguments in (
        ("learn", {"insight": "x", "collection": name}),
        ("create_entities", {"entities": [{"name": name, "entityType": "T", "observations": []}]}),
    ):
        assert read(tool, arguments).refused is not None


def read(tool: str, arguments: object, tenant: str = "default") -> Asked:
    data = msgspec.json.encode(arguments)
    call = Call(id="c", tool=tool, arguments=data, space="", received_at_us=0, tenant=tenant)
    return CATALOGUE.read(call, 4)


@pytest.mark.parametrize(
    "tenant", ["", "acme/robot/x", "acme/", "a b", "acme\n", "é", "x" * 65, ".", ".."]
)
def test_no_tenant_can_have_anothers_space(tenant: str) -> None:
    assert not is_tenant(tenant)
    asked = read("learn", {"insight": "x", "collection": "y"}, tenant)
    assert asked.refused is not None and "no tenant's name" in asked.refused.sentence
    with pytest.raises(Refused, match="no tenant's name"):
        CATALOGUE.space_named(tenant, "robot/y")
    with pytest.raises(ValueError, match="no tenant"):
        space_of(tenant, "robot", "y")


def test_a_collection_with_slashes_is_of_its_tenant_alone() -> None:
    asked = read("learn", {"insight": "x", "collection": "x/robot/y"}, "acme")
    assert asked.refused is None and asked.call.space == "acme/robot/x/robot/y"
