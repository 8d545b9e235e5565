"""How the episodes family refuses: with the JSON-RPC error codes that its callers were promised."""

from __future__ import annotations

from typing import Any

import msgspec

from mnemolog.events.arguments import Refused, Unfit
from mnemolog.events.json_text import shown

SERVER = -32000
NOT_FOUND = -32004
VALIDATION = -32005
SANDBOX = -32007
TIMEOUT = -32008
MAX_VALUE_BYTES = 200
"""Of a wrong value, told back as it came; of a larger one, how it begins."""


def invalid(field: str, issue: str, value: Any = None) -> Refused:
    """An argument that cannot be taken."""
    data = {"field": field, "issue": issue, "value": _told(value)}
    return Refused(f"Validation error: {field} {issue}".strip(), code=VALIDATION, data=data)


def not_found(kind: str, name: str) -> Refused:
    """Something that is named and does not exist, here or for this tenant."""
    data = {"resource": kind, "id": name}
    return Refused(f"Resource not found: there is no {kind} {name!r}", code=NOT_FOUND, data=data)


def in_codes(refused: Refused) -> Refused:
    """A refusal that came from outside the family, in its form."""
    if isinstance(refused, Unfit):
        missing = refused.issue.startswith("is required")
        issue = "Field is required" if missing else refused.issue
        found = invalid(refused.field, issue, refused.value)
        sentence = f"Validation error: {refused.sentence}"
        return Refused(sentence, code=found.code, data=found.data)
    data = {"field": "arguments", "issue": refused.sentence, "value": None}
    return Refused(f"Validation error: {refused.sentence}", code=VALIDATION, data=data)


def _told(value: Any) -> Any:
    try:
        small = len(msgspec.json.encode(value)) <= MAX_VALUE_BYTES
    except (TypeError, UnicodeEncodeError, RecursionError):
        small = False
    return value if small else shown(value)
