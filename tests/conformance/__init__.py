"""The MCP project's own conformance suite, run against the gateway.

What it asks of a server is a family that lives here alone; `python -m tests.conformance` is the
command line of a service that has it beside the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnemolog.services.listed import Listed

if TYPE_CHECKING:
    from mnemolog.services.family import Family

NAME = "probe"
INTRODUCTION = "What the conformance suite asks a server for."


def _load() -> Family:
    from tests.conformance.family import FAMILY

    return FAMILY


LISTED = Listed(NAME, INTRODUCTION, _load)
