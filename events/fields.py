"""What the fields of a struct are held to beyond their types.

Plain values, so that they cost nothing to import: a client is greeted before the rest is loaded.
"""

from __future__ import annotations

from typing import Any

UNLISTED: dict[str, Any] = {"unlisted": True}
"""In the schema of a field: what is taken when it comes, and not offered."""

NOT_BLANK = r"\S"
"""Pattern of a text that holds more than white space."""
_CONTROLS = r"\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
_UNSEEN = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0"
)
NO_CONTROLS = rf"^[^{_CONTROLS}]*[^{_UNSEEN}][^{_CONTROLS}]*$(?!\n)"
"""Pattern of a name: something in it can be seen, and it has no control characters, nor those that
turn the direction of writing. Python's `$` would let a line's end pass."""
TENANT = r"^(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,64}\Z"
"""Pattern of a tenant's name. It ends at the first slash of a space, so it must have none: else one
tenant's space could be another's. A directory is called after it, so it is not `.` or `..`."""


class UnknownField(ValueError):
    """Raised by a struct's `__post_init__` for a field that it does not take with these others."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown field {name}")
        self.name = name
