"""How the episodes family refuses: with the JSON-RPC error codes that its callers were promised."""

from __future__ import annotations

from typing import Any

import msgspec

from mnemolog.events.arguments import Refused, Unfit

SERVER = -32000
NOT_FOUND = -32004
VALIDATION = -32005
STORAGE = -32006
SANDBOX = -32007
TIMEOUT = -32008
MAX_VALUE_BYTES = 200
"""Of a wrong value, told back as it came; of a larger one, how it begins."""


def invalid(field: str, issue: str, value: Any = None, **more: Any) -> Refused:
    """An argument that cannot be taken; `more` is what the error says besides."""
    data = {"field": field, "issue": issue, "value": _told(value), **more}
    return Refused(f"Validation error: {field} {issue}".strip(), code=VALIDATION, data=data)


def not_found(kind: str, name: str) -> Refused:
    """Something that is named and does not exist, here or for this tenant."""
    data = {"resource": kind, "id": name}
    return Refused(f"Resource not found: there is no {kind} {name!r}", code=NOT_FOUND, data=data)


def unavailable(sentence: str) -> Refused:
    """What cannot be answered as things are, whatever the arguments."""
    return Refused(f"Server error: {sentence}", code=SERVER, data={"details": sentence})


def in_codes(refused: Refused) -> Refused:
    """A refusal that came from outside the family, in its form."""
    if isinstance(refused, Unfit):
        null = refused.value is None and refused.issue.endswith("not null")
        missing = null or refused.issue.startswith("is required")
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
    if small:
        return value
    # Here and not above: most calls are right, and everybody waits for a start.
    from mnemolog.events.json_text import shown

    return shown(value)
