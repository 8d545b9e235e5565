"""What is wrong with what was asked for, as the refusal that its caller gets."""

from __future__ import annotations

from typing import Any

from mnemolog.events.arguments import Refused

INVALID = -32005
"""The code of a call whose arguments are not valid."""


def invalid(field: str, issue: str, value: Any = None) -> Refused:
    """A refusal that names the field and says what is wrong with it."""
    return Refused(f"{field}: {issue}", code=INVALID)
